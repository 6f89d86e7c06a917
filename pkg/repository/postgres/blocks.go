package postgres

import (
	"math/bits"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Documents are stored in blocks, which say what four letters in a row their texts
// have. A word that a block has no four letters of is in none of its documents: of a
// topic that floods, a search goes past hundreds of thousands by some hundred blocks.
// Digits would be in all blocks, and say nothing; so would three letters, where texts
// have long names that mean nothing.
//
// What is a letter, its bit and how bits are folded are stored: whoever changes that has
// to set block to NULL in all documents.
const (
	// The next block begins after blockDocuments, or when a sixth of the bits is set: with
	// more of them it would have most words by chance; or behind blockSpan, of the messages'
	// time and of ours, for a block is in the way of all searches that are around it.
	// blockKept is for how long one is kept that has no message left: longer than a
	// statement can be under way that stores one.
	blockDocuments = 500
	fullLetters    = 6
	blockSpan      = time.Hour
	blockKept      = 24 * time.Hour
)

// letters is which fours there are: each has a bit, and some share one.
type letters struct {
	bits [mostLetters]byte
	set  int // bits
}

// How many bytes of letters are stored: as few as leave seven of eight bits empty.
const (
	mostLetters   = 1 << 15
	fewestLetters = 1 << 7
	emptyLetters  = 8
)

func (l *letters) add(text string) {
	eachFour(text, func(bit int) {
		if at, mask := bit/8, byte(1<<(bit%8)); l.bits[at]&mask == 0 {
			l.bits[at] |= mask
			l.set++
		}
	})
}

func (l *letters) full() bool { return l.set*fullLetters > mostLetters*8 }

// stored are the letters folded: the bit of a four is then the same one, modulo how
// many there are.
func (l *letters) stored() []byte {
	whole := slices.Clone(l.bits[:])
	for len(whole) > fewestLetters {
		half, set := make([]byte, len(whole)/2), 0
		for i := range half {
			half[i] = whole[i] | whole[i+len(half)]
			set += bits.OnesCount8(half[i])
		}
		if set*emptyLetters > len(half)*8 {
			break
		}
		whole = half
	}
	return whole
}

// eachFour calls do for every four letters in a row, with the number of their bit.
func eachFour(text string, do func(bit int)) {
	var last [4]uint64
	n := 0
	for _, r := range text {
		if !isLetter(r) {
			n = 0
			continue
		}
		last = [4]uint64{last[1], last[2], last[3], uint64(r)}
		if n++; n >= len(last) {
			const golden = 0x9E3779B97F4A7C15 // spreads what is close to one another
			h := last[0]
			for _, r := range last[1:] {
				h = (h*golden)>>7 ^ r
			}
			do(int(h * golden >> (64 - 3 - 15)))
		}
	}
}

// isLetter takes all that is not ASCII for a letter: what else is one changes from year to
// year.
func isLetter(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r >= utf8.RuneSelf
}

// blocked are documents in their blocks.
type blocked struct {
	of      []uuid.UUID // the block of each document
	ids     []uuid.UUID // each block once
	letters [][]byte    // what it says by then
}

// columns are the arguments for a statement that stores them.
func (in blocked) columns() (of, ids, letters *column) {
	of, ids, letters = newColumn(oidUUID, len(in.of), 16), newColumn(oidUUID, len(in.ids), 16), newColumn(oidBytea, len(in.ids), mostLetters)
	for _, id := range in.of {
		of.uuid(id)
	}
	for i, id := range in.ids {
		ids.uuid(id)
		letters.bytes(in.letters[i])
	}
	return of, ids, letters
}

// openBlock is the block that a Store puts documents into. Nobody else does.
type openBlock struct {
	mu        sync.Mutex
	id        uuid.UUID // Nil: none is open
	opened    time.Time
	first     time.Time // of its first message
	documents int
	letters   letters
}

// with has documents stored in the block that is open, and in new ones. A block whose
// documents may not have been stored is not used again.
func (b *openBlock) with(documents []entity.Document, store func(blocked) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := store(b.put(documents))
	if err != nil {
		b.id = uuid.Nil
	}
	return err
}

func (b *openBlock) put(documents []entity.Document) (in blocked) {
	for i := range documents {
		if !b.takes(&documents[i]) {
			b.close(&in)
			b.id, b.opened, b.first, b.documents, b.letters = uuid.New(), time.Now(), documents[i].CreatedAt, 0, letters{}
		}
		b.letters.add(clean(documents[i].Text)) // as it is stored
		b.documents++
		in.of = append(in.of, b.id)
	}
	b.close(&in)
	return in
}

func (b *openBlock) takes(d *entity.Document) bool {
	return b.id != uuid.Nil && b.documents < blockDocuments && !b.letters.full() &&
		time.Since(b.opened) < blockSpan && d.CreatedAt.Sub(b.first).Abs() < blockSpan
}

// inTime sorts documents by their messages' times, so that those of one time are in one
// block.
func inTime(documents []entity.Document) []entity.Document {
	slices.SortStableFunc(documents, func(a, b entity.Document) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return documents
}

// close tells what the block says, if any document of this time is in it.
func (b *openBlock) close(in *blocked) {
	if n := len(in.of); n > 0 && in.of[n-1] == b.id {
		in.ids, in.letters = append(in.ids, b.id), append(in.letters, b.letters.stored())
	}
}
