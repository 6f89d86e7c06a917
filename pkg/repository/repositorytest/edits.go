package repositorytest

import (
	"reflect"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// editsPromises returns the promises about attempts that send an edited record.
func editsPromises() []promise {
	return []promise{
		{"HistoryShowsThemWhole", editsWhole},
		{"NullAndEmptyStayApart", editsNull},
		{"NothingThatDiffersIsNone", editsNone},
		{"MessageIsNotChanged", editsMessage},
		{"PatchIsKeptWithoutTheValue", editsPatch},
		{"StayWithAttemptsHoweverTheyEnd", editsEndings},
		{"StayWithAttemptsThatAreTakenOver", editsTakeOver},
		{"StayWithAttemptsThatAreGivenUp", editsGiveUp},
		{"OfMessagesThatWereNotTakenAreNotKept", editsNotTaken},
		{"AreThoseOfTheClaimThatWon", editsTwins},
		{"AskedForTwiceAreKeptOnce", editsAgain},
		{"SomeOfABatch", editsSome},
		{"GoWithTheirMessage", editsDeleted},
		{"AttemptsOfComesWithoutThem", editsAttemptsOf},
		{"WhatWasSentIsKnownWhenItComesBack", editsReturn},
		{"WhatWasNotSentIsNoReturn", editsNoReturn},
		{"WhatAPatchMadeIsKnownByItsNumber", editsPatchedReturn},
		{"WithoutANumberNothingIsKnown", editsNoHash},
		{"OtherAttemptsAreKnownAsBefore", editsOtherAttempts},
	}
}

func fullEdit() *entity.Edit {
	return &entity.Edit{
		Topic: "orders.fixed", SetValue: true, Value: []byte("{\"order\":\x00 2}\xff"), SetKey: true, Key: []byte{0, 1, 0xfe},
		SetHeaders: true, Headers: []entity.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "", Value: []byte{}}},
	}
}

// edited returns a claim on a message for an attempt that sends the record with the edit e. The caller passes the claim
// to Claim.
func edited(id uuid.UUID, e *entity.Edit) repository.Claim {
	c := intent(id)
	c.Edit = e
	return c
}

// wantEdits checks the edits of all attempts on a message, the oldest attempt first.
func (h *harness) wantEdits(id uuid.UUID, want ...*entity.Edit) {
	h.Helper()
	got := check.Each(h.history(id), func(a entity.Attempt) *entity.Edit { return a.Edit })
	if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
		h.Errorf("edits of %s:", id)
		for _, e := range got {
			h.Errorf(" got %+v", e)
		}
		for _, e := range want {
			h.Errorf("want %+v", e)
		}
	}
}

// sendEdited claims a message with c, a claim for an edited record, and finishes the attempt with the verdict.
func (h *harness) sendEdited(c repository.Claim, verdict entity.Verdict) {
	h.Helper()
	taken := h.claimAll(c)
	check.Require(h, len(taken) == 1, "Claim took %d messages, want 1", len(taken))
	h.clock.Advance(time.Second)
	h.finish(c, verdict)
	h.clock.Advance(time.Second)
}

func editsWhole(h *harness) {
	m := h.put()
	h.sendEdited(edited(m.ID, fullEdit()), entity.Failed)
	h.attempt(m.ID, entity.Acknowledged)
	h.wantEdits(m.ID, fullEdit(), nil)
}

func editsNull(h *harness) {
	for _, e := range []*entity.Edit{
		{SetValue: true},
		{SetValue: true, Value: []byte{}},
		{SetKey: true},
		{SetKey: true, Key: []byte{}},
		{SetHeaders: true},
		{SetHeaders: true, Headers: []entity.Header{{Key: "k"}, {Key: "k", Value: []byte{}}}},
		{Topic: "elsewhere"},
	} {
		m := h.put()
		h.sendEdited(edited(m.ID, e), entity.Acknowledged)
		h.wantEdits(m.ID, e)
	}
}

func editsNone(h *harness) {
	m := h.put()
	h.sendEdited(edited(m.ID, &entity.Edit{}), entity.Acknowledged)
	h.wantEdits(m.ID, nil)
}

func editsMessage(h *harness) {
	m, twin := h.put(), h.put()
	before := h.get(m.ID)
	c := edited(m.ID, fullEdit())
	h.claimAll(c, intent(twin.ID))
	got, want := h.get(m.ID), h.get(twin.ID)
	check.True(h, reflect.DeepEqual(got.Record, before.Record) && got.OriginalTopic == before.OriginalTopic,
		"record = %+v of %s, want %+v of %s", got.Record, got.OriginalTopic, before.Record, before.OriginalTopic)
	got.Claim.ID, want.Claim.ID = uuid.Nil, uuid.Nil
	check.True(h, got.Claim == want.Claim && got.Status == want.Status && got.RetryCount == want.RetryCount,
		"message with an edit is\n     %+v\nwant it as without, %+v", got, want)
}

