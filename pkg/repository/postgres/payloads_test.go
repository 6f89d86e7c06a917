package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/ingest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// pendingMessages stores n messages as one batch. Their column payload is still to be filled by FillPayloads.
func pendingMessages(t *testing.T, store *Store, topic string, n int) []uuid.UUID {
	t.Helper()
	var values [][]byte
	for i := range n {
		values = append(values, fmt.Appendf(nil, `{"n": %d}`, i))
	}
	return storeBatch(t, store, topic, values)
}

// storeBatch stores values as one batch through Ingest, in partition 0 of the topic, after the records that the
// partition contains already.
func storeBatch(t *testing.T, store *Store, topic string, values [][]byte) (ids []uuid.UUID) {
	t.Helper()
	refs := check.Must(store.OpenTopics(t.Context(), []repository.Topic{{Name: topic, Incarnation: "1"}}))(t)
	at := repository.Partition{Incarnation: refs[0].Incarnation}
	start := check.Must(store.OpenPosition(t.Context(), []repository.Position{{Partition: at}}))(t)
	from := start[0].Next
	batch := repository.Batch{Ranges: []repository.Range{{Partition: at, From: from, To: from + int64(len(values))}}}
	for i, value := range values {
		m := entity.NewMessage("orders", "boom", time.Unix(0, 0))
		m.Record.Value = value
		m.Record.Size = int64(len(value))
		m.Source = entity.Source{Topic: topic, TopicID: refs[0].TopicID, Incarnation: refs[0].Incarnation, Offset: from + int64(i)}
		batch.Messages = append(batch.Messages, m)
		ids = append(ids, m.ID)
	}
	stored, err := store.Store(t.Context(), batch)
	check.Require(t, err == nil && len(stored.Ranges) == 1, "got %v, %v, want one range stored", stored, err)
	return ids
}

func wantFilled(t *testing.T, store *Store, filled int, found bool) {
	t.Helper()
	n, more, err := store.FillPayloads(t.Context())
	check.True(t, n == filled && more == found && err == nil,
		"got %d filled, batch %t, %v, want %d and %t", n, more, err, filled, found)
}

type payloadState struct {
	Filled, Pending int
	Until           time.Time
}

func payloadsOf(t *testing.T, db *sqlx.DB, table string) (p payloadState) {
	t.Helper()
	check.NoError(t, db.QueryRowx(`SELECT count(payload), count(*) FILTER (WHERE payload_note = 'pending'),
		(SELECT payload_until FROM dlq.payload_progress) FROM dlq.`+table).Scan(&p.Filled, &p.Pending, &p.Until))
	return p
}

// FillPayloads begins with the latest batches, and fills many small batches in one call. PayloadLag is the age of the
// oldest message that waits for its payload.
func TestFillPayloads_LatestFirst(t *testing.T) {
	db := freshDB(t)
	store := New(db)
	pendingMessages(t, store, "orders.dlq", 450)
	between := postgrestest.Get[time.Time](t, db, `SELECT clock_timestamp()`)
	newer := append(pendingMessages(t, store, "orders.dlq", ingest.PayloadMessages-3), pendingMessages(t, store, "orders.dlq", 3)...)
	changed := postgrestest.Get[time.Time](t, db, `SELECT max(updated_at) FROM dlq.dlq_messages`)

	wantFilled(t, store, ingest.PayloadMessages, true)
	wantProjection(t, db, newer[0], "", `{"n": 0}`)
	wantProjection(t, db, newer[len(newer)-1], "", `{"n": 2}`)
	if p := payloadsOf(t, db, "dlq_messages"); p.Pending != 450 || p.Until.After(between) {
		t.Errorf("got %d pending until %s, want 450 and before %s", p.Pending, p.Until, between)
	}
	lag := check.Must(store.PayloadLag(t.Context()))(t)
	check.True(t, lag > 0, "got the lag %s, want one", lag)
	wantFilled(t, store, 450, true)
	wantFilled(t, store, 0, false)
	if p := payloadsOf(t, db, "dlq_messages"); p.Pending != 0 || p.Filled != ingest.PayloadMessages+450 || p.Until.Before(between.Add(-time.Second)) {
		t.Errorf("got %+v, want all filled, until about %s", p, between)
	}
	check.Same(t, check.Must(store.PayloadLag(t.Context()))(t), 0, "lag")
	still := postgrestest.Get[time.Time](t, db, `SELECT max(updated_at) FROM dlq.dlq_messages`)
	check.True(t, still.Equal(changed), "got updated_at %s, want it as it was, %s", still, changed)
}

