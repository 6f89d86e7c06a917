package repositorytest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func auditPromises() []promise {
	return []promise{
		{"ClaimIsInItWhenThatIsAskedFor", auditClaim},
		{"ClaimWithoutAuditIsNotInIt", auditQuietClaim},
		{"TakeOverSaysWhatItTook", auditTakeOver},
		{"ClaimsOfOneMessageInOneCallAreOneEntry", auditTwinClaims},
		{"EveryEndOfAnAttemptIsInIt", auditEndings},
		{"DoubtIsNotInIt", auditDoubt},
		{"DeleteRequeueAndGiveUpAreInIt", auditByHand},
		{"ChangeIsInItForEachMessage", auditChange},
		{"WhatDidNotHappenIsNotInIt", auditNothing},
		{"OneOfManyCallersIsInIt", auditRace},
		{"KeepsTheWholeCause", auditCause},
		{"TakesTextThatIsNone", auditText},
		{"IsNewestFirstAndAtMostTheLimit", auditOrder},
		{"GoesOnBelowAnEntry", auditPages},
		{"EachFilterHolds", auditFilters},
		{"FiltersHoldTogether", auditFilterPairs},
		{"HasOneEntryForEachRequest", auditByRequest},
		{"HasAnEntryForEachRequestWithTheSameID", auditReusedRequestID},
		{"CountsForSomeTopicsOnlyEntriesOfTheObject", auditCountsVisible},
		{"UnknownObjectIsEmpty", auditUnknown},
		{"OutlivesItsMessage", auditOutlives},
	}
}

func operationsPromises() []promise {
	return []promise{
		{"PerformedKnowsOperationsOfChanges", auditPerformed},
		{"PerformedIsFalseForNoOperation", auditPerformedNil},
	}
}

// everything, as a limit, is higher than the number of rows that the tests with this limit write.
const everything = 1000

func (h *harness) trail(q repository.TrailQuery) []entity.AuditEntry {
	h.Helper()
	if q.Limit == 0 {
		q.Limit = everything
	}
	return check.Must(h.Repository.Trail(h.Context(), q))(h)
}

// fullCause returns a cause in which all fields are set.
func fullCause() entity.AuditInfo {
	return entity.AuditInfo{
		Actor: "alice", Reason: "the consumer is fixed", RequestID: "req_0123456789ab",
		TraceID: "0af7651916cd43dd8448eb211c80319c", Operation: uuid.New(), Call: uuid.New(),
	}
}

// wantEntries checks the audit entries of one object, the oldest first. The ids of the entries must increase; apart
// from that, ids are not compared, because the entries in want have the id 0.
func (h *harness) wantEntries(id uuid.UUID, want ...entity.AuditEntry) {
	h.Helper()
	got := h.trail(repository.TrailQuery{ObjectID: id})
	slices.Reverse(got)
	last := int64(0)
	for i := range got {
		check.True(h, got[i].ID > last, "entry %d has number %d, want more than %d", i, got[i].ID, last)
		last, got[i].ID = got[i].ID, 0
		if i < len(want) && want[i].Cause.Operation == uuid.Nil {
			got[i].Cause.Operation = uuid.Nil // the store may have chosen an operation, so operations are not compared
		}
	}
	check.Same(h, got, want, "trail of %s", id)
}

// auditEntry returns the audit entry that a change at the present time must have.
func (h *harness) auditEntry(action entity.Action, id uuid.UUID, from, to entity.Status, count int, cause entity.AuditInfo) entity.AuditEntry {
	return entity.AuditEntry{
		At: h.clock.Kept(), Action: action, Kind: entity.KindMessage, ObjectID: id,
		From: string(from), To: string(to), RetryCount: count, Cause: cause,
	}
}

// withError returns the entry e with the class and the error of a failed attempt.
func withError(e entity.AuditEntry) entity.AuditEntry {
	e.Class, e.LastError = entity.NetworkTimeout, "no answer in 5s"
	return e
}

