// Package inflate decompresses record batches with bounded memory: a decoder takes at most 20 MB, even if the content
// is larger. Kafka-go's decoders hold a decompressed batch completely in memory, and refuse the window that zstd
// producers above level 19 declare and the header of old LZ4 producers.
package inflate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The codecs of record batches, as their attributes name them.
const (
	None = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

const (
	// maxWindow is the largest window with which a zstd frame is decoded. RFC 8878 requires decoders to support 8 MiB;
	// compression levels above 19 use more.
	maxWindow     = 8 << 20
	maxWindowByte = 13 << 3 // maxWindow as a frame header encodes it
	sharedCount   = 2       // maximum number of batches that are inflated at the same time, each with up to 20 MB for its decoder
)

// Inflater decompresses one batch at a time. Except for zstd's window, the memory of an Inflater does not depend on the
// batch. The zero value is ready for use.
type Inflater struct {
	head    bytes.Reader // a corrected header, which is read in place of the first bytes of an LZ4 batch
	in      bytes.Reader
	zstd    *zstd.Decoder
	gzip    *gzip.Reader
	lz4     *lz4.Reader
	snappy  snappyReader
	scratch []byte // memory for bytes that are skipped
}

var shared = func() chan *Inflater {
	pool := make(chan *Inflater, sharedCount)
	for range sharedCount {
		pool <- new(Inflater)
	}
	return pool
}()

// Acquire waits for one of the inflaters that the process shares. The caller must release the inflater with Release.
func Acquire() *Inflater { return <-shared }

// Release drops the inflater's references to the batch, and makes the inflater available to other callers of Acquire.
func Release(i *Inflater) {
	i.drop()
	shared <- i
}

// Open returns a reader of the decompressed body. The reader is valid until the next call of Open or Release.
func (i *Inflater) Open(codec int, body []byte, magic byte) (io.Reader, error) {
	switch codec {
	case Gzip:
		i.in.Reset(body)
		if i.gzip == nil {
			i.gzip = new(gzip.Reader)
		}
		return i.gzip, i.gzip.Reset(&i.in)
	case Snappy:
		i.snappy.reset(body)
		return &i.snappy, nil
	case LZ4:
		var head []byte
		if magic == 0 {
			head, body = mendLZ4Header(body)
		}
		in := i.joined(head, body)
		if i.lz4 == nil {
			i.lz4 = lz4.NewReader(in)
		} else {
			i.lz4.Reset(in)
		}
		return i.lz4, nil
	case Zstd:
		in := i.joined(narrowWindow(body))
		if i.zstd == nil {
			var err error
			i.zstd, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecodeBuffersBelow(0))
			return i.zstd, err
		}
		return i.zstd, i.zstd.Reset(in)
	default:
		return nil, fmt.Errorf("unknown codec %d", codec)
	}
}

// joined returns a reader of head and then body. It does not copy the body, which may be large.
func (i *Inflater) joined(head, body []byte) io.Reader {
	i.in.Reset(body)
	if len(head) == 0 {
		return &i.in
	}
	i.head.Reset(head)
	return io.MultiReader(&i.head, &i.in)
}

// Scratch returns a buffer into which a caller reads the bytes that it skips.
func (i *Inflater) Scratch() []byte {
	if i.scratch == nil {
		i.scratch = make([]byte, 32<<10)
	}
	return i.scratch
}

func (i *Inflater) drop() {
	i.head.Reset(nil)
	i.in.Reset(nil)
	i.snappy.in, i.snappy.block = nil, nil
	if cap(i.snappy.out) > snappySlack {
		i.snappy.out = nil
	}
}

// narrowWindow lowers a window above maxWindow to maxWindow: head replaces the frame's first bytes, and rest follows. A
// producer that compresses at level 20 or above declares a window of up to 128 MiB even for little data, and the window
// of a single-segment frame is as large as its content. A frame that declares a window above maxWindow is readable with
// the smaller window if none of its references goes back further than maxWindow.
func narrowWindow(frame []byte) (head, rest []byte) {
	const descriptor, window, dictionary, singleSegment = 4, 5, 3, 1 << 5
	if !bytes.HasPrefix(frame, zstdMagic) || len(frame) <= window {
		return nil, frame
	}
	flags := frame[descriptor]
	if flags&singleSegment == 0 {
		if frame[window] <= maxWindowByte {
			return nil, frame
		}
		return append(bytes.Clone(frame[:window]), maxWindowByte), frame[window+1:]
	}
	// RFC 8878, 3.1.1.1: after the flags, a header has the window, which is absent in a single-segment frame, then the
	// dictionary's id, then the size of the content. When the single-segment flag is removed and a window is inserted,
	// the size field keeps its length, because only a size field of one byte depends on that flag.
	at := descriptor + 1 + [...]int{0, 1, 2, 4}[flags&dictionary]
	size := uint64(0)
	switch sizes := frame[min(at, len(frame)):]; {
	case flags>>6 == 2 && len(sizes) >= 4:
		size = uint64(binary.LittleEndian.Uint32(sizes))
	case flags>>6 == 3 && len(sizes) >= 8:
		size = binary.LittleEndian.Uint64(sizes)
	}
	if size <= maxWindow {
		return nil, frame
	}
	return append(bytes.Clone(frame[:descriptor]), flags&^singleSegment, maxWindowByte), frame[descriptor+1:]
}

var zstdMagic = []byte("\x28\xb5\x2f\xfd")

