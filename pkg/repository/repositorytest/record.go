package repositorytest

import (
	"reflect"
	"time"

	"github.com/google/uuid"

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
	if err := h.Repository.Record(h.Context(), e); err != nil {
		h.Fatalf("Record: %v", err)
	}
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
	if len(got) != 1 || got[0].LastError != "q=card" || got[0].ObjectID != uuid.Nil {
		h.Errorf("trail of lists = %+v, want one without an object", got)
	}
}

func recordEach(h *harness) {
	id := uuid.New()
	for range 2 {
		h.record(entity.AuditEntry{Action: entity.ActionUnmask, Kind: entity.KindMessage, ObjectID: id, Cause: entity.By("alice")})
	}
	if got := len(h.entriesOf(id)); got != 2 {
		h.Errorf("trail has %d entries, want 2", got)
	}
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
		Action: entity.ActionUnmask, Kind: entity.KindList, LastError: "a\x00b\xff", Cause: entity.Cause{Actor: "a\x00", Reason: "\xff"},
	})
	if got := len(h.trail(repository.TrailQuery{Kind: entity.KindList})); got != 1 {
		h.Errorf("trail has %d entries, want 1", got)
	}
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
		got, err := h.Repository.PerformedOn(h.Context(), q.operation, q.action, q.ids)
		if err != nil {
			h.Fatal(err)
		}
		h.wantSameIDs("PerformedOn "+string(q.action), got, q.want)
	}
}

// wholeFilter has every field that a filter can have.
func wholeFilter(h *harness) entity.Filter {
	topics, err := entity.ParseTopicPatterns("topics", "orders*", "^pay(ments)?$")
	if err != nil {
		h.Fatal(err)
	}
	visible, err := entity.ParseTopicPatterns("visible", "*")
	if err != nil {
		h.Fatal(err)
	}
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

// redriveSelectionWhole: a selection is shown as it was asked for, whatever is in
// the store.
func redriveSelectionWhole(h *harness) {
	id := h.put().ID
	for name, f := range map[string]entity.Filter{
		"everything": wholeFilter(h), "a key": {Key: []byte("k")}, "what nobody sees": {Visible: &entity.TopicPatterns{}},
	} {
		n := retryAll(func(n *repository.NewRedrive) { n.Selection = entity.Selection{IDs: []uuid.UUID{id}, Filter: f} })
		h.create(n)
		got, err := h.Repository.Redrive(h.Context(), n.ID)
		if want := (entity.Selection{Filter: f}); err != nil || !reflect.DeepEqual(got.Selection, want) {
			h.Errorf("%s: selection =\n     %+v, %v\nwant %+v", name, got.Selection, err, want)
		}
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
		if err != nil || !reflect.DeepEqual(got.Options, o) {
			h.Errorf("options = %+v, %v, want %+v", got.Options, err, o)
		}
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
		found, err := h.Repository.Redrives(h.Context(), q)
		if err != nil {
			h.Fatal(err)
		}
		var got []uuid.UUID
		for _, r := range found {
			got = append(got, r.ID)
		}
		h.wantIDs("Redrives of "+q.Actor, got, want)
		return found
	}
	page := want(repository.RedriveQuery{Actor: "bob", Limit: 2}, made[5], made[3])
	place := repository.Place{CreatedAt: page[1].CreatedAt, ID: page[1].ID}
	want(repository.RedriveQuery{Actor: "bob", Limit: 2, Before: place}, made[1])
	want(repository.RedriveQuery{Actor: "bob", Limit: 9, States: []entity.RedriveState{entity.RedrivePaused}})
	want(repository.RedriveQuery{Actor: "nobody\x00", Limit: 9})
	want(repository.RedriveQuery{Limit: 3}, made[5], made[4], made[3])
}