// entriesOf returns the audit entries of an object, the oldest first, with their ids set to 0.
func (h *harness) entriesOf(id uuid.UUID) []entity.AuditEntry {
	h.Helper()
	entries := h.trail(repository.TrailQuery{ObjectID: id})
	slices.Reverse(entries)
	for i := range entries {
		entries[i].ID = 0
	}
	return entries
}

func auditClaim(h *harness) {
	m, cause := h.failedIn(entity.Pending), fullCause()
	before := h.entriesOf(m.ID)
	how := repository.Claiming{Expiry: expiry, Cause: cause, Audit: true}
	check.Len(h, check.Must(h.Repository.Claim(h.Context(), intents(m.ID), how))(h), 1, "Claim messages")
	want := withError(h.auditEntry(entity.ActionRetry, m.ID, entity.Pending, entity.Retrying, 2, cause))
	h.wantEntries(m.ID, append(before, want)...)
}

func auditQuietClaim(h *harness) {
	m := h.put()
	h.claim(m.ID)
	h.wantEntries(m.ID)
}

func auditTakeOver(h *harness) {
	m, cause := h.put(), fullCause()
	h.unsettleable(m.ID)
	h.clock.Advance(time.Second)
	c := intent(m.ID)
	c.TakeOver = true
	how := repository.Claiming{Expiry: expiry, Cause: cause, Audit: true}
	check.Len(h, check.Must(h.Repository.Claim(h.Context(), []repository.Claim{c}, how))(h), 1, "Claim messages")
	want := h.auditEntry(entity.ActionRetry, m.ID, entity.Retrying, entity.Retrying, 2, cause)
	want.Class, want.LastError = entity.UnknownClass, "the log starts after the noted offset"
	h.wantEntries(m.ID, want)
}

// auditTwinClaims: when a caller claims the same message twice in one call, the store makes only one attempt, and adds
// one audit entry.
func auditTwinClaims(h *harness) {
	m := h.put()
	how := repository.Claiming{Expiry: expiry, Cause: entity.By("alice"), Audit: true}
	taken, err := h.Repository.Claim(h.Context(), intents(m.ID, m.ID), how)
	check.Require(h, err == nil && len(taken) == 1, "Claim = %d messages, %v, want 1", len(taken), err)
	h.wantEntries(m.ID, h.auditEntry(entity.ActionRetry, m.ID, entity.Pending, entity.Retrying, 1, entity.By("alice")))
}

func auditEndings(h *harness) {
	for _, end := range []struct {
		verdict entity.Verdict
		to      entity.Status
		count   int
	}{
		{entity.Acknowledged, entity.Resolved, 1},
		{entity.Skipped, entity.Resolved, 1},
		{entity.Failed, entity.Pending, 1},
		{entity.Rejected, entity.Dead, 1},
		{entity.Refused, entity.Pending, 0},
		{entity.GivenBack, entity.Pending, 0},
		{entity.Rescued, entity.Pending, 0},
	} {
		m, cause := h.put(), fullCause()
		r := result(h.claim(m.ID), end.verdict)
		h.clock.Advance(time.Second)
		check.Len(h, check.Must(h.Repository.Finish(h.Context(), []repository.Result{r, r}, cause))(h), 1, "Finish")
		want := h.auditEntry(entity.ActionAttempt, m.ID, entity.Retrying, end.to, end.count, cause)
		want.Class, want.LastError = r.Class, r.Error
		h.wantEntries(m.ID, want)
	}
}

func auditDoubt(h *harness) {
	m := h.put()
	c := h.claim(m.ID)
	h.finish(c, entity.InDoubt)
	h.wantEntries(m.ID)
	h.clock.Advance(time.Second)
	h.finish(c, entity.Acknowledged)
	h.wantEntries(m.ID, h.auditEntry(entity.ActionAttempt, m.ID, entity.Retrying, entity.Resolved, 1, entity.By("alice")))
}

