package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// hasBit asks stored letters for a bit as skipQuery does.
func hasBit(stored []byte, bit int) bool {
	return stored[bit/8&(len(stored)-1)]&(1<<(bit%8)) != 0
}

// bitsOf is how many bits of stored letters are set.
func bitsOf(stored []byte) (n int) {
	for _, b := range stored {
		n += bits.OnesCount8(b)
	}
	return n
}

// randomLetters are n letters in a row.
func randomLetters(random *rand.Rand, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte('a' + random.IntN(26))
	}
	return string(text)
}

// wantFound wants stored letters to let every text through that has the word, beside so
// many other letters.
func wantFound(t *testing.T, text, word string, others int) {
	t.Helper()
	if !strings.Contains(text, word) || clean(word) != word {
		return // it cannot be found in it
	}
	var l letters
	l.add(randomLetters(rand.New(rand.NewPCG(1, uint64(others))), others))
	l.add(text)
	stored, asked := l.stored(), fours([]string{word})
	if n := len(stored); n < fewestLetters || n > mostLetters || bits.OnesCount(uint(n)) != 1 {
		t.Fatalf("%d bytes of letters, want a power of two from %d to %d", n, fewestLetters, mostLetters)
	}
	if len(asked) > askedLetters {
		t.Errorf("%q: %d bits are asked for, want at most %d", word, len(asked), askedLetters)
	}
	for _, bit := range asked {
		if !hasBit(stored, bit) {
			t.Errorf("%q is in %q beside %d letters, and bit %d of it is not in the %d bytes", word, text, others, bit, len(stored))
		}
	}
}

// Texts of many scripts, with what comes between letters.
func wordyTexts() []string {
	return []string{
		"order cannot be charged", "größenänderung überprüft, straße", "注文を処理できませんでした。请稍后再试", "заказ не может быть оплачен",
		"abcd1efgh-22ijklm_n", "e\u0301te\u0301 naïve", "😀abcd😀efgh", "aaaaaaaaaa", "\ufffdabcd\ufffd", "100%_of\\them", "x", "", "0123456789",
		"java.lang.nullpointerexception: cannot invoke \"string.length()\" because \"text\" is null at com.example.orders.consumer",
	}
}

// TestLettersLetThrough: whatever part of a text is looked for, the letters that are
// stored of it have it, however far they are folded.
func TestLettersLetThrough(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(8, 1))
	sizes := map[int]bool{}
	for _, others := range []int{0, 500, 1_000, 3_000, 10_000, 20_000, 50_000, 300_000} {
		var l letters
		l.add(randomLetters(random, others))
		sizes[len(l.stored())] = true
		for _, text := range wordyTexts() {
			wantFound(t, text, text, others)
			for range 4 {
				from := random.IntN(len(text) + 1)
				wantFound(t, text, text[from:from+random.IntN(len(text)-from+1)], others)
			}
		}
	}
	if len(sizes) < 6 || !sizes[fewestLetters] || !sizes[mostLetters] {
		t.Errorf("the letters were folded to %v, want to sizes from %d to %d", sizes, fewestLetters, mostLetters)
	}
}

func FuzzLettersLetThrough(f *testing.F) {
	for i, text := range wordyTexts() {
		f.Add(text, uint(i), uint(5+i), uint16(300*i))
	}
	f.Fuzz(func(t *testing.T, text string, from, to uint, others uint16) {
		first := from % uint(len(text)+1)
		wantFound(t, text, text[first:first+to%uint(len(text)+1-int(first))], int(others))
		wantFound(t, clean(text), clean(text), int(others))
	})
}

// TestFours: what is asked for, and of what nothing is.
func TestFours(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		words string
		want  int
	}{
		{"", 0},
		{"abc", 0},
		{"abcd", 1},
		{"abcde", 2},
		{"abc1def", 0},
		{"12345678", 0},
		{"abcd1efgh", 2},
		{"ab cd", 0},
		{"äöü", 0},
		{"äöüß", 1},
		{"注文処", 0},
		{"注文処理", 1},
		{"aaaaaaaa", 1},
		{"abc|def", 0},
		{"abcd|efgh", 2},
		{"abcd|xabcd", 2},
		{"cannot be charged", 3 + 4},
		{"nullpointerexception", askedLetters},
		{"nullpointerexception|cannot be charged", askedLetters},
	} {
		if got := fours(strings.Split(c.words, "|")); len(got) != c.want {
			t.Errorf("%q: got %d bits, want %d", c.words, len(got), c.want)
		}
	}
	seen := map[int]bool{}
	for _, word := range []string{"abcd", "abdc", "bacd", "dcba", "abcе", "bcda", "ab\u00e4d"} { // the last but two ends with a Cyrillic letter
		seen[fours([]string{word})[0]] = true
	}
	if len(seen) != 7 {
		t.Errorf("seven fours have %d bits, want a bit each", len(seen))
	}
}

