package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// projections are values and what becomes of them in the column payload: a note
// why it is NULL, or the jsonb. "-" stands for NULL without a note.
var projections = []struct {
	name, value string
	note, jsonb string
}{
	{"Object", `{"order": 1}`, "", `{"order": 1}`},
	{"NulEscape", `{"a": "x\u0000y"}`, noteText, ""},
	{"NulEscapeInKey", `{"\u0000": 1}`, noteText, ""},
	{"EscapedBackslashBeforeU0000", `{"a": "\\u0000"}`, "", `{"a": "\\u0000"}`},
	{"LoneHighSurrogate", `"\ud800"`, noteText, ""},
	{"LoneLowSurrogate", `"\udc00"`, noteText, ""},
	{"TwoHighSurrogates", `"\ud800\ud800"`, noteText, ""},
	{"HighSurrogateThenText", `"\ud83dx"`, noteText, ""},
	{"HighSurrogateThenOtherEscape", `"\ud83d\n"`, noteText, ""},
	{"SurrogatePair", `"\ud83d\ude00"`, "", `"😀"`},
	{"RawByteFF", "{\"a\": \"\xff\"}", noteNotJSON, ""},
	{"RawSurrogateBytes", "\"\xed\xa0\x80\"", noteNotJSON, ""},
	{"Overflow", `1e200000`, noteNumber, ""},
	{"OverflowWithin", `{"a": [1, 1E+200000]}`, noteNumber, ""},
	{"Underflow", `1e-200000`, noteNumber, ""},
	{"NumberBomb", "[" + strings.Repeat("1e131071,", 7000) + "1]", noteNumber, ""},
	{"NumberBombAboveTheLimit", "[" + strings.Repeat("1e131071,", 8000) + "1]", noteTooLarge, ""},
	{"EndlessExponent", "1e" + strings.Repeat("9", 5000), noteNumber, ""},
	{"ModestExponent", `1e3`, "", `1000`},
	{"ManyFractionDigits", "0." + strings.Repeat("3", 20_000), noteNumber, ""},
	{"ManyDigits", strings.Repeat("3", 60_000), noteNumber, ""},
	{"SomeDigits", strings.Repeat("3", 300), "", strings.Repeat("3", 300)},
	{"Depth20000", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), noteTooDeep, ""},
	{"Depth513", strings.Repeat("[", 513) + strings.Repeat("]", 513), noteTooDeep, ""},
	{"Depth512", strings.Repeat("[", 512) + strings.Repeat("]", 512), "", strings.Repeat("[", 512) + strings.Repeat("]", 512)},
	{"BracketsInText", `"` + strings.Repeat("[", 1000) + `"`, "", `"` + strings.Repeat("[", 1000) + `"`},
	{"DuplicateKeys", `{"a": 1, "a": 2}`, "", `{"a": 2}`},
	{"TenMegabytes", `"` + strings.Repeat("x", 10<<20) + `"`, noteTooLarge, ""},
	{"AtTheLimit", `"` + strings.Repeat("x", DefaultPayloadLimit-2) + `"`, "", `"` + strings.Repeat("x", DefaultPayloadLimit-2) + `"`},
	{"OverTheLimit", `"` + strings.Repeat("x", DefaultPayloadLimit-1) + `"`, noteTooLarge, ""},
	{"Empty", ``, noteNotJSON, ""},
	{"Blank", ` `, noteNotJSON, ""},
	{"Null", "\x00null", "", "-"}, // stands for Kafka's null
	{"JSONNull", `null`, "", `null`},
	{"Text", `plain text`, noteNotJSON, ""},
	{"TwoValues", `{} {}`, noteNotJSON, ""},
	{"HalfAnObject", `{"a": `, noteNotJSON, ""},
	{"UnfinishedEscape", `"\u00`, noteNotJSON, ""},
	{"ByteOrderMark", "\ufeff{}", noteNotJSON, ""},
	{"NaN", `NaN`, noteNotJSON, ""},
	{"LeadingZero", `01`, noteNotJSON, ""},
	{"ControlCharacterInText", "\"\x01\"", noteNotJSON, ""},
	{"RawNul", "\"\x00\"", noteNotJSON, ""},
	{"Noncharacter", "\"\uffff\U0010ffff\"", "", "\"\uffff\U0010ffff\""},
}