func editsPatch(h *harness) {
	m := h.put()
	e := &entity.Edit{SetValue: true, Value: []byte(`{"order": 2}`), Patch: []byte(`[{"op":"replace","path":"/order","value":2}]`)}
	h.sendEdited(edited(m.ID, e), entity.Acknowledged)
	want := *e
	want.Value = nil
	h.wantEdits(m.ID, &want)
	bare := h.put()
	h.sendEdited(edited(bare.ID, &entity.Edit{Patch: e.Patch}), entity.Acknowledged)
	h.wantEdits(bare.ID, &entity.Edit{Patch: e.Patch})
}

func editsEndings(h *harness) {
	m := h.put(func(m *entity.Message) { m.MaxRetries = 100 })
	var want []*entity.Edit
	for i, v := range []entity.Verdict{entity.GivenBack, entity.Failed, entity.Refused, entity.Rescued, entity.Skipped} {
		e := &entity.Edit{SetKey: true, Key: []byte{byte(i)}}
		h.sendEdited(edited(m.ID, e), v)
		want = append(want, e)
	}
	h.wantEdits(m.ID, want...)
}

// doubtful claims a message with c and lets the claim expire. It then stores the result that the attempt is in doubt,
// with an error class that says that it cannot be settled.
func (h *harness) doubtful(c repository.Claim) {
	h.Helper()
	h.claimAll(c)
	h.clock.Advance(2 * expiry)
	r := result(c, entity.InDoubt)
	r.Class = entity.UnknownClass
	h.finishAll(r)
}

func editsTakeOver(h *harness) {
	m := h.put(keyed("k", "v"))
	c := edited(m.ID, fullEdit())
	h.doubtful(c)
	next := edited(m.ID, &entity.Edit{Topic: "third"})
	next.TakeOver = true
	h.sendEdited(next, entity.Acknowledged)
	h.wantEdits(m.ID, c.Edit, next.Edit)
}

func editsGiveUp(h *harness) {
	m := h.put()
	c := edited(m.ID, fullEdit())
	h.doubtful(c)
	check.Must(h.Repository.MarkDead(h.Context(), m.ID, entity.By("alice")))(h)
	h.wantEdits(m.ID, c.Edit)
}

func editsNotTaken(h *harness) {
	m := h.in(entity.Resolved)
	c := edited(m.ID, fullEdit())
	c.ID = h.history(m.ID)[0].ID // gives the claim, which is refused, the id of an earlier attempt; this attempt must not get the edit
	taken := h.claimAll(c, edited(uuid.New(), fullEdit()))
	check.Require(h, len(taken) == 0, "Claim took %v, want nothing", ids(taken))
	h.wantEdits(m.ID, nil)
}

// editsTwins: when a caller claims the same message several times in one call, only one of these claims becomes an
// attempt.
func editsTwins(h *harness) {
	m := h.put()
	a, b := edited(m.ID, &entity.Edit{Topic: "a"}), edited(m.ID, &entity.Edit{Topic: "b"})
	plain := intent(m.ID)
	h.claimAll(a, b, plain)
	won := h.get(m.ID).Claim.ID
	for _, c := range []repository.Claim{a, b, plain} {
		if c.ID == won {
			h.finish(c, entity.Acknowledged)
			h.wantEdits(m.ID, c.Edit)
			return
		}
	}
	h.Errorf("claim is %s, want one of the three", won)
}

func editsAgain(h *harness) {
	m := h.put()
	c := edited(m.ID, fullEdit())
	for range 3 {
		taken := h.claimAll(c, c)
		check.Require(h, len(taken) != 0 && taken[0].ID == m.ID, "Claim took %v, want %s", ids(taken), m.ID)
	}
	h.finish(c, entity.Acknowledged)
	h.wantEdits(m.ID, fullEdit())
}

func editsSome(h *harness) {
	all := h.puts(20)
	claims := intents(all...)
	for i := range claims {
		if i%3 == 0 {
			claims[i].Edit = &entity.Edit{SetKey: true, Key: []byte{byte(i)}}
		}
	}
	taken := h.claimAll(claims...)
	check.Require(h, len(taken) == len(all), "Claim took %d messages, want %d", len(taken), len(all))
	for _, c := range claims {
		h.finish(c, entity.Acknowledged)
		h.wantEdits(c.MessageID, c.Edit)
	}
}

func editsDeleted(h *harness) {
	for _, remove := range []func(id uuid.UUID) error{
		func(id uuid.UUID) error { return h.Repository.Delete(h.Context(), id, entity.By("alice")) },
		func(id uuid.UUID) error {
			_, err := h.Repository.Change(h.Context(), repository.Change{Action: entity.RedriveDelete, IDs: []uuid.UUID{id}}, entity.By("alice"))
			return err
		},
	} {
		m, other := h.put(), h.put()
		h.sendEdited(edited(m.ID, fullEdit()), entity.Acknowledged)
		h.sendEdited(edited(other.ID, fullEdit()), entity.Acknowledged)
		check.NoError(h, remove(m.ID))
		h.wantEdits(m.ID)
		h.wantEdits(other.ID, fullEdit())
	}
}