// TestLettersFold: few fours take little room, and many leave some of theirs empty: a
// word that no text has is then mostly not found.
func TestLettersFold(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(8, 2))
	for _, c := range []struct{ letters, fewest, most int }{
		{0, fewestLetters, fewestLetters},
		{100, fewestLetters, fewestLetters},
		{2_000, 1 << 10, 1 << 12},
		{20_000, 1 << 13, mostLetters},
		{200_000, mostLetters, mostLetters},
		{1_000_000, mostLetters, mostLetters},
	} {
		var l letters
		l.add(randomLetters(random, c.letters))
		stored := l.stored()
		if len(stored) < c.fewest || len(stored) > c.most {
			t.Errorf("%d letters: %d bytes, want %d to %d", c.letters, len(stored), c.fewest, c.most)
		}
		if len(stored) < mostLetters && bitsOf(stored)*emptyLetters > len(stored)*8 {
			t.Errorf("%d letters: %d bits of %d bytes, want more of them empty", c.letters, bitsOf(stored), len(stored))
		}
		if full := c.letters >= 200_000; l.full() != full {
			t.Errorf("%d letters: full is %t, want %t", c.letters, l.full(), full)
		}
	}
	var l letters // the same few again and again
	l.add(strings.Repeat("order cannot be charged, ", 500))
	if n := len(l.stored()); n != fewestLetters {
		t.Errorf("a text that 500 have: %d bytes, want %d", n, fewestLetters)
	}
	through := 0
	for range 1000 {
		absent := fours([]string{randomLetters(random, 10)})
		if !slices.ContainsFunc(absent, func(bit int) bool { return !hasBit(l.stored(), bit) }) {
			through++
		}
	}
	if through > 5 {
		t.Errorf("%d of 1000 words are let through that no text has, want next to none", through)
	}
}

// textsOf are documents of these texts.
func textsOf(texts ...string) []entity.Document {
	documents := make([]entity.Document, len(texts))
	for i, text := range texts {
		documents[i] = entity.Document{MessageID: uuid.New(), Text: text}
	}
	return documents
}

// puts has documents stored in blocks and returns in which.
func puts(t *testing.T, b *openBlock, documents []entity.Document) (got blocked) {
	t.Helper()
	wantNil(t, b.with(documents, func(in blocked) error { got = in; return nil }))
	wantWhole(t, documents, got)
	return got
}

// storing puts documents into one block and returns which, and what is stored of it.
func storing(t *testing.T, b *openBlock, documents []entity.Document) (id uuid.UUID, stored []byte) {
	t.Helper()
	in := puts(t, b, documents)
	if len(in.ids) != 1 {
		t.Fatalf("the documents are in %d blocks, want 1", len(in.ids))
	}
	return in.ids[0], in.letters[0]
}

// wantWhole wants each document in a block that is stored once, and has its letters.
func wantWhole(t *testing.T, documents []entity.Document, in blocked) {
	t.Helper()
	if len(in.of) != len(documents) || len(in.ids) != len(in.letters) {
		t.Fatalf("%d of %d documents are in a block, and %d blocks have letters, want %d", len(in.of), len(documents), len(in.letters), len(in.ids))
	}
	stored := map[uuid.UUID][]byte{}
	for i, id := range in.ids {
		if id == uuid.Nil || stored[id] != nil || !slices.Contains(in.of, id) {
			t.Fatalf("block %d is %s, want one of the documents' and each once", i, id)
		}
		stored[id] = in.letters[i]
	}
	for i, d := range documents {
		letters := stored[in.of[i]]
		if letters == nil {
			t.Fatalf("document %d is in block %s, which is not stored", i, in.of[i])
		}
		eachFour(d.Text, func(bit int) {
			if !hasBit(letters, bit) {
				t.Fatalf("bit %d of document %d is not in its block", bit, i)
			}
		})
	}
}