// byHand lists the changes that operators make to a single message, each with the status of the message before and
// after the change.
var byHand = []struct {
	action   entity.Action
	redrive  entity.RedriveAction
	from, to entity.Status
	count    int // retry count of the message after the change
	do       func(h *harness, id uuid.UUID, cause entity.AuditInfo) error
}{
	{entity.ActionDelete, entity.RedriveDelete, entity.Pending, "", 1, func(h *harness, id uuid.UUID, cause entity.AuditInfo) error {
		return h.Repository.Delete(h.Context(), id, cause)
	}},
	{entity.ActionDead, entity.RedriveDead, entity.Pending, entity.Dead, 1, func(h *harness, id uuid.UUID, cause entity.AuditInfo) error {
		_, err := h.Repository.MarkDead(h.Context(), id, cause)
		return err
	}},
	{entity.ActionRequeue, entity.RedriveRequeue, entity.Dead, entity.Pending, 0, func(h *harness, id uuid.UUID, cause entity.AuditInfo) error {
		_, err := h.Repository.Requeue(h.Context(), id, cause)
		return err
	}},
}

// failedIn returns a message that is PENDING or DEAD after one failed attempt.
func (h *harness) failedIn(status entity.Status) entity.Message {
	h.Helper()
	m := h.put(func(m *entity.Message) {
		if status == entity.Dead {
			m.MaxRetries = 1
		}
	})
	h.attempt(m.ID, entity.Failed)
	h.clock.Advance(time.Minute)
	h.wantStatus(m.ID, status)
	return m
}

func auditByHand(h *harness) {
	for _, change := range byHand {
		m, cause := h.failedIn(change.from), fullCause()
		before := h.entriesOf(m.ID)
		check.NoError(h, change.do(h, m.ID, cause))
		want := withError(h.auditEntry(change.action, m.ID, change.from, change.to, change.count, cause))
		h.wantEntries(m.ID, append(before, want)...)
	}
}

func auditChange(h *harness) {
	for _, change := range byHand {
		cause := fullCause()
		first, other := h.failedIn(change.from), h.failedIn(change.from)
		before := map[uuid.UUID][]entity.AuditEntry{first.ID: h.entriesOf(first.ID), other.ID: h.entriesOf(other.ID)}
		h.wantSameIDs("Change", h.change(change.redrive, cause, first.ID, other.ID, first.ID), []uuid.UUID{first.ID, other.ID})
		for id, entries := range before {
			want := withError(h.auditEntry(change.action, id, change.from, change.to, change.count, cause))
			h.wantEntries(id, append(entries, want)...)
		}
	}
}

// auditNothing: a change that the store refuses adds no entry.
func auditNothing(h *harness) {
	resolved, claimed, unknown := h.in(entity.Resolved), h.in(entity.Retrying), uuid.New()
	before := h.trail(repository.TrailQuery{})
	cause, how := fullCause(), repository.Claiming{Expiry: expiry, Cause: fullCause(), Audit: true}
	for _, id := range []uuid.UUID{resolved.ID, claimed.ID, unknown} {
		_, _ = h.Repository.Requeue(h.Context(), id, cause)
		_, _ = h.Repository.MarkDead(h.Context(), id, cause)
		h.change(entity.RedriveRequeue, cause, id)
		h.change(entity.RedriveDead, cause, id)
		check.Must(h.Repository.Claim(h.Context(), intents(id), how))(h)
		h.finishAll(result(repository.Claim{MessageID: id, ID: uuid.New()}, entity.Acknowledged))
	}
	for _, id := range []uuid.UUID{claimed.ID, unknown} {
		_ = h.Repository.Delete(h.Context(), id, cause)
		h.change(entity.RedriveDelete, cause, id)
	}
	check.Same(h, h.trail(repository.TrailQuery{}), before, "trail, want it as before")
	for _, operation := range []uuid.UUID{cause.Operation, how.Cause.Operation} {
		h.wantPerformed(operation, false)
	}
}