func TestProjection(t *testing.T) {
	t.Parallel()
	for _, mode := range []PayloadMode{PayloadInline, PayloadBackground} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			testProjection(t, mode)
		})
	}
}

func testProjection(t *testing.T, mode PayloadMode) {
	t.Helper()
	db := postgrestest.Open(t)
	var values [][]byte
	for _, p := range projections {
		values = append(values, valueOf(p.value), []byte(`{"neighbour": true}`))
	}
	ids := storeValues(t, db, mode, values)
	for i, p := range projections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			wantProjection(t, db, ids[2*i], p.note, p.jsonb)
			wantProjection(t, db, ids[2*i+1], "", `{"neighbour": true}`)
			m, err := New(db).Get(t.Context(), ids[2*i], -1)
			wantNil(t, err)
			if want := valueOf(p.value); !bytes.Equal(m.Record.Value, want) || (m.Record.Value == nil) != (want == nil) {
				t.Errorf("got the value %.60q, want it byte for byte", m.Record.Value)
			}
		})
	}
}

// TestProjectionRefused: a database that is not in UTF-8 refuses text that ours
// cannot know of. Only the message to blame loses its projection.
func TestProjectionRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range []PayloadMode{PayloadInline, PayloadBackground} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			testProjectionRefused(t, mode)
		})
	}
}

func testProjectionRefused(t *testing.T, mode PayloadMode) {
	t.Helper()
	db := latin1(t)
	ids := storeValues(t, db, mode, [][]byte{[]byte(`{"a": 1}`), []byte(`{"price": "5 €"}`), []byte(`"ü"`), []byte(`"→"`), nil})
	wantProjection(t, db, ids[0], "", `{"a": 1}`)
	wantProjection(t, db, ids[1], noteRefused, "")
	wantProjection(t, db, ids[2], "", `"ü"`)
	wantProjection(t, db, ids[3], noteRefused, "")
	wantProjection(t, db, ids[4], "", "-")
	if m, err := New(db).Get(t.Context(), ids[1], -1); err != nil || string(m.Record.Value) != `{"price": "5 €"}` {
		t.Errorf("got %q, %v, want the value byte for byte", m.Record.Value, err)
	}
}

// TestProjectableIsSafe: what our rules let through PostgreSQL takes, and what
// it makes of it stays small.
func TestProjectableIsSafe(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	random := rand.New(rand.NewPCG(4, 2))
	accepted := 0
	for range 3000 {
		value := randomJSON(random, 0)
		if n := random.IntN(4); n == 0 && len(value) > 0 {
			value[random.IntN(len(value))] = byte(random.IntN(256))
		}
		if projectable(value, DefaultPayloadLimit) == "" {
			accepted++
			wantTaken(t, db, value)
		}
	}
	if accepted < 500 {
		t.Errorf("only %d values were accepted, want a real sample", accepted)
	}
}

// FuzzProjectable asks the real server about everything that is accepted.
func FuzzProjectable(f *testing.F) {
	db := postgrestest.Open(f)
	for _, p := range projections {
		if len(p.value) < 2000 {
			f.Add([]byte(p.value))
		}
	}
	random := rand.New(rand.NewPCG(7, 7))
	for range 50 {
		f.Add(randomJSON(random, 0))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if projectable(value, DefaultPayloadLimit) == "" {
			wantTaken(t, db, value)
		}
	})
}

// wantTaken casts a value as the store does and bounds what comes out.
func wantTaken(t *testing.T, db *sqlx.DB, value []byte) {
	t.Helper()
	var size int
	if err := db.Get(&size, `SELECT octet_length((convert_from($1::bytea, 'UTF8')::jsonb)::text)`, value); err != nil {
		t.Fatalf("%.200q is projectable and was refused: %v", value, err)
	}
	if bound := 1100*len(value) + 1000; size > bound {
		t.Fatalf("%.200q became %d bytes of text, want at most %d", value, size, bound)
	}
}

