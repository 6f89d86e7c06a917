package postgres

import (
	"context"
	"database/sql"
	"math/bits"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
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

	// askedLetters is how many fours of a filter are looked for: the first few tell.
	askedLetters = 12
	// skippedBlocks is how many blocks are gone through at once, and blocksAround how
	// many there may be around one moment.
	skippedBlocks = 1000
	blocksAround  = 100
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

// fours are bits that every text has which has the words.
func fours(words []string) (asked []int) {
	for _, word := range words {
		eachFour(word, func(bit int) {
			if len(asked) < askedLetters && !slices.Contains(asked, bit) {
				asked = append(asked, bit)
			}
		})
	}
	return asked
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

// skipQuery is the first moment from the given one on at which a document may have the
// bits: at, or NULL when none has. Behind skippedBlocks it stops, and says that it did.
// Documents that are in no block are found by themselves.
func skipQuery(from any, asked []int, ascending bool) (string, []any) {
	a := &arguments{first: 1}
	start := a.arg(from) + "::timestamptz"
	var each []string
	for _, bit := range asked {
		each = append(each, "get_byte(substring(b.letters FROM ("+a.arg(bit/8)+"::int & (octet_length(b.letters) - 1)) + 1 FOR 1), 0) & "+
			number(1<<(bit%8))+" <> 0")
	}
	has, first, edge, behind, order := and(each...), "greatest", "newest", "<", " DESC"
	if ascending {
		first, edge, behind, order = "least", "oldest", ">", ""
	}
	return `
	WITH next AS MATERIALIZED (
		SELECT at, nth FROM (
			SELECT ` + edge + ` AS at, letters, row_number() OVER (ORDER BY ` + edge + order + `) AS nth FROM dlq.document_blocks
			WHERE ` + edge + ` ` + behind + ` ` + start + ` ORDER BY ` + edge + order + ` LIMIT ` + number(skippedBlocks) + `
		) b WHERE nth = ` + number(skippedBlocks) + ` OR ` + has + ` ORDER BY at` + order + ` LIMIT 1
	), around AS MATERIALIZED (
		SELECT FROM (
			SELECT letters, row_number() OVER () AS nth FROM dlq.document_blocks
			WHERE tstzrange(oldest, newest, '[]') @> ` + start + ` LIMIT ` + number(blocksAround) + `
		) b WHERE nth = ` + number(blocksAround) + ` OR ` + has + ` LIMIT 1
	), found AS (
		SELECT CASE WHEN EXISTS (SELECT FROM around) THEN ` + start + ` ELSE ` + first + `((SELECT at FROM next), (
			SELECT d.created_at FROM dlq.message_documents d
			WHERE d.block IS NULL AND d.created_at ` + behind + `= ` + start + ` ORDER BY d.created_at` + order + ` LIMIT 1
		)) END AS at
	)
	SELECT at, coalesce(at = (SELECT at FROM next WHERE nth = ` + number(skippedBlocks) + `), false) AS stopped FROM found`, a.values
}

// skipped is how far a search may go.
type skipped struct {
	to      repository.Place // where the page begins then
	moved   bool             // that is another place than before
	stopped bool             // there may be more to skip
	none    bool             // no document is left
}

// skip goes past documents that cannot have a filter's words.
func skip(ctx context.Context, tx *sqlx.Tx, q repository.SearchQuery) (skipped, error) {
	asked := fours(q.Filter.Words)
	if len(asked) == 0 || q.Sort.By != repository.ByCreated {
		return skipped{to: q.After}, nil
	}
	from := beginOf(q)
	query, args := skipQuery(from.argument(), asked, q.Sort.Ascending)
	var found []struct { // one row
		At      sql.NullTime `db:"at"`
		Stopped bool         `db:"stopped"`
	}
	if err := readRows(ctx, tx, &found, query, args...); err != nil {
		return skipped{}, err
	}
	switch at := found[0].At; {
	case !at.Valid:
		return skipped{to: q.After, none: true}, nil
	case !from.unbounded && at.Time.Equal(from.at):
		return skipped{to: q.After}, nil
	default:
		return skipped{to: placeBefore(at.Time, q.Sort.Ascending), moved: true, stopped: found[0].Stopped}, nil
	}
}

// begin is where a list begins in time.
type begin struct {
	at        time.Time
	unbounded bool // it begins with the first message that there is
	ascending bool
}

func beginOf(q repository.SearchQuery) begin {
	b := begin{unbounded: true, ascending: q.Sort.Ascending}
	narrow := func(at time.Time) {
		if at = entity.Moment(at); b.unbounded || at.After(b.at) == b.ascending {
			b.at, b.unbounded = at, false
		}
	}
	edge := q.Filter.CreatedBefore
	if b.ascending {
		edge = q.Filter.CreatedAfter
	}
	if !edge.IsZero() {
		narrow(edge)
	}
	if q.After != (repository.Place{}) {
		narrow(q.After.CreatedAt)
	}
	return b
}

func (b begin) argument() any {
	switch {
	case !b.unbounded:
		return b.at
	case b.ascending:
		return "-infinity"
	}
	return "infinity"
}

// placeBefore is such that what was created at a moment or behind it stands behind the
// place.
func placeBefore(at time.Time, ascending bool) repository.Place {
	if ascending {
		return repository.Place{CreatedAt: at.Add(-time.Microsecond), ID: uuid.Max}
	}
	return repository.Place{CreatedAt: at.Add(time.Microsecond)}
}