func auditRace(h *harness) {
	m := h.in(entity.Dead)
	before := len(h.entriesOf(m.ID))
	h.wantOne("Requeue", func() bool {
		_, err := h.Repository.Requeue(h.Context(), m.ID, entity.By("bob"))
		return err == nil
	})
	check.Same(h, len(h.entriesOf(m.ID))-before, 1, "16 callers left entries")
}

// auditCause tests the fields of a cause except Call separately, so that the store cannot store one of these fields in
// place of another.
func auditCause(h *harness) {
	full := fullCause()
	for _, cause := range []entity.AuditInfo{
		full,
		{Actor: "bob"},
		{Actor: "bob", Reason: full.Reason},
		{Actor: "bob", RequestID: full.RequestID},
		{Actor: "bob", TraceID: full.TraceID},
		{Actor: "bob", Operation: full.Operation},
	} {
		m := h.put()
		check.Must(h.Repository.MarkDead(h.Context(), m.ID, cause))(h)
		h.wantEntries(m.ID, h.auditEntry(entity.ActionDead, m.ID, entity.Pending, entity.Dead, 0, cause))
	}
}

func auditText(h *harness) {
	for _, text := range []string{"nul\x00nul", "\xff\xfe", "\xc3\x28", "", "'; DROP SCHEMA dlq; --", "→ \"quoted\" \\x00"} {
		m := h.put()
		cause := entity.AuditInfo{Actor: "a" + text, Reason: text, RequestID: text, TraceID: text}
		c := intent(m.ID)
		how := repository.Claiming{Expiry: expiry, Cause: cause, Audit: true}
		check.Len(h, check.Must(h.Repository.Claim(h.Context(), []repository.Claim{c}, how))(h), 1, "Claim with %q messages", text)
		r := result(c, entity.Rejected)
		r.Error = text
		check.Len(h, check.Must(h.Repository.Finish(h.Context(), []repository.Result{r}, cause))(h), 1, "Finish with %q", text)
		check.Must(h.Repository.Requeue(h.Context(), m.ID, cause))(h)
		found := h.trail(repository.TrailQuery{ObjectID: m.ID, Actor: cause.Actor, RequestID: cause.RequestID})
		check.Same(h, len(found), 3, "%q is found in entries", text)
	}
}

// dyings marks the message with the given id as dead and requeues it, as many times as rounds says. Each round adds two
// audit entries with the given cause.
func (h *harness) dyings(id uuid.UUID, rounds int, cause entity.AuditInfo) {
	h.Helper()
	for range rounds {
		h.clock.Advance(time.Second)
		check.Must(h.Repository.MarkDead(h.Context(), id, cause))(h)
		h.clock.Advance(time.Second)
		check.Must(h.Repository.Requeue(h.Context(), id, cause))(h)
	}
}

func auditOrder(h *harness) {
	m, other := h.put(), h.put()
	h.dyings(m.ID, 3, entity.By("alice"))
	h.dyings(other.ID, 2, entity.By("alice"))
	all := h.trail(repository.TrailQuery{})
	check.Require(h, len(all) == 10, "trail has %d entries, want 10", len(all))
	for i := 1; i < len(all); i++ {
		check.True(h, all[i].ID < all[i-1].ID && !all[i].At.After(all[i-1].At),
			"entry %d of %v comes after %d of %v, want the newest first", all[i].ID, all[i].At, all[i-1].ID, all[i-1].At)
	}
	for _, limit := range []int{1, 3, 9} {
		check.Same(h, h.trail(repository.TrailQuery{Limit: limit}), all[:limit], "Limit %d, want the newest of them", limit)
	}
	check.Len(h, check.Must(h.Repository.Trail(h.Context(), repository.TrailQuery{}))(h), 0, "Limit 0 entries")
}

