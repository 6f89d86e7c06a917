package repositorytest

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func recordPromises() []promise {
	return []promise{
		{"IsInTheTrailAtTheStoresMoment", recordTrail},
		{"IsFoundByKindAndAction", recordFound},
		{"WithoutAnOperationEachIsOne", recordEach},
		{"SameOperationIsRecordedOnce", recordOnce},
		{"TakesTextThatIsNone", recordText},
		{"PerformedOnKnowsWhatAnOperationDid", performedOn},
		{"RedrivesShowTheWholeSelection", redriveSelectionWhole},
		{"RedrivesShowTheirOptions", redriveOptionsWhole},
		{"RedrivesOfOneActor", redrivesOfActor},
	}
}

func (h *harness) record(e entity.AuditEntry) {
	h.Helper()
	check.NoError(h, h.Repository.Record(h.Context(), e))
}

func recordTrail(h *harness) {
	id := uuid.New()
	e := entity.AuditEntry{
		ID: 99, At: time.Unix(1, 0), Action: entity.ActionUnmask, Kind: entity.KindMessage, ObjectID: id,
		From: "a", To: "b", RetryCount: 2, Class: entity.BadRecord, LastError: "field $.card", Cause: fullCause(),
	}
	h.record(e)
	bare := entity.AuditEntry{Action: entity.ActionAnnotate, Kind: entity.KindGroup, ObjectID: id, Cause: fullCause()}
	h.record(bare)
	e.At, bare.At, e.ID = h.clock.Kept(), h.clock.Kept(), 0
	h.wantEntries(id, e, bare)
}

func recordFound(h *harness) {
	h.record(entity.AuditEntry{Action: entity.ActionUnmask, Kind: entity.KindList, LastError: "q=card", Cause: fullCause()})
	h.record(entity.AuditEntry{Action: entity.ActionUnmask, Kind: entity.KindMessage, ObjectID: uuid.New(), Cause: fullCause()})
	got := h.trail(repository.TrailQuery{Kind: entity.KindList, Action: entity.ActionUnmask})
	check.True(h, len(got) == 1 && got[0].LastError == "q=card" && got[0].ObjectID == uuid.Nil,
		"trail of lists = %+v, want one without an object", got)
}

func recordEach(h *harness) {
	id := uuid.New()
	for range 2 {
		h.record(entity.AuditEntry{Action: entity.ActionUnmask, Kind: entity.KindMessage, ObjectID: id, Cause: entity.By("alice")})
	}
	check.Same(h, len(h.entriesOf(id)), 2, "entries of the trail")
}

func recordOnce(h *harness) {
	e := entity.AuditEntry{Action: entity.ActionUnmask, Kind: entity.KindMessage, ObjectID: uuid.New(), Cause: fullCause()}
	other := e
	other.ObjectID = uuid.New()
	for range 3 {
		h.record(e)
		h.record(other)
	}
	if a, b := len(h.entriesOf(e.ObjectID)), len(h.entriesOf(other.ObjectID)); a != 1 || b != 1 {
		h.Errorf("trail has %d and %d entries, want one for each object", a, b)
	}
}

func recordText(h *harness) {
	h.record(entity.AuditEntry{
		Action: entity.ActionUnmask, Kind: entity.KindList, LastError: "a\x00b\xff", Cause: entity.AuditInfo{Actor: "a\x00", Reason: "\xff"},
	})
	check.Same(h, len(h.trail(repository.TrailQuery{Kind: entity.KindList})), 1, "entries of the trail")
}

func performedOn(h *harness) {
	cause := fullCause()
	a, b, c := h.in(entity.Dead), h.in(entity.Dead), h.in(entity.Dead)
	h.change(entity.RedriveRequeue, cause, a.ID, b.ID)
	h.change(entity.RedriveRequeue, fullCause(), c.ID)
	asked := []uuid.UUID{c.ID, b.ID, uuid.New(), a.ID, b.ID}
	for _, q := range []struct {
		operation uuid.UUID
		action    entity.Action
		ids, want []uuid.UUID
	}{
		{cause.Operation, entity.ActionRequeue, asked, []uuid.UUID{b.ID, a.ID}},
		{cause.Operation, entity.ActionDelete, asked, nil},
		{uuid.New(), entity.ActionRequeue, asked, nil},
		{uuid.Nil, entity.ActionAttempt, asked, nil},
		{cause.Operation, entity.ActionRequeue, nil, nil},
	} {
		got := check.Must(h.Repository.PerformedOn(h.Context(), q.operation, q.action, q.ids))(h)
		h.wantSameIDs("PerformedOn "+string(q.action), got, q.want)
	}
}