// TestOpenBlock: when a block ends, the next has none of its letters.
func TestOpenBlock(t *testing.T) {
	t.Parallel()
	wantNext := func(t *testing.T, b *openBlock, before uuid.UUID) {
		t.Helper()
		id, stored := storing(t, b, textsOf("quietly"))
		if id == before {
			t.Error("the block goes on, want a new one")
		}
		if n := bitsOf(stored); n != len(fours([]string{"quietly"})) {
			t.Errorf("the new block has %d bits, want those of its own document", n)
		}
		if again, _ := storing(t, b, textsOf("quietly")); again != id {
			t.Error("the new block ends with its first documents")
		}
	}
	t.Run("AfterItsDocuments", func(t *testing.T) {
		t.Parallel()
		var b openBlock
		first, _ := storing(t, &b, textsOf(make([]string, blockDocuments-1)...))
		if second, _ := storing(t, &b, textsOf("boom boom")); second != first {
			t.Errorf("it ends before %d documents", blockDocuments)
		}
		wantNext(t, &b, first)
	})
	t.Run("InTheMiddleOfAStore", func(t *testing.T) {
		t.Parallel()
		var b openBlock
		random := rand.New(rand.NewPCG(8, 8))
		first, _ := storing(t, &b, textsOf(make([]string, blockDocuments-100)...))
		var texts []string
		for range 100 + 2*blockDocuments + 1 {
			texts = append(texts, randomLetters(random, 20))
		}
		in := puts(t, &b, textsOf(texts...))
		if len(in.ids) != 4 || in.of[0] != first || in.of[99] != first || in.of[100] == first {
			t.Errorf("the documents are in %d blocks, want the rest of the one that is open and 3 more", len(in.ids))
		}
		for i, id := range in.ids[1:3] {
			if n := len(slices.DeleteFunc(slices.Clone(in.of), func(of uuid.UUID) bool { return of != id })); n != blockDocuments {
				t.Errorf("block %d has %d documents, want %d", 1+i, n, blockDocuments)
			}
		}
		if last, _ := storing(t, &b, textsOf("boom")); last != in.ids[3] {
			t.Error("the last block does not stay open")
		}
	})
	t.Run("WhenItIsFullInTheMiddle", func(t *testing.T) {
		t.Parallel()
		var b openBlock
		random := rand.New(rand.NewPCG(8, 9))
		in := puts(t, &b, textsOf(randomLetters(random, 300_000), "boom boom", "boom", randomLetters(random, 300_000), ""))
		if len(in.ids) != 3 || in.of[0] == in.of[1] || in.of[1] != in.of[3] || in.of[3] == in.of[4] {
			t.Errorf("got the blocks %v, want a new one behind each that is full", in.of)
		}
	})
	t.Run("AfterAFailedStore", func(t *testing.T) {
		t.Parallel()
		var b openBlock
		broken := errors.New("connection lost")
		used := map[uuid.UUID]bool{}
		for range 10 {
			good, _ := storing(t, &b, textsOf("stored"))
			if used[good] {
				t.Fatal("a block is used again whose documents may not have been stored")
			}
			var bad uuid.UUID
			err := b.with(textsOf("lost words"), func(in blocked) error { bad = in.ids[0]; return broken })
			if !errors.Is(err, broken) || bad != good {
				t.Fatalf("got %v for block %s, want the store's error for %s", err, bad, good)
			}
			used[bad] = true
		}
		wantNext(t, &b, uuid.Nil)
	})
	t.Run("WhenItIsFull", func(t *testing.T) {
		t.Parallel()
		var b openBlock
		random := rand.New(rand.NewPCG(8, 3))
		first, _ := storing(t, &b, textsOf(randomLetters(random, 20_000)))
		if second, _ := storing(t, &b, textsOf(randomLetters(random, 300_000))); second != first {
			t.Error("it ends before it is full")
		}
		wantNext(t, &b, first)
	})
	t.Run("BehindItsSpan", func(t *testing.T) {
		t.Parallel()
		now := time.Now()
		for _, sign := range []time.Duration{-1, 1} {
			var b openBlock
			at := func(by time.Duration) []entity.Document {
				return []entity.Document{{MessageID: uuid.New(), Text: "boom", CreatedAt: now.Add(sign * by)}}
			}
			first, _ := storing(t, &b, at(0))
			if second, _ := storing(t, &b, at(blockSpan-time.Microsecond)); second != first {
				t.Errorf("it ends before messages of %s", blockSpan)
			}
			in := puts(t, &b, append(at(0), at(blockSpan)...))
			if in.of[0] != first || in.of[1] == first {
				t.Errorf("got the blocks %v, want a new one for a message of %s off", in.of, sign*blockSpan)
			}
		}
	})
	t.Run("AfterItsLife", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var b openBlock
			first, _ := storing(t, &b, textsOf("boom boom"))
			<-time.After(blockSpan - time.Nanosecond)
			if second, _ := storing(t, &b, textsOf("boom boom")); second != first {
				t.Errorf("it ends before %s", blockSpan)
			}
			<-time.After(time.Nanosecond)
			wantNext(t, &b, first)
		})
	})
}

