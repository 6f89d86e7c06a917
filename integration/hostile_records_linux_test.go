package integration_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

const ingesterMemory = 256 << 20

// bomb describes a record whose compressed batch is small in Kafka, but which needs much memory when it is read.
type bomb struct {
	name    string
	size    int64 // size of the value in bytes
	headers int   // number of headers with neither name nor value
	named   int   // number of headers with a name and a value
}

// chunk is the text that the values of bombs repeat. No size of a bomb is a multiple of the length of chunk.
var chunk = bytes.Repeat([]byte("0123456789abcdef"), 4099)

// writeValue writes a value of n bytes.
func writeValue(w io.Writer, n int64) error {
	for n > 0 {
		part := chunk[:min(n, int64(len(chunk)))]
		if _, err := w.Write(part); err != nil {
			return err
		}
		n -= int64(len(part))
	}
	return nil
}

// sum returns the SHA-256 of the value of this bomb.
func (b bomb) sum() string {
	h := sha256.New()
	_ = writeValue(h, b.size)
	return hex.EncodeToString(h.Sum(nil))
}

// write writes the bomb as a record of a batch. The parameter delta is the position of the record in the batch.
func (b bomb) write(w io.Writer, delta int) error {
	head := []byte{0, 0} // attributes and timestamp
	head = binary.AppendVarint(head, int64(delta))
	head = binary.AppendVarint(head, 1)
	head = append(head, 'k')
	head = binary.AppendVarint(head, b.size)
	tail := binary.AppendVarint(nil, int64(b.headers+b.named))
	for i := range b.named {
		name, value := fmt.Sprintf("x-%d", i), fmt.Sprintf("value of %d", i)
		tail = binary.AppendVarint(tail, int64(len(name)))
		tail = append(tail, name...)
		tail = binary.AppendVarint(tail, int64(len(value)))
		tail = append(tail, value...)
	}
	length := int64(len(head)+len(tail)) + b.size + 2*int64(b.headers)
	if _, err := w.Write(append(binary.AppendVarint(nil, length), head...)); err != nil {
		return err
	}
	if err := writeValue(w, b.size); err != nil {
		return err
	}
	if _, err := w.Write(tail); err != nil {
		return err
	}
	empty := bytes.Repeat([]byte{0, 1}, 1<<10) // empty name, null value
	for left := b.headers; left > 0; left -= 1 << 10 {
		if _, err := w.Write(empty[:2*min(left, 1<<10)]); err != nil {
			return err
		}
	}
	return nil
}

// batch returns a batch in format 2 with the bombs, compressed with zstd while they are written.
func batch(t *testing.T, bombs ...bomb) []byte {
	t.Helper()
	var records bytes.Buffer
	z, err := zstd.NewWriter(&records, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	check.NoError(t, err)
	for i, b := range bombs {
		check.NoError(t, b.write(z, i))
	}
	check.NoError(t, z.Close())
	const zstdCodec = 4
	now := time.Now().UnixMilli()
	body := binary.BigEndian.AppendUint16(nil, zstdCodec)
	body = binary.BigEndian.AppendUint32(body, uint32(len(bombs)-1))
	body = binary.BigEndian.AppendUint64(body, uint64(now))
	body = binary.BigEndian.AppendUint64(body, uint64(now))
	body = binary.BigEndian.AppendUint64(body, 1<<64-1) // no producer id,
	body = binary.BigEndian.AppendUint16(body, 1<<16-1) // no epoch
	body = binary.BigEndian.AppendUint32(body, 1<<32-1) // and no sequence
	body = binary.BigEndian.AppendUint32(body, uint32(len(bombs)))
	body = append(body, records.Bytes()...)

	out := make([]byte, 8)                                            // the first offset; the broker sets it
	out = binary.BigEndian.AppendUint32(out, uint32(4+1+4+len(body))) // length of the rest
	out = binary.BigEndian.AppendUint32(out, 1<<32-1)                 // no leader epoch
	out = append(out, 2)                                              // the format
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(out, body...)
}

// rawProducer writes given batches without changes.
type rawProducer struct {
	t      *testing.T
	client *kgo.Client
	broker *kgo.Broker
}

func newRawProducer(t *testing.T, brokers []string) *rawProducer {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MaxVersions(kversion.V3_0_0()))
	check.NoError(t, err)
	t.Cleanup(client.Close)
	meta, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), client)
	check.NoError(t, err)
	return &rawProducer{t, client, client.Broker(int(meta.Brokers[0].NodeID))}
}