// A message that another session has locked gets its payload in a later call. Messages that were archived or deleted do
// not block the queue of payloads.
func TestFillPayloads_MovingRows(t *testing.T) {
	db := freshDB(t)
	clock := time.Now()
	store := New(db, WithClock(func() time.Time { return clock }))
	ids := pendingMessages(t, store, "orders.dlq", 10)
	exec(t, db, `UPDATE dlq.dlq_messages SET status = 'RESOLVED', updated_at = now() - interval '40 days', created_at = now() - interval '40 days'
		WHERE id = ANY ($1)`, codec.UUIDArray(ids[:3]))
	exec(t, db, `CALL dlq.archive_old_dlq_messages(30, 1000)`)
	exec(t, db, `DELETE FROM dlq.dlq_messages WHERE id = $1`, ids[3])
	tx := check.Must(db.Beginx())(t)
	check.NoError(t, check.Err(tx.Exec(`UPDATE dlq.dlq_messages SET status = 'RETRYING' WHERE id = $1`, ids[4])))

	wantFilled(t, store, 8, true)
	wantFilled(t, store, 0, false) // the message that another session has locked is left out
	if p := payloadsOf(t, db, "dlq_messages_archive"); p.Filled != 3 || p.Pending != 0 {
		t.Errorf("got %+v of the archive, want 3 filled", p)
	}
	check.NoError(t, tx.Commit())
	clock = clock.Add(2 * ingest.PayloadRest)
	wantFilled(t, store, 1, true)
	wantFilled(t, store, 0, false)
	if p := payloadsOf(t, db, "dlq_messages"); p.Filled != 6 || p.Pending != 0 {
		t.Errorf("got %+v, want 6 filled", p)
	}
	status := postgrestest.Get[string](t, db, `SELECT status FROM dlq.dlq_messages WHERE id = $1`, ids[4])
	check.Same(t, status, "RETRYING", "want the claim untouched")
}

// When a caller of FillPayloads dies, another caller fills its batch after the lease has ended. Callers that run at the
// same time take different batches.
func TestFillPayloads_ManyCallers(t *testing.T) {
	db := freshDB(t)
	clock := time.Now()
	store := New(db, WithClock(func() time.Time { return clock }))
	pendingMessages(t, store, "orders.dlq", 5)
	exec(t, db, `UPDATE dlq.payload_queue SET taken_until = $1`, clock.Add(ingest.PayloadLease)) // a caller that died leaves the queue in this state
	wantFilled(t, store, 0, false)
	clock = clock.Add(ingest.PayloadLease + time.Second)
	for range 20 {
		pendingMessages(t, store, "orders.dlq", 5)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for range 4 {
		all.Go(func() {
			for {
				n, found, err := store.FillPayloads(t.Context())
				if err != nil {
					t.Error(err)
				}
				if !found || err != nil {
					return
				}
				mu.Lock()
				total += n
				mu.Unlock()
			}
		})
	}
	all.Wait()
	p := payloadsOf(t, db, "dlq_messages")
	check.True(t, total == 105 && p.Filled == 105 && p.Pending == 0, "got %d filled and %+v, want 105", total, p)
}

// In the mode PayloadNever, and with a limit of 0 bytes, no message waits for its payload, and the reason why the
// payload is empty is stored.
func TestPayloadNever(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]Option{
		"never": WithPayload(ingest.PayloadNever, ingest.DefaultPayloadLimit), "limit of 0": WithPayload(ingest.PayloadInline, 0),
	} {
		withDB(t, name, func(t *testing.T, db *sqlx.DB) {
			store := New(db, option)
			ids := pendingMessages(t, store, "orders.dlq", 2)
			wantFilled(t, store, 0, false)
			wantProjection(t, db, ids[0], ingest.NoteNever, "")
		})
	}
}