// TestOpenBlockOnlyAdds: what a block said of a document it goes on to say, however much
// more room it takes: any of its stores may be the last.
func TestOpenBlockOnlyAdds(t *testing.T) {
	t.Parallel()
	var b openBlock
	random := rand.New(rand.NewPCG(8, 4))
	var texts []string
	var before []byte
	var first uuid.UUID
	sizes := map[int]bool{}
	for i := range 60 {
		text := randomLetters(random, 10+15*i)
		texts = append(texts, text)
		id, stored := storing(t, &b, textsOf(text))
		if i > 0 && id != first {
			t.Fatalf("store %d is of another block", i)
		}
		first = id
		if len(stored) < len(before) {
			t.Fatalf("store %d: %d bytes behind %d, want no fewer", i, len(stored), len(before))
		}
		for at := range before {
			if len(stored) == len(before) && stored[at]|before[at] != stored[at] {
				t.Fatalf("store %d takes bits back from byte %d", i, at)
			}
		}
		for _, text := range texts {
			eachFour(text, func(bit int) {
				if !hasBit(stored, bit) {
					t.Fatalf("store %d: bit %d of a document of before is gone", i, bit)
				}
			})
		}
		before, sizes[len(stored)] = stored, true
	}
	if len(sizes) < 4 {
		t.Errorf("the block had the sizes %v, want it to grow", sizes)
	}
}

// TestOpenBlockOfMany: stores of one block follow one another, or the one that knows less
// might be the last. What a store was told stays as it is.
func TestOpenBlockOfMany(t *testing.T) {
	t.Parallel()
	var b openBlock
	var inside atomic.Int32
	var all sync.WaitGroup
	var told, then [][]byte // written by one store at a time
	for worker := range 8 {
		all.Go(func() {
			for i := range 50 {
				text := fmt.Sprintf("worker%c%c", 'a'+worker, 'a'+i%26)
				if err := b.with(textsOf(text), func(in blocked) error {
					if inside.Add(1) != 1 {
						t.Error("two stores of a block at once")
					}
					told, then = append(told, in.letters[0]), append(then, bytes.Clone(in.letters[0]))
					inside.Add(-1)
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if b.documents != 8*50 {
		t.Errorf("%d documents in the block, want %d", b.documents, 8*50)
	}
	if !slices.EqualFunc(told, then, bytes.Equal) {
		t.Error("letters change after they were handed out")
	}
}

// TestLettersAreAskedAlike: PostgreSQL finds in stored letters what the program has put
// there, also the last bit of the last byte, which makes a number negative nowhere.
func TestLettersAreAskedAlike(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	random := rand.New(rand.NewPCG(8, 5))
	tx, err := db.Beginx()
	wantNil(t, err)
	defer func() { _ = tx.Rollback() }()
	for _, size := range []int{fewestLetters, 1 << 11, mostLetters} {
		for _, bit := range []int{0, 7, 8, 1023, 1024, 8*mostLetters - 1, random.IntN(8 * mostLetters), random.IntN(8 * mostLetters)} {
			alone, rest := make([]byte, size), bytes.Repeat([]byte{0xff}, size)
			alone[bit/8&(size-1)] = 1 << (bit % 8)
			rest[bit/8&(size-1)] &^= 1 << (bit % 8)
			for want, letters := range map[bool][]byte{true: alone, false: rest} {
				if _, err := tx.Exec(`DELETE FROM dlq.document_blocks`); err != nil {
					t.Fatal(err)
				}
				_, err := tx.Exec(`INSERT INTO dlq.document_blocks (id, oldest, newest, letters) VALUES (gen_random_uuid(), now(), now(), $1)`, letters)
				wantNil(t, err)
				query, args := skipQuery("infinity", []int{bit}, false)
				var found bool
				wantNil(t, tx.Get(&found, `SELECT at IS NOT NULL FROM (`+query+`) s`, args...))
				if found != want || hasBit(letters, bit) != want {
					t.Errorf("bit %d of %d bytes: PostgreSQL says %t, the program %t, want %t", bit, size, found, hasBit(letters, bit), want)
				}
			}
		}
	}
}