func auditPages(h *harness) {
	m, other := h.put(), h.put()
	h.dyings(m.ID, 3, entity.By("alice"))
	h.dyings(other.ID, 2, entity.By("bob"))
	for name, q := range map[string]repository.TrailQuery{
		"all": {}, "of an object": {ObjectID: m.ID}, "of an actor": {Actor: "bob"}, "of an action": {Action: entity.ActionDead},
	} {
		want := h.trail(q)
		var got []entity.AuditEntry
		q.Limit = 2
		for range everything {
			page := h.trail(q)
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			q.Before = page[len(page)-1].ID
		}
		check.Same(h, got, want, "pages of the trail %s", name)
	}
}

// variety writes audit entries of messages that differ in object, actor, action, request and time, and returns all
// entries.
func (h *harness) variety() []entity.AuditEntry {
	h.Helper()
	for i, actor := range []string{"alice", "bob", "alice"} {
		m := h.put()
		h.dyings(m.ID, 1, entity.AuditInfo{Actor: actor, RequestID: []string{"req_1", "req_2", ""}[i]})
		h.attempt(m.ID, entity.Failed)
	}
	h.change(entity.RedriveDelete, entity.AuditInfo{Actor: "bob", RequestID: "req_1"}, h.puts(2)...)
	all := h.trail(repository.TrailQuery{})
	check.Require(h, len(all) == 11, "trail has %d entries, want 11", len(all))
	return all
}

// trailFilters returns changes of a query for the entries of variety; "other" and "nobody" make the query find none.
// The parameter e is the seventh of these entries; some queries ask for entries with its values.
func trailFilters(e entity.AuditEntry) map[string]func(*repository.TrailQuery) {
	return map[string]func(*repository.TrailQuery){
		"object":  func(q *repository.TrailQuery) { q.ObjectID = e.ObjectID },
		"kind":    func(q *repository.TrailQuery) { q.Kind = e.Kind },
		"actor":   func(q *repository.TrailQuery) { q.Actor = e.Cause.Actor },
		"action":  func(q *repository.TrailQuery) { q.Action = e.Action },
		"request": func(q *repository.TrailQuery) { q.RequestID = "req_1" },
		"after":   func(q *repository.TrailQuery) { q.After = e.At.In(time.FixedZone("IST", 19800)) },
		"until":   func(q *repository.TrailQuery) { q.Until = e.At.In(time.FixedZone("IST", 19800)) },
		"people":  func(q *repository.TrailQuery) { q.ActorKind = entity.ActorPerson },
		"machine": func(q *repository.TrailQuery) { q.ActorKind = entity.ActorMachine },
		"before":  func(q *repository.TrailQuery) { q.Before = e.ID },
		"other":   func(q *repository.TrailQuery) { q.Kind = entity.KindRedrive },
		"nobody":  func(q *repository.TrailQuery) { q.Actor = "nobody" },
	}
}

// trailHolds reports whether the entry e matches q. It is written independently of the stores, so that it can be
// compared with them.
func trailHolds(e entity.AuditEntry, q repository.TrailQuery) bool {
	switch {
	case q.ObjectID != uuid.Nil && q.ObjectID != e.ObjectID,
		q.Kind != "" && q.Kind != e.Kind,
		q.Actor != "" && q.Actor != e.Cause.Actor,
		q.Action != "" && q.Action != e.Action,
		q.RequestID != "" && q.RequestID != e.Cause.RequestID,
		e.At.Before(q.After),
		!q.Until.IsZero() && !e.At.Before(q.Until),
		q.ActorKind == entity.ActorPerson && e.Action == entity.ActionAttempt,
		q.ActorKind == entity.ActorMachine && e.Action != entity.ActionAttempt,
		q.Before != 0 && q.Before <= e.ID:
		return false
	}
	return true
}

func (h *harness) wantFiltered(name string, all []entity.AuditEntry, q repository.TrailQuery) (found int) {
	h.Helper()
	want := slices.DeleteFunc(slices.Clone(all), func(e entity.AuditEntry) bool { return !trailHolds(e, q) })
	got := h.trail(q)
	check.Same(h, got, want, "%s: Trail(%+v)", name, q)
	return len(got)
}