// wholeFilter returns a filter in which every field except MessageIDs is set.
func wholeFilter(h *harness) entity.Filter {
	topics := check.Must(entity.ParseTopicPatterns("topics", "orders*", "^pay(ments)?$"))(h)
	visible := check.Must(entity.ParseTopicPatterns("visible", "*"))(h)
	at := func(d time.Duration) time.Time { return h.clock.Kept().Add(d) }
	return entity.Filter{
		Topic: original, Topics: topics, Statuses: []entity.Status{entity.Pending, entity.Dead}, ErrorClass: "Timeout",
		ConsumerGroup: "billing", Dialect: "spring-dlt", Group: uuid.New(), UnknownOrigin: true,
		CreatedAfter: at(-4 * time.Hour), CreatedBefore: at(-3 * time.Hour), RetriedAfter: at(-2 * time.Hour), RetriedBefore: at(-time.Hour),
		Key:     []byte{},
		Headers: []entity.HeaderMatch{{Name: "a"}, {Name: "b", Value: []byte{0, 0xff}}, {Name: "c", Value: []byte{}}},
		Fields:  []entity.FieldMatch{{Path: "$.a"}, {Path: "$.b[*]", Values: []string{"1", `"x"`}}},
		Words:   []string{"timeout", "two words"}, Visible: &visible,
	}
}

// redriveSelectionWhole: a redrive returns its selection as it was requested, but without the ids, even when some
// conditions match no message.
func redriveSelectionWhole(h *harness) {
	id := h.put().ID
	for name, f := range map[string]entity.Filter{
		"everything": wholeFilter(h), "a key": {Key: []byte("k")}, "nothing visible": {Visible: &entity.TopicPatterns{}},
	} {
		n := retryAll(func(n *repository.NewRedrive) { n.Selection = entity.Selection{IDs: []uuid.UUID{id}, Filter: f} })
		h.create(n)
		got, err := h.Repository.Redrive(h.Context(), n.ID)
		want := (entity.Selection{Filter: f})
		check.True(h, err == nil && reflect.DeepEqual(got.Selection, want),
			"%s: selection =\n     %+v, %v\nwant %+v", name, got.Selection, err, want)
	}
}

func redriveOptionsWhole(h *harness) {
	h.put()
	for _, o := range []entity.RedriveOptions{
		{OriginalTopic: "orders", Patch: []byte(`[{"op":"remove","path":"/a"}]`), Rate: 0.5, Requeue: true},
		{},
	} {
		n := retryAll(func(n *repository.NewRedrive) { n.Options = o })
		h.create(n)
		got, err := h.Repository.Redrive(h.Context(), n.ID)
		check.True(h, err == nil && reflect.DeepEqual(got.Options, o), "options = %+v, %v, want %+v", got.Options, err, o)
	}
}

func redrivesOfActor(h *harness) {
	h.put()
	var made []uuid.UUID
	for i := range 6 {
		n := retryAll(func(n *repository.NewRedrive) { n.Cause = entity.By([]string{"alice", "bob"}[i%2]) })
		h.create(n)
		made = append(made, n.ID)
		h.clock.Advance(time.Second)
	}
	want := func(q repository.RedriveQuery, want ...uuid.UUID) []entity.Redrive {
		found := check.Must(h.Repository.Redrives(h.Context(), q))(h)
		got := check.Each(found, func(r entity.Redrive) uuid.UUID { return r.ID })
		h.wantIDs("Redrives of "+q.Actor, got, want)
		return found
	}
	page := want(repository.RedriveQuery{Actor: "bob", Limit: 2}, made[5], made[3])
	place := repository.Cursor{CreatedAt: page[1].CreatedAt, ID: page[1].ID}
	want(repository.RedriveQuery{Actor: "bob", Limit: 2, Before: place}, made[1])
	want(repository.RedriveQuery{Actor: "bob", Limit: 9, States: []entity.RedriveState{entity.RedrivePaused}})
	want(repository.RedriveQuery{Actor: "nobody\x00", Limit: 9})
	want(repository.RedriveQuery{Limit: 3}, made[5], made[4], made[3])
}

func bytesPromises() []promise {
	return []promise{
		{"HeadersKeepOrderRepeatsNullsAndBytes", bytesHeaders},
		{"KeyAndValueAreAnyBytes", bytesKeyAndValue},
		{"NullAndEmptyComeInApart", bytesNullAndEmpty},
		{"PoisonJSONIsKeptAsItIs", bytesPoisonJSON},
		{"ManyHeadersAreKept", bytesManyHeaders},
		{"LargeValueIsKept", bytesLargeValue},
		{"LongErrorMessageIsKept", bytesLongError},
		{"TheBatchIsTheCallersOwn", bytesOwnBatch},
	}
}