// produce writes a batch to partition 0 of a topic and returns its first offset.
func (p *rawProducer) produce(topic string, batch []byte) int64 {
	p.t.Helper()
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = batch
	of := kmsg.NewProduceRequestTopic()
	of.Topic, of.Partitions = topic, []kmsg.ProduceRequestTopicPartition{partition}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis, req.Topics = -1, 60_000, []kmsg.ProduceRequestTopic{of}
	res, err := p.broker.Request(p.t.Context(), req)
	if err != nil {
		p.t.Fatalf("produce %d bytes: %v", len(batch), err)
	}
	got := res.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		p.t.Fatalf("produce %d bytes: %v", len(batch), err)
	}
	return got.BaseOffset
}

// storedBomb is a record as the database stores it.
type storedBomb struct {
	ID          string
	Size        *int64
	Sum         *string
	OmittedSize *int64  `db:"omitted_size"`
	OmittedSum  *string `db:"omitted_sum"`
}

// bombAt waits until the record at this offset is stored, and returns its row.
func (s *system) bombAt(topic string, offset int64) (b storedBomb) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("offset %d of %s is stored", offset, topic), func() bool {
		return s.db.Get(&b, `SELECT m.id::text, octet_length(m.value) AS size, encode(sha256(m.value), 'hex') AS sum,
			m.omitted_size, encode(m.omitted_sha256, 'hex') AS omitted_sum
			FROM dlq.messages m JOIN dlq.topics t ON t.id = m.dlq_topic_id WHERE t.name = $1 AND m.dlq_offset = $2`, topic, offset) == nil
	})
	return b
}