func auditFilters(h *harness) {
	all := h.variety()
	for name, set := range trailFilters(all[6]) {
		var q repository.TrailQuery
		set(&q)
		found := h.wantFiltered(name, all, q)
		check.Same(h, name == "other" || name == "nobody", found == 0, "%s finds %d of %d entries", name, found, len(all))
	}
}

func auditFilterPairs(h *harness) {
	all := h.variety()
	some := 0
	for first, set := range trailFilters(all[6]) {
		for second, also := range trailFilters(all[6]) {
			var q repository.TrailQuery
			set(&q)
			also(&q)
			some += h.wantFiltered(first+" and "+second, all, q)
		}
	}
	check.True(h, some != 0, "no pair of filters found anything")
	e := all[6]
	h.wantFiltered("all", all, repository.TrailQuery{
		ObjectID: e.ObjectID, Kind: e.Kind, Actor: e.Cause.Actor, Action: e.Action,
		RequestID: e.Cause.RequestID, After: e.At, Before: e.ID + 1, Limit: 5,
	})
}

// auditByRequest: a request that changes many messages has one entry in the list of requests, even when the list is
// read page by page.
func auditByRequest(h *harness) {
	by := func(actor, request string) entity.AuditInfo {
		return entity.AuditInfo{Actor: actor, RequestID: request, Call: uuid.NewSHA1(uuid.Nil, []byte(actor+request))}
	}
	single := h.put()
	h.dyings(single.ID, 1, by("alice", "req_1"))
	r, ids := h.began(3, func(n *repository.NewRedrive) { n.Action, n.Cause = entity.RedriveDead, by("bob", "req_2") })
	batch := h.lease(r.ID, uuid.New())
	for _, id := range ids {
		h.clock.Advance(time.Second)
		change := repository.Change{Action: entity.RedriveDead, IDs: []uuid.UUID{id}, Lease: repository.Lease{RedriveID: r.ID, Number: batch.Number, Owner: batch.owner}}
		check.Must(h.Repository.Change(h.Context(), change, by("bob", "req_2")))(h)
	}
	h.dyings(single.ID, 1, entity.By("carol")) // adds two audit entries whose changes have no request id
	c := h.claim(single.ID)
	check.Must(h.Repository.Finish(h.Context(), []repository.Result{result(c, entity.Failed)}, entity.By(entity.ActorAuto)))(h)

	type row struct {
		actor    string
		action   entity.Action
		entries  int
		redrive  entity.RedriveAction
		selected int
	}
	machine, dead := row{entity.ActorAuto, entity.ActionAttempt, 1, "", 0}, row{"carol", entity.ActionDead, 1, "", 0}
	requeue, bulk := row{"carol", entity.ActionRequeue, 1, "", 0}, row{"bob", entity.ActionCreate, 4, entity.RedriveDead, 4}
	alice := row{"alice", entity.ActionDead, 2, "", 0}
	started := h.redrive(r.ID).CreatedAt
	for name, c := range map[string]struct {
		q    repository.TrailQuery
		want []row
	}{
		"everything":      {repository.TrailQuery{}, []row{machine, requeue, dead, bulk, alice}},
		"of people":       {repository.TrailQuery{ActorKind: entity.ActorPerson}, []row{requeue, dead, bulk, alice}},
		"of the machine":  {repository.TrailQuery{ActorKind: entity.ActorMachine}, []row{machine}},
		"of one person":   {repository.TrailQuery{ActorKind: entity.ActorPerson, Actor: "bob"}, []row{bulk}},
		"of an action":    {repository.TrailQuery{Action: entity.ActionDead}, []row{dead, bulk, alice}},
		"of a later one":  {repository.TrailQuery{Action: entity.ActionRequeue}, []row{requeue, {"alice", entity.ActionRequeue, 2, "", 0}}},
		"of a time":       {repository.TrailQuery{After: started, Until: started.Add(time.Millisecond)}, []row{bulk}},
		"of its messages": {repository.TrailQuery{After: started.Add(time.Millisecond), ActorKind: entity.ActorPerson, Actor: "bob"}, nil},
		"of a message":    {repository.TrailQuery{ObjectID: ids[0]}, []row{{"bob", entity.ActionDead, 4, "", 0}}},
		"of a request":    {repository.TrailQuery{RequestID: "req_2"}, []row{bulk}},
	} {
		c.q.ByRequest = true
		var got []row
		for c.q.Limit = 1; ; {
			page := h.trail(c.q)
			if len(page) == 0 {
				break
			}
			e := page[0]
			got = append(got, row{e.Cause.Actor, e.Action, e.Entries, e.Redrive, e.Selected})
			c.q.Before = e.ID
		}
		check.Same(h, got, c.want, "requests %s", name)
	}
}

