package protocol

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker/brokertest"
)

// TestZstdWindows: a frame is readable when it refers back at most 8 MiB, even if its header declares a larger window.
func TestZstdWindows(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	noise := func(n int) []byte {
		var out bytes.Buffer
		for i := range n / 8 {
			_ = binary.Write(&out, binary.BigEndian, uint64(i)*0x9e3779b97f4a7c15)
		}
		return out.Bytes()
	}
	values := map[string][]byte{"Repeats": bytes.Repeat([]byte("x"), 20<<20), "Noise": noise(9 << 20), "Small": []byte("x")}
	const skippable = "\x50\x2a\x4d\x18\x01\x00\x00\x00\xff"
	for name, test := range map[string]struct {
		value   string
		options []zstd.EOption
		prefix  string
	}{
		"SingleSegment":            {"Repeats", []zstd.EOption{zstd.WithWindowSize(32 << 20), zstd.WithSingleSegment(true)}, ""},
		"SingleSegmentOfRawBlocks": {"Noise", []zstd.EOption{zstd.WithWindowSize(32 << 20), zstd.WithSingleSegment(true)}, ""},
		"SingleSegmentSum":         {"Repeats", []zstd.EOption{zstd.WithWindowSize(32 << 20), zstd.WithSingleSegment(true), zstd.WithEncoderCRC(true)}, ""},
		"SmallSegment":             {"Small", []zstd.EOption{zstd.WithSingleSegment(true)}, ""},
		"Window":                   {"Repeats", []zstd.EOption{zstd.WithWindowSize(128 << 20), zstd.WithSingleSegment(false)}, ""},
		"Skippable":                {"Repeats", []zstd.EOption{zstd.WithWindowSize(8 << 20), zstd.WithSingleSegment(false)}, skippable},
	} {
		t.Run(name, func(t *testing.T) {
			var raw bytes.Buffer
			value := values[test.value]
			header := binary.AppendVarint([]byte{0, 0, 0, 1}, int64(len(value))) // attributes, deltas, no key
			raw.Write(binary.AppendVarint(nil, int64(len(header)+len(value)+1)))
			raw.Write(header)
			raw.Write(value)
			raw.WriteByte(0) // no headers
			w := check.Must(zstd.NewWriter(nil, test.options...))(t)
			body := append([]byte(test.prefix), w.EncodeAll(raw.Bytes(), nil)...)
			data := brokertest.Batch(brokertest.Zstd, 0, 1, body)
			var p FetchedPartition
			got := allocated(func() { p, _ = streamed(t, data, DefaultLimits(), 4<<20) })
			check.True(t, got <= decoderBytes+int64(len(value))*5/4, "allocated %d bytes for a value of %d", got, len(value))
			check.Require(t, len(p.Records) == 1 && p.Records[0].Defect == nil && bytes.Equal(p.Records[0].Value, value),
				"records = %d, %+v, want the value", len(p.Records), p.Records[0].Defect)
		})
	}
}