// projections lists values, and for each value what the column payload must contain: the jsonb, or NULL and the note
// that says why. The note "-" stands for NULL without a note.
var projections = []struct {
	name, value string
	note, jsonb string
}{
	{"Object", `{"order": 1}`, "", `{"order": 1}`},
	{"NulEscape", `{"a": "x\u0000y"}`, ingest.NoteText, ""},
	{"NulEscapeInKey", `{"\u0000": 1}`, ingest.NoteText, ""},
	{"EscapedBackslashBeforeU0000", `{"a": "\\u0000"}`, "", `{"a": "\\u0000"}`},
	{"LoneHighSurrogate", `"\ud800"`, ingest.NoteText, ""},
	{"LoneLowSurrogate", `"\udc00"`, ingest.NoteText, ""},
	{"TwoHighSurrogates", `"\ud800\ud800"`, ingest.NoteText, ""},
	{"HighSurrogateThenText", `"\ud83dx"`, ingest.NoteText, ""},
	{"HighSurrogateThenOtherEscape", `"\ud83d\n"`, ingest.NoteText, ""},
	{"SurrogatePair", `"\ud83d\ude00"`, "", `"😀"`},
	{"RawByteFF", "{\"a\": \"\xff\"}", ingest.NoteNotJSON, ""},
	{"RawSurrogateBytes", "\"\xed\xa0\x80\"", ingest.NoteNotJSON, ""},
	{"Overflow", `1e200000`, ingest.NoteNumber, ""},
	{"OverflowWithin", `{"a": [1, 1E+200000]}`, ingest.NoteNumber, ""},
	{"Underflow", `1e-200000`, ingest.NoteNumber, ""},
	{"NumberBomb", "[" + strings.Repeat("1e131071,", 7000) + "1]", ingest.NoteNumber, ""},
	{"NumberBombAboveTheLimit", "[" + strings.Repeat("1e131071,", 8000) + "1]", ingest.NoteTooLarge, ""},
	{"EndlessExponent", "1e" + strings.Repeat("9", 5000), ingest.NoteNumber, ""},
	{"ModestExponent", `1e3`, "", `1000`},
	{"ManyFractionDigits", "0." + strings.Repeat("3", 20_000), ingest.NoteNumber, ""},
	{"ManyDigits", strings.Repeat("3", 60_000), ingest.NoteNumber, ""},
	{"SomeDigits", strings.Repeat("3", 300), "", strings.Repeat("3", 300)},
	{"Depth20000", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), ingest.NoteTooDeep, ""},
	{"Depth513", strings.Repeat("[", 513) + strings.Repeat("]", 513), ingest.NoteTooDeep, ""},
	{"Depth512", strings.Repeat("[", 512) + strings.Repeat("]", 512), "", strings.Repeat("[", 512) + strings.Repeat("]", 512)},
	{"BracketsInText", `"` + strings.Repeat("[", 1000) + `"`, "", `"` + strings.Repeat("[", 1000) + `"`},
	{"DuplicateKeys", `{"a": 1, "a": 2}`, "", `{"a": 2}`},
	{"TenMegabytes", `"` + strings.Repeat("x", 10<<20) + `"`, ingest.NoteTooLarge, ""},
	{"AtTheLimit", `"` + strings.Repeat("x", ingest.DefaultPayloadLimit-2) + `"`, "", `"` + strings.Repeat("x", ingest.DefaultPayloadLimit-2) + `"`},
	{"OverTheLimit", `"` + strings.Repeat("x", ingest.DefaultPayloadLimit-1) + `"`, ingest.NoteTooLarge, ""},
	{"Empty", ``, ingest.NoteNotJSON, ""},
	{"Blank", ` `, ingest.NoteNotJSON, ""},
	{"Null", "\x00null", "", "-"}, // the text \x00null stands for a null value, see valueOf
	{"JSONNull", `null`, "", `null`},
	{"Text", `plain text`, ingest.NoteNotJSON, ""},
	{"TwoValues", `{} {}`, ingest.NoteNotJSON, ""},
	{"HalfAnObject", `{"a": `, ingest.NoteNotJSON, ""},
	{"UnfinishedEscape", `"\u00`, ingest.NoteNotJSON, ""},
	{"ByteOrderMark", "\ufeff{}", ingest.NoteNotJSON, ""},
	{"NaN", `NaN`, ingest.NoteNotJSON, ""},
	{"LeadingZero", `01`, ingest.NoteNotJSON, ""},
	{"ControlCharacterInText", "\"\x01\"", ingest.NoteNotJSON, ""},
	{"RawNul", "\"\x00\"", ingest.NoteNotJSON, ""},
	{"Noncharacter", "\"\uffff\U0010ffff\"", "", "\"\uffff\U0010ffff\""},
}

