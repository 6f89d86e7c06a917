package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
)

const (
	// blockBytes is the largest size of the blocks that hold decompressed bytes. A record that fits is contiguous in one
	// block.
	blockBytes = 128 << 10
	// firstGrant is the most memory that is allocated for a declared length before its bytes arrive.
	firstGrant = 1 << 20
	growth     = 8
)

// source reads a batch's decompressed bytes. After the first error all reads return zero values; err keeps the error.
type source struct {
	b      []byte    // decompressed bytes that are in memory
	r      io.Reader // reads the decompressed bytes that follow those in b; nil: no bytes follow
	memory *MemoryReservation
	work   int64 // number of bytes that were read from r
	most   int64 // limit of the number of bytes that are read from r
	over   error // error that the source reports when r gives more than most bytes
	block  []byte
	size   int  // size of the next block
	shared bool // records that were returned refer to the memory of block
	spare  []byte
	err    error
}

// fail stores err as the source's error, unless the source already has an error.
func (s *source) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// more reads up to len(p) bytes from r into p, and returns how many bytes it has read.
func (s *source) more(p []byte) int {
	if s.r == nil || s.err != nil || len(p) == 0 {
		return 0
	}
	if s.memory.ended() {
		s.fail(errNoMemory)
		return 0
	}
	for range 100 {
		n, err := s.r.Read(p)
		if s.work += int64(n); s.work > s.most {
			s.fail(s.over)
			return 0
		}
		switch {
		case errors.Is(err, io.EOF):
			s.r = nil
		case err != nil:
			s.fail(fmt.Errorf("decompress: %w", err))
		}
		if n > 0 || err != nil {
			return n
		}
	}
	s.fail(io.ErrNoProgress)
	return 0
}

// fill makes b hold n contiguous bytes, at most blockBytes, and reports whether the source has that many.
func (s *source) fill(n int) bool {
	if len(s.b) >= n {
		return true
	}
	if s.r == nil || s.err != nil {
		return false
	}
	if cap(s.b) < n {
		s.newBlock(n)
	}
	for len(s.b) < n && s.err == nil && s.r != nil {
		s.b = s.b[:len(s.b)+s.more(s.b[len(s.b):cap(s.b)])]
	}
	return len(s.b) >= n && s.err == nil
}

// newBlock moves the bytes that are not read yet to a block of memory with space for n bytes.
func (s *source) newBlock(n int) {
	block := s.block
	if s.shared || cap(block) < n {
		size := max(n, s.size)
		s.size = min(blockBytes, 4*size)
		if err := s.memory.take(size); err != nil {
			s.fail(err)
			return
		}
		block = make([]byte, size)
	}
	s.b = block[:copy(block, s.b)]
	s.block, s.shared = block, false
}

// skip reads the next n bytes without keeping them, and adds them to the hash sum unless sum is nil.
func (s *source) skip(n int64, sum hash.Hash) {
	for n > 0 && s.err == nil {
		if len(s.b) == 0 {
			if s.spare == nil {
				s.spare = make([]byte, 32<<10)
			}
			got := s.more(s.spare[:min(n, int64(len(s.spare)))])
			if got == 0 {
				s.fail(errShort)
				return
			}
			n -= int64(got)
			if sum != nil {
				sum.Write(s.spare[:got])
			}
			continue
		}
		head := s.b[:min(n, int64(len(s.b)))]
		s.b = s.b[len(head):]
		n -= int64(len(head))
		if sum != nil {
			sum.Write(head)
		}
	}
}

// bytes reads the next n bytes into new memory. The memory grows as the bytes arrive, because n may be wrong.
func (s *source) bytes(n int64) []byte {
	out, have := []byte{}, 0
	for int64(have) < n && s.err == nil {
		size := min(n, max(firstGrant, int64(have)*growth))
		if err := s.memory.take(int(size) - have); err != nil {
			s.fail(err)
			return nil
		}
		larger := make([]byte, size)
		copy(larger, out)
		out = larger
		if have == 0 {
			have = copy(out, s.b)
			s.b = s.b[have:]
		}
		for have < len(out) && s.err == nil {
			got := s.more(out[have:])
			if got == 0 {
				s.fail(errShort)
			}
			have += got
		}
	}
	if s.err != nil {
		return nil
	}
	return out
}

func (s *source) varint() int64 {
	if len(s.b) < binary.MaxVarintLen64 {
		s.fill(binary.MaxVarintLen64) // fewer bytes may remain
	}
	v, n := binary.Varint(s.b)
	if s.err != nil {
		return 0
	}
	if n <= 0 {
		s.fail(errShort)
		return 0
	}
	s.b = s.b[n:]
	return v
}

// fixed reads the next n bytes. The returned bytes are valid until the next read from the source.
func (s *source) fixed(n int) []byte {
	if !s.fill(n) {
		s.fail(errShort)
		return make([]byte, n)
	}
	head := s.b[:n]
	s.b = s.b[n:]
	return head
}

// part is the source of a single record, whose length limits every read.
type part struct {
	*source
	left int64
}

// length reads the length of a field of the record; -1 is the length of null.
func (p *part) length() int64 {
	n := p.varint()
	if n < 0 {
		return -1
	}
	p.need(n)
	return n
}

// need makes the source fail unless the record has at least n more bytes.
func (p *part) need(n int64) {
	if n < 0 || n > p.left {
		p.fail(errShort)
	}
}

func (p *part) varint() int64 {
	before := p.consumed()
	v := p.source.varint()
	p.left -= p.consumed() - before
	p.need(0)
	return v
}

// consumed returns how many bytes were read from this source, minus a number that never changes; callers use only
// differences.
func (p *part) consumed() int64 { return p.work - int64(len(p.b)) }

func (p *part) skip(n int64, sum hash.Hash) {
	p.need(n)
	p.source.skip(max(0, n), sum)
	p.left -= n
}

func (p *part) bytes(n int64) []byte {
	p.need(n)
	if p.err != nil {
		return nil
	}
	p.left -= n
	return p.source.bytes(n)
}

// take reads n bytes that are valid until the next read.
func (p *part) take(n int) []byte {
	if p.need(int64(n)); p.err != nil {
		return make([]byte, n)
	}
	p.left -= int64(n)
	return p.fixed(n)
}

const noLimit = math.MaxInt64