func randomJSON(random *rand.Rand, depth int) []byte {
	list := func(open, end byte, element func() []byte) []byte {
		out := []byte{open}
		for i := range random.IntN(4) {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, element()...)
		}
		return append(out, end)
	}
	text := func() []byte {
		pieces := []string{`a`, `→`, `\n`, `\u0041`, `\u0000`, `\ud83d\ude00`, `\ud800`, `\udc00`, `\\`, `\"`, `\/`, "😀", "\u00e9", `\uDBFF\uDFFF`, `\\u0000`}
		out := []byte{'"'}
		for range random.IntN(4) {
			out = append(out, pieces[random.IntN(len(pieces))]...)
		}
		return append(out, '"')
	}
	n := random.IntN(10)
	switch {
	case depth < 6 && n < 3:
		return list('[', ']', func() []byte { return randomJSON(random, depth+1) })
	case depth < 6 && n < 6:
		return list('{', '}', func() []byte { return append(append(text(), ':'), randomJSON(random, depth+1)...) })
	case n < 8:
		return text()
	default:
		numbers := []string{"0", "-0", "1.5", "-1e5", "1e999", "1e1001", "1E-1000", "0.000000000000000000000001", "123456789012345678901234567890", "1e-99999", "2E+3"}
		return []byte(numbers[random.IntN(len(numbers))])
	}
}

func valueOf(text string) []byte {
	if text == "\x00null" {
		return nil
	}
	return []byte(text)
}

// storeValues stores values as one batch, by the way records come in, and fills the
// payloads that the mode leaves for later.
func storeValues(t *testing.T, db *sqlx.DB, mode PayloadMode, values [][]byte) []uuid.UUID {
	t.Helper()
	store := New(db, WithPayload(mode, DefaultPayloadLimit))
	ids := storeBatch(t, store, "orders.dlq", values)
	for found := true; found; {
		var err error
		_, found, err = store.FillPayloads(t.Context())
		wantNil(t, err)
	}
	return ids
}

func wantProjection(t *testing.T, db *sqlx.DB, id [16]byte, note, jsonb string) {
	t.Helper()
	var got struct {
		Note    *string `db:"payload_note"`
		Payload *string `db:"payload"`
	}
	wantNil(t, db.Get(&got, `SELECT payload_note, payload::text FROM dlq.dlq_messages WHERE id = $1`, fmt.Sprintf("%x", id)))
	gotNote := ""
	if got.Note != nil {
		gotNote = *got.Note
	}
	if gotNote != note {
		t.Errorf("got the note %q, want %q", gotNote, note)
	}
	wantNull := note != "" || jsonb == "-"
	switch {
	case wantNull && got.Payload != nil:
		t.Errorf("got the payload %.60s, want NULL", *got.Payload)
	case !wantNull && got.Payload == nil:
		t.Errorf("got NULL, want the payload %.60s", jsonb)
	case !wantNull && !sameJSON(*got.Payload, jsonb):
		t.Errorf("got the payload %.60s, want %.60s", *got.Payload, jsonb)
	}
}

func sameJSON(a, b string) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, []byte(a)) == nil && json.Compact(&y, []byte(b)) == nil && x.String() == y.String()
}

// latin1 is a migrated database in another encoding than UTF-8.
func latin1(t *testing.T) *sqlx.DB {
	t.Helper()
	postgrestest.URL(t)
	name := fmt.Sprintf("latin1_%x", entity.NewID())
	asAdmin(t, "CREATE DATABASE "+name+" ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
	t.Cleanup(func() { asAdmin(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	db, err := sqlx.Connect("postgres", urlOf(t, stacktest.Postgres(t), name))
	wantNil(t, err)
	t.Cleanup(func() { _ = db.Close() })
	wantNil(t, migrate.Up(t.Context(), db.DB))
	return db
}

func BenchmarkProjectable(b *testing.B) {
	value := []byte(`{"id":12345,"customer":{"id":"C-527","name":"Chiara Sato","country":"JP"},"items":[` +
		strings.Repeat(`{"product":"P-100","title":"Espresso cup, set of 4","quantity":2,"unit_price":24.90},`, 10) +
		`{"product":"P-104"}],"amount":63.30,"currency":"EUR","placed_at":"2026-11-21T09:01:30.553Z"}`)
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if note := projectable(value, DefaultPayloadLimit); note != "" {
			b.Fatal(note)
		}
	}
}