func TestProjection(t *testing.T) {
	t.Parallel()
	for _, mode := range []ingest.PayloadMode{ingest.PayloadInline, ingest.PayloadBackground} {
		postgrestest.Parallel(t, string(mode), func(t *testing.T) {
			testProjection(t, mode)
		})
	}
}

func testProjection(t *testing.T, mode ingest.PayloadMode) {
	t.Helper()
	db := postgrestest.Open(t)
	var values [][]byte
	for _, p := range projections {
		values = append(values, valueOf(p.value), []byte(`{"neighbour": true}`))
	}
	ids := storeValues(t, db, mode, values)
	for i, p := range projections {
		postgrestest.Parallel(t, p.name, func(t *testing.T) {
			wantProjection(t, db, ids[2*i], p.note, p.jsonb)
			wantProjection(t, db, ids[2*i+1], "", `{"neighbour": true}`)
			m := check.Must(New(db).Get(t.Context(), ids[2*i], -1))(t)
			want := valueOf(p.value)
			check.True(t, bytes.Equal(m.Record.Value, want) && (m.Record.Value == nil) == (want == nil),
				"got the value %.60q, want it byte for byte", m.Record.Value)
		})
	}
}

// TestProjectionRefused: a database whose encoding is not UTF-8 refuses some texts that Projectable allows. Then only
// the messages with such a text get no payload.
func TestProjectionRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range []ingest.PayloadMode{ingest.PayloadInline, ingest.PayloadBackground} {
		postgrestest.Parallel(t, string(mode), func(t *testing.T) {
			testProjectionRefused(t, mode)
		})
	}
}

func testProjectionRefused(t *testing.T, mode ingest.PayloadMode) {
	t.Helper()
	db := latin1(t)
	ids := storeValues(t, db, mode, [][]byte{[]byte(`{"a": 1}`), []byte(`{"price": "5 €"}`), []byte(`"ü"`), []byte(`"→"`), nil})
	wantProjection(t, db, ids[0], "", `{"a": 1}`)
	wantProjection(t, db, ids[1], ingest.NoteRefused, "")
	wantProjection(t, db, ids[2], "", `"ü"`)
	wantProjection(t, db, ids[3], ingest.NoteRefused, "")
	wantProjection(t, db, ids[4], "", "-")
	m := check.Must(New(db).Get(t.Context(), ids[1], -1))(t)
	check.True(t, string(m.Record.Value) == `{"price": "5 €"}`, "got %q, want the value byte for byte", m.Record.Value)
}

// TestProjectableIsSafe: PostgreSQL accepts every value that Projectable allows, and the stored jsonb stays small.
func TestProjectableIsSafe(t *testing.T) {
	db := freshDB(t)
	random := rand.New(rand.NewPCG(4, 2))
	accepted := 0
	for range 3000 {
		value := randomJSON(random, 0)
		if n := random.IntN(4); n == 0 && len(value) > 0 {
			value[random.IntN(len(value))] = byte(random.IntN(256))
		}
		if ingest.Projectable(value, ingest.DefaultPayloadLimit) == "" {
			accepted++
			wantTaken(t, db, value)
		}
	}
	check.True(t, accepted >= 500, "only %d values were accepted, want a real sample", accepted)
}

// FuzzProjectable casts values that Projectable allows to jsonb on a real server, which must accept them.
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
		if ingest.Projectable(value, ingest.DefaultPayloadLimit) == "" {
			wantTaken(t, db, value)
		}
	})
}