// mendLZ4Header corrects the wrong header checksum of format 0 producers: head replaces the header, and rest follows.
func mendLZ4Header(frame []byte) (head, rest []byte) {
	const flags, contentSize = 4, 1 << 3
	end := flags + 2
	if len(frame) > end && frame[flags]&contentSize != 0 {
		end += 8
	}
	if len(frame) <= end {
		return nil, frame
	}
	head = bytes.Clone(frame[:end+1])
	head[end] = byte(xxh32(frame[flags:end]) >> 8)
	return head, frame[end+1:]
}

// xxh32 returns the hash XXH32, with seed 0, of less than 16 bytes.
func xxh32(b []byte) uint32 {
	const p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
	h := p5 + uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*p3, 17) * p4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}

const (
	// snappyWindow is the largest distance of a reference within a large block. Java's and C's encoders make blocks of at
	// most 64 KiB; Go's encoder makes one block of a batch and refers back within the whole block.
	snappyWindow = 16 << 20
	snappySlack  = 4 << 20   // decoded bytes before the window are dropped when there are this many
	snappyWhole  = 128 << 10 // a block with up to this decoded size is decoded at once, not piece by piece
)

var (
	errSnappy       = errors.New("corrupt snappy block")
	errSnappyWindow = fmt.Errorf("a snappy block refers back more than %d bytes", snappyWindow)
)

// snappyReader decodes snappy blocks, alone or in the frames of the Java library.
type snappyReader struct {
	in     []byte // blocks that are not decoded yet
	framed bool
	block  []byte // the rest of the current block
	left   int64  // number of bytes to which the rest of the current block will be decoded
	begin  int    // index in out of the first byte to which the block may refer back
	out    []byte // the last decoded bytes: the window to which the block may refer back, and bytes that the caller has not read yet
	read   int    // number of bytes of out that the caller has read
}

var xerial = []byte("\x82SNAPPY\x00")

func (s *snappyReader) reset(body []byte) {
	*s = snappyReader{in: body, out: s.out[:0]}
	if bytes.HasPrefix(body, xerial) && len(body) >= len(xerial)+8 {
		s.framed, s.in = true, body[len(xerial)+8:]
	}
}

// Read implements io.Reader.
func (s *snappyReader) Read(p []byte) (int, error) {
	for s.read == len(s.out) {
		if err := s.decode(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.out[s.read:])
	s.read += n
	return n, nil
}

// decode appends decoded bytes to out, or returns io.EOF.
func (s *snappyReader) decode() error {
	if s.left == 0 {
		if len(s.block) > 0 {
			return errSnappy
		}
		return s.nextBlock()
	}
	if over := len(s.out) - snappyWindow; over >= snappySlack {
		copy(s.out, s.out[over:])
		s.out = s.out[:snappyWindow]
		s.read -= over
		s.begin = max(0, s.begin-over)
	}
	for stop := len(s.out) + 64<<10; s.left > 0 && len(s.out) < stop; {
		if err := s.element(); err != nil {
			return err
		}
	}
	return nil
}

func (s *snappyReader) nextBlock() error {
	block := s.in
	if len(block) == 0 {
		return io.EOF
	}
	if s.framed {
		if len(block) < 4 {
			return errSnappy
		}
		n := int64(binary.BigEndian.Uint32(block))
		if n > int64(len(block)-4) {
			return errSnappy
		}
		block, s.in = block[4:4+n], block[4+n:]
	} else {
		s.in = nil
	}
	size, n := binary.Uvarint(block)
	// Three bytes of a block decode to at most 64 bytes, so the size is at most 22 times the length of the block.
	if n <= 0 || size > 1<<32-1 || size/22 > uint64(len(block)) {
		return errSnappy
	}
	s.read, s.begin, s.out = 0, 0, s.out[:0]
	if size <= snappyWhole {
		var err error
		s.out, err = snappy.Decode(s.out[:cap(s.out)], block)
		return err
	}
	// The allocation is bounded by the input, because the size is at most 22 times its length.
	if need := int(min(size, snappyWindow+snappySlack)) + 128<<10; cap(s.out) < need {
		s.out = make([]byte, 0, need)
	}
	s.block, s.left = block[n:], int64(size)
	return nil
}

// element decodes one literal or copy.
func (s *snappyReader) element() error {
	b := s.block
	if len(b) == 0 {
		return errSnappy
	}
	tag, length, offset, used := b[0]&3, int(b[0]>>2)+1, 0, 1
	number := func(bytes int) (n int) {
		if len(b) < used+bytes {
			return -1
		}
		for i := range bytes {
			n |= int(b[used+i]) << (8 * i)
		}
		used += bytes
		return n
	}
	switch tag {
	case 0:
		if length > 60 {
			length = number(length-60) + 1
		}
		if length <= 0 || length > len(b)-used || int64(length) > s.left {
			return errSnappy
		}
		s.out = append(s.out, b[used:used+length]...)
		s.block, s.left = b[used+length:], s.left-int64(length)
		return nil
	case 1:
		length = int(b[0]>>2&7) + 4
		if offset = number(1); offset >= 0 {
			offset |= int(b[0]>>5) << 8
		}
	case 2:
		offset = number(2)
	default:
		offset = number(4)
	}
	if offset <= 0 || int64(length) > s.left {
		return errSnappy
	}
	if from := len(s.out) - offset; from < s.begin {
		if s.begin == 0 && len(s.out) >= snappyWindow {
			return errSnappyWindow
		}
		return errSnappy
	}
	for range length { // the copied range may include bytes that this loop writes
		s.out = append(s.out, s.out[len(s.out)-offset])
	}
	s.block, s.left = b[used:], s.left-int64(length)
	return nil
}