func editsAttemptsOf(h *harness) {
	redrive := uuid.New()
	claimed, ended := edited(h.put().ID, fullEdit()), edited(h.put().ID, fullEdit())
	claimed.RedriveID, ended.RedriveID = redrive, redrive
	h.sendEdited(ended, entity.Failed)
	h.claimAll(claimed)
	got := h.attemptsOf(redrive, claimed.MessageID, ended.MessageID)
	check.Require(h, len(got) == 2, "AttemptsOf = %d attempts, want 2", len(got))
	for id, a := range got {
		check.True(h, a.Edit == nil, "attempt on %s has the edit %+v, want it without", id, a.Edit)
	}
}

// sentAs stores a message with the key "k" and the value "v", makes an acknowledged attempt on it that sends the record
// with the edit e, and returns the message.
func (h *harness) sentAs(e *entity.Edit) entity.Message {
	h.Helper()
	messages, _ := h.arrives(1)
	c := edited(messages[0].ID, e)
	record := e.Apply(messages[0].Record)
	c.SentHash = entity.RecordHash(record.Key, record.Value)
	if e.Topic != "" {
		c.Topic = e.Topic
	}
	h.clock.Advance(time.Second)
	h.sendEdited(c, entity.Acknowledged)
	return messages[0]
}

func editsReturn(h *harness) {
	for _, c := range []struct {
		name string
		edit *entity.Edit
		came []func(*entity.Message)
	}{
		{"value", &entity.Edit{SetValue: true, Value: []byte("new")}, []func(*entity.Message){keyed("k", "new")}},
		{"key", &entity.Edit{SetKey: true, Key: []byte("other")}, []func(*entity.Message){keyed("other", "v")}},
		{"headers", &entity.Edit{SetHeaders: true}, nil},
		{"topic", &entity.Edit{Topic: "orders.fixed"}, []func(*entity.Message){func(m *entity.Message) { m.OriginalTopic = "orders.fixed" }}},
	} {
		parent := h.sentAs(c.edit)
		child, got := h.arrives(1, c.came...)
		h.wantReturn(got, child[0], parent.ID, 1)
		h.clock.Advance(2 * window) // the return window ends, so that later dead letters are not taken for returns of this attempt
	}
}

func editsNoReturn(h *harness) {
	for _, e := range []*entity.Edit{
		{SetValue: true, Value: []byte("new")},
		{SetValue: true},
		{SetKey: true, Key: []byte("other")},
		{SetKey: true},
		{Topic: "orders.fixed"},
	} {
		parent := h.sentAs(e)
		came, got := h.arrives(1)
		h.wantNoReturn(got, came, parent.ID)
		h.clock.Advance(2 * window)
	}
}

func editsPatchedReturn(h *harness) {
	parent := h.sentAs(&entity.Edit{SetValue: true, Value: []byte("patched"), Patch: []byte(`[]`)})
	came, got := h.arrives(1)
	h.wantNoReturn(got, came, parent.ID)
	child, got := h.arrives(1, keyed("k", "patched"))
	h.wantReturn(got, child[0], parent.ID, 1)
}

func editsNoHash(h *harness) {
	messages, _ := h.arrives(1)
	h.sendEdited(edited(messages[0].ID, &entity.Edit{SetHeaders: true}), entity.Acknowledged)
	came, got := h.arrives(1)
	h.wantNoReturn(got, came, messages[0].ID)
}

// editsOtherAttempts: the first attempt on a message had an edit, and failed or sent nothing. The second attempt sent
// the record without an edit. So a dead letter with the edited value is no return of this message.
func editsOtherAttempts(h *harness) {
	e := &entity.Edit{SetValue: true, Value: []byte("new")}
	for _, first := range []entity.Verdict{entity.Failed, entity.GivenBack} {
		messages, _ := h.arrives(1)
		c := edited(messages[0].ID, e)
		c.SentHash = entity.RecordHash([]byte("k"), e.Value)
		h.sendEdited(c, first)
		h.attempt(messages[0].ID, entity.Acknowledged)
		came, got := h.arrives(1, keyed("k", "new"))
		h.wantNoReturn(got, came, messages[0].ID)
		child, got := h.arrives(1)
		check.True(h, len(got) == 1 && got[0].Parent == messages[0].ID && got[0].MessageID == child[0].ID,
			"after %q: Store found the returns %+v, want %s of %s", first, got, child[0].ID, messages[0].ID)
		h.clock.Advance(2 * window)
	}
}