// wantTaken casts a value to jsonb with the same SQL expression as the store, and checks the size of the result.
func wantTaken(t *testing.T, db *sqlx.DB, value []byte) {
	t.Helper()
	size := postgrestest.Get[int](t, db, `SELECT octet_length((convert_from($1::bytea, 'UTF8')::jsonb)::text)`, value)
	bound := 1100*len(value) + 1000
	check.Require(t, size <= bound, "%.200q became %d bytes of text, want at most %d", value, size, bound)
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

// storeValues stores values as one batch, through Ingest. It then fills the payloads with FillPayloads, if Store does
// not fill them in this mode.
func storeValues(t *testing.T, db *sqlx.DB, mode ingest.PayloadMode, values [][]byte) []uuid.UUID {
	t.Helper()
	store := New(db, WithPayload(mode, ingest.DefaultPayloadLimit))
	ids := storeBatch(t, store, "orders.dlq", values)
	for found := true; found; {
		var err error
		_, found, err = store.FillPayloads(t.Context())
		check.NoError(t, err)
	}
	return ids
}

func wantProjection(t *testing.T, db *sqlx.DB, id [16]byte, note, jsonb string) {
	t.Helper()
	var got struct {
		Note    *string `db:"payload_note"`
		Payload *string `db:"payload"`
	}
	check.NoError(t, db.Get(&got, `SELECT payload_note, payload::text FROM dlq.dlq_messages WHERE id = $1`, fmt.Sprintf("%x", id)))
	gotNote := ""
	if got.Note != nil {
		gotNote = *got.Note
	}
	check.Same(t, gotNote, note, "note")
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

// latin1 returns a migrated database whose encoding is LATIN1.
func latin1(t *testing.T) *sqlx.DB {
	t.Helper()
	postgrestest.URL(t)
	name := fmt.Sprintf("latin1_%x", entity.NewID())
	postgrestest.AsAdmin(t, "CREATE DATABASE "+name+" ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
	t.Cleanup(func() { postgrestest.AsAdmin(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	db := check.Must(sqlx.Connect("postgres", urlOf(t, stacktest.Postgres(t), name)))(t)
	t.Cleanup(func() { _ = db.Close() })
	check.NoError(t, migrate.Up(t.Context(), db.DB))
	return db
}

func BenchmarkProjectable(b *testing.B) {
	value := []byte(`{"id":12345,"customer":{"id":"C-527","name":"Chiara Sato","country":"JP"},"items":[` +
		strings.Repeat(`{"product":"P-100","title":"Espresso cup, set of 4","quantity":2,"unit_price":24.90},`, 10) +
		`{"product":"P-104"}],"amount":63.30,"currency":"EUR","placed_at":"2026-11-21T09:01:30.553Z"}`)
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if note := ingest.Projectable(value, ingest.DefaultPayloadLimit); note != "" {
			b.Fatal(note)
		}
	}
}

// TestPatchedRetry: a retry with a patch is stored as the action retry_patched, which an older version of the program
// does not know. During a roll-out, that version must not send a record without the redrive's patch. The store returns
// the redrive as a retry.
func TestPatchedRetry(t *testing.T) {
	db := freshDB(t)
	store := New(db)
	seedTen(t, db, "PENDING", "2026-01-01 00:00:00+00")
	for _, c := range []struct {
		name   string
		patch  []byte
		stored string
	}{
		{"Plain", nil, "retry"},
		{"Patched", []byte(`[{"op":"remove","path":"/order"}]`), "retry_patched"},
	} {
		made, err := store.CreateRedrive(t.Context(), repository.NewRedrive{
			ID: uuid.New(), Action: entity.RedriveRetry, Cause: entity.By("a"), BatchSize: 10,
			Selection: entity.Selection{Filter: entity.Filter{Topic: "orders"}}, Options: entity.RedriveOptions{Patch: c.patch},
		})
		check.NoError(t, err)
		stored := postgrestest.Get[string](t, db, `SELECT action FROM dlq.redrives WHERE id = $1`, made.ID)
		check.Same(t, stored, c.stored, "%s: stored as", c.name)
		listed := check.Must(store.Redrives(t.Context(), repository.RedriveQuery{Limit: 1}))(t)
		for _, got := range append(listed, made) {
			check.True(t, got.ID == made.ID && got.Action == entity.RedriveRetry && string(got.Options.Patch) == string(c.patch),
				"%s: got %s of %s with patch %s, want a retry with %s", c.name, got.Action, got.ID, got.Options.Patch, c.patch)
		}
	}
}