// auditReusedRequestID: a client chooses the request id itself, so two clients may choose the same one. Their requests
// stay separate entries.
func auditReusedRequestID(h *harness) {
	m := h.put()
	var want []string
	for _, actor := range []string{"alice", "bob", "alice"} {
		check.Must(h.Repository.MarkDead(h.Context(), m.ID, entity.AuditInfo{Actor: actor, RequestID: "req_1", Call: uuid.New()}))(h)
		check.Must(h.Repository.Requeue(h.Context(), m.ID, entity.AuditInfo{Actor: actor, RequestID: "req_1"}))(h) // this entry has no Call, like entries from before the server gave each request an id of its own
		want = append(want, actor+" dead", actor+" requeue")
	}
	var got []string
	for _, e := range slices.Backward(h.trail(repository.TrailQuery{ByRequest: true})) {
		check.Same(h, e.Entries, 1, "entries of the request that did %s", e.Action)
		got = append(got, e.Cause.Actor+" "+string(e.Action))
	}
	check.Same(h, got, want, "requests with one id")
}

// auditCountsVisible: an entry about a message names no topic, so it does not show whether a caller with some topics
// may see that message. For such a caller, only the request's entries about the object of the query are counted.
func auditCountsVisible(h *harness) {
	ids := h.puts(3)
	h.change(entity.RedriveDead, entity.AuditInfo{Actor: "alice", Call: uuid.New()}, ids...)
	for _, c := range []struct {
		visible *entity.TopicPatterns
		want    int
	}{{nil, 3}, {&entity.TopicPatterns{}, 1}} {
		found := h.trail(repository.TrailQuery{ObjectID: ids[0], ByRequest: true, Visible: c.visible})
		check.Require(h, len(found) == 1, "got %d entries of a message, want 1", len(found))
		check.Same(h, found[0].Entries, c.want, "entries of the request for a caller who sees %+v", c.visible)
	}
}

func auditUnknown(h *harness) {
	h.in(entity.Resolved)
	check.Len(h, h.trail(repository.TrailQuery{ObjectID: uuid.New()}), 0, "trail of an unknown object")
}

func auditOutlives(h *harness) {
	m := h.in(entity.Dead)
	before := h.entriesOf(m.ID)
	h.clock.Advance(time.Second)
	check.NoError(h, h.Repository.Delete(h.Context(), m.ID, entity.By("alice")))
	got := h.entriesOf(m.ID)
	check.True(h, len(got) == len(before)+1 && got[len(got)-1].Action == entity.ActionDelete && got[len(got)-1].To == "",
		"trail of a deleted message = %+v, want what it was and the delete", got)
}

func (h *harness) wantPerformed(operation uuid.UUID, want bool) {
	h.Helper()
	check.Same(h, check.Must(h.Repository.Performed(h.Context(), operation))(h), want, "Performed(%s)", operation)
}

func auditPerformed(h *harness) {
	cause := fullCause()
	h.wantPerformed(cause.Operation, false)
	check.Must(h.Repository.MarkDead(h.Context(), h.put().ID, cause))(h)
	h.wantPerformed(cause.Operation, true)
	h.wantPerformed(uuid.New(), false)
}

func auditPerformedNil(h *harness) {
	h.in(entity.Dead)
	h.wantPerformed(uuid.Nil, false)
}