func (s *system) stored(topic string) (n int) {
	s.t.Helper()
	if err := s.db.Get(&n, `SELECT count(*) FROM dlq.dlq_messages m JOIN dlq.topics t ON t.id = m.dlq_topic_id WHERE t.name = $1`, topic); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// TestHostileRecords: the ingester and the API keep working within their memory limits with records that need much
// memory when they are read. Meanwhile the ingester also stores the records of other topics. It stores normal records
// completely. Of a record that is too large, it stores the position, the size and the SHA-256.
func TestHostileRecords(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	hostile, honest, bystander := s.topic("hostile.dlq.v1"), s.topic("honest.dlq.v1"), s.topic("bystander.dlq.v1")
	for _, topic := range []string{hostile, honest, bystander} {
		s.kafka.create(topic, 1)
	}
	raw := newRawProducer(t, s.brokers)
	ingester := s.start("ingester", memoryLimit(ingesterMemory))
	ingesterWithin := ingester.confine(ingesterMemory)
	ingester.waitReady()
	others := 0
	flows := func() {
		t.Helper()
		s.kafka.produce(&kgo.Record{Topic: bystander, Value: fmt.Appendf(nil, `{"n":%d}`, others)})
		others++
		eventuallyAs(t, othersFlow, "another topic's record arrives", func() bool { return s.stored(bystander) == others })
	}

	bombs := []bomb{{name: "1 M headers", headers: 1_000_000}, {name: "16 M headers", headers: 16_000_000}, {name: "70 MB", size: 70_000_000}, {name: "300 MB", size: 300_000_000}}
	bombs = append(bombs, pick(nil, []bomb{{name: "64 M headers", headers: 64_000_000}, {name: "2 GB", size: 2_000_000_000}})...)
	ids := map[string]string{}
	for _, b := range bombs {
		offset := raw.produce(hostile, batch(t, b))
		flows()
		got := s.bombAt(hostile, offset)
		ids[b.name] = got.ID
		if b.size > 0 && (got.OmittedSize == nil || *got.OmittedSize != b.size || got.OmittedSum == nil || *got.OmittedSum != b.sum()) {
			t.Errorf("%s: stored as %+v, want its size and SHA-256 %s", b.name, got, b.sum())
		}
	}
	tiny, n := batch(t, bomb{headers: 20_000}), pick(500, 10_000)
	for range n {
		raw.produce(hostile, tiny)
	}
	flows()
	eventuallyWithin(t, pick(2*time.Minute, 15*time.Minute), "all tiny records are stored", func() bool { return s.stored(hostile) == n+len(bombs) })

	alone := []bomb{{size: 63 << 20}, {named: 9999, size: 100}}
	for _, b := range alone {
		s.wantWhole(honest, raw.produce(honest, batch(t, b)), b)
	}
	together := make([]bomb, pick(60, 300)) // in a long run, 400 MB in one batch
	for i := range together {
		together[i] = bomb{size: 1_333_333 + int64(i)}
	}
	first := raw.produce(honest, batch(t, together...))
	flows()
	for i, b := range together {
		s.wantWhole(honest, first+int64(i), b)
	}
	ingesterWithin()

	api := s.start("api", memoryLimit(apiMemory))
	apiWithin := api.confine(apiMemory)
	api.waitReady()
	other := fromAddress(t, "127.0.0.2")
	var all sync.WaitGroup
	var whole atomic.Int64
	for range 3 {
		all.Go(func() {
			for _, name := range []string{"70 MB", "300 MB"} {
				res, err := http.Get(api.url + "/api/v1/dlq/messages/" + ids[name] + "/payload")
				if err != nil {
					t.Errorf("payload of %s: %v", name, err)
					return
				}
				sum := sha256.New()
				n, err := io.Copy(sum, res.Body)
				_ = res.Body.Close()
				t.Logf("payload of %s: %d, %d bytes, %v", name, res.StatusCode, n, err)
				if res.StatusCode == http.StatusOK && hex.EncodeToString(sum.Sum(nil)) != (bomb{size: n}).sum() {
					t.Errorf("payload of %s: %d bytes that differ from the value", name, n)
				}
				if res.StatusCode == http.StatusOK && n == 70_000_000 {
					whole.Add(1)
				}
			}
		})
	}
	for range 20 {
		if got := statusOf(other, api.url+"/api/v1/messages?limit=50"); got != http.StatusOK {
			t.Errorf("during downloads of large payloads another client gets %d, want 200", got)
		}
	}
	all.Wait()
	if whole.Load() == 0 {
		t.Error("no client got the value of 70 MB, want it sent to one client at a time")
	}
	var m struct{ Headers []any }
	if api.call(http.MethodGet, "/api/v1/dlq/messages/"+ids["16 M headers"], 200, &m); len(m.Headers) > 10_000 {
		t.Errorf("%d headers are shown, want the first ones", len(m.Headers))
	}
	apiWithin()
}

// wantWhole checks that the record at this position is stored completely: its value byte for byte, and headers of the
// right size.
func (s *system) wantWhole(topic string, offset int64, b bomb) {
	s.t.Helper()
	got := s.bombAt(topic, offset)
	if got.Size == nil || *got.Size != b.size || got.Sum == nil || *got.Sum != b.sum() || got.OmittedSize != nil {
		s.t.Errorf("a normal record of %d bytes and %d headers is stored as %+v, want it complete", b.size, b.named, got)
	}
	if b.named == 0 {
		return
	}
	var size int
	want := len(binary.AppendUvarint(nil, uint64(b.named)))
	for i := range b.named {
		want += 2 + len(fmt.Sprintf("x-%d", i)) + len(fmt.Sprintf("value of %d", i))
	}
	if err := s.db.Get(&size, `SELECT octet_length(headers) FROM dlq.messages WHERE id = $1::uuid`, got.ID); err != nil || size != want {
		s.t.Errorf("%d headers take %d bytes in the database, %v, want %d: all of them", b.named, size, err, want)
	}
}