// allBytes returns every byte once, including NUL and bytes that never occur in UTF-8.
func allBytes() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// wantIngested stores a message with Store, and checks that Get and Load return each byte of the message's record.
func wantIngested(h *harness, what string, change func(*entity.Message)) {
	h.Helper()
	s := h.open(deadLetter, 0, 0)
	b := h.batch(s, h.position(s, 0), 1, change)
	h.store(b, 1)
	want := b.Messages[0].Record
	got := h.get(b.Messages[0].ID).Record
	check.True(h, sameRecord(got, want), "%s: Get = %+.300v, want %+.300v", what, &got, &want)
	loaded, _, err := h.Repository.Load(h.Context(), ids(b.Messages), math.MaxInt64)
	check.True(h, err == nil && len(loaded) == 1 && sameRecord(loaded[0].Record, want),
		"%s: Load = %+.300v, %v, want %+.300v", what, loaded, err, &want)
}

// sameRecord compares every byte of two records. Null is not equal to an empty value. But no headers are equal to an
// empty list of headers, as in Kafka.
func sameRecord(a, b entity.Record) bool {
	if len(a.Headers) == 0 && len(b.Headers) == 0 {
		a.Headers, b.Headers = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

func bytesHeaders(h *harness) {
	headers := []entity.Header{
		{Key: "z", Value: []byte("1")},
		{Key: "a", Value: []byte("2")},
		{Key: "z", Value: []byte("1")},
		{Key: "z", Value: nil},
		{Key: "z", Value: []byte{}},
		{Key: "", Value: []byte("no name")},
		{Key: "", Value: nil},
		{Key: "\xff\xfe not UTF-8", Value: []byte("x")},
		{Key: "nul\x00nul", Value: []byte("\x00")},
		{Key: string(allBytes()), Value: allBytes()},
		{Key: strings.Repeat("k", 70_000), Value: bytes.Repeat([]byte("v"), 70_000)},
	}
	wantIngested(h, "headers", func(m *entity.Message) { m.Record.Headers = headers })
}

func bytesKeyAndValue(h *harness) {
	for _, b := range [][]byte{allBytes(), {0}, []byte("\x00\x00"), []byte("\xc3\x28"), []byte(`\x41`), []byte(`\\`), []byte("NULL")} {
		wantIngested(h, fmt.Sprintf("%.20q", b), func(m *entity.Message) { m.Record.Key, m.Record.Value = b, b })
	}
}

func bytesNullAndEmpty(h *harness) {
	wantIngested(h, "null", func(m *entity.Message) { m.Record.Key, m.Record.Value = nil, nil })
	wantIngested(h, "empty", func(m *entity.Message) { m.Record.Key, m.Record.Value = []byte{}, []byte{} })
}

// bytesPoisonJSON stores values that look like JSON and that a database's JSON type refuses or expands to a huge text.
// Such values must be stored like all others, in the same batch as harmless values.
func bytesPoisonJSON(h *harness) {
	values := []string{
		`{"nul": "\u0000"}`, `"\ud800"`, `1e131071`, `1e999999`, `{"a": 1, "a": 2}`, "\ufeff{}", `{"order": 1}`, `null`, ` `,
		strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), `{`, "{\"a\": \"\xff\"}", `"` + strings.Repeat("x", 100_000) + `"`,
	}
	i := 0
	b := h.batch(h.open(deadLetter, 0, 0), 0, len(values), func(m *entity.Message) {
		m.Record.Value = []byte(values[i])
		i++
	})
	h.store(b, 1)
	for i, m := range b.Messages {
		got := h.get(m.ID).Record
		check.True(h, got.State == entity.ValueStored && string(got.Value) == values[i],
			"value %.40q: state %d, %.40q, want it as it was", values[i], got.State, got.Value)
	}
}

func bytesManyHeaders(h *harness) {
	headers := make([]entity.Header, 500)
	for i := range headers {
		headers[i] = entity.Header{Key: fmt.Sprintf("h%d", i%7), Value: fmt.Append(nil, i)}
	}
	wantIngested(h, "500 headers", func(m *entity.Message) { m.Record.Headers = headers })
}

func bytesLargeValue(h *harness) {
	large := bytes.Repeat(allBytes(), 4<<10)
	wantIngested(h, "1 MiB", func(m *entity.Message) { m.Record.Value = large })
}

func bytesLongError(h *harness) {
	text := strings.Repeat("at com.example.Orders(Orders.java:1)\n", 10_000)
	m := h.put(func(m *entity.Message) { m.ErrorMessage = text })
	got := h.get(m.ID).ErrorMessage
	check.True(h, got == text, "error message has %d bytes, want %d", len(got), len(text))
}

func bytesOwnBatch(h *harness) {
	b := h.batch(h.open(deadLetter, 0, 0), 0, 1, func(m *entity.Message) {
		m.Record.Value, m.Record.Key = []byte("value"), []byte("key")
		m.Record.Headers = []entity.Header{{Key: "h", Value: []byte("header")}}
	})
	h.store(b, 1)
	scribble(&b.Messages[0].Record)
	h.wantUnscribbled(b.Messages[0].ID)
}
