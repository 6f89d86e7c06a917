package repositorytest

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func boundsPromises() []promise {
	return []promise{
		{"BatchesOfABoundedRedriveHaveOneTopic", boundTopics},
		{"TopicsInWithoutAreLeftOut", boundWithout},
		{"KeyOrderHoldsWithinATopic", boundOrdered},
		{"AdmitsUpToTheBound", boundAdmits},
		{"TopicsHaveBoundsOfTheirOwn", boundPerTopic},
		{"SaveGivesBackWhatWasNotSent", boundGivesBack},
		{"TheDeadHoldWhatTheyWereAdmitted", boundOfTheDead},
		{"AdmitsNothingWithoutTheLease", boundWithoutLease},
		{"KnownOutcomesMakeRoomOnceTheyAreSettled", boundKnown},
		{"ReturnsAreKnown", boundReturned},
		{"NamesTheGroupsThatAreAwaited", boundGroups},
		{"GroupsOfTheTargetDecideAfterARedirect", boundRedirected},
		{"ManyOwnersNeverExceedTheBound", boundRace},
		{"OneOfManyChangesTheBound", boundChange},
		{"ContinueLiftsTheBoundsThatAreFull", boundContinue},
		{"ContinuePassesACanaryThatWasSent", boundContinueCanary},
		{"ContinuePassesNoCanaryThatDidHarm", boundContinueHarm},
		{"ContinueOfWhatDoesNotWaitIsAConflict", boundContinueNothing},
		{"ARedriveWithoutAShareIsNotBounded", boundNone},
	}
}

const settled = time.Second

// bounded begins a redrive of n messages of the default topic that limits the share of returns.
func (h *harness) bounded(n int, changes ...func(*repository.NewRedrive)) (entity.Redrive, []uuid.UUID) {
	h.Helper()
	return h.began(n, append([]func(*repository.NewRedrive){func(n *repository.NewRedrive) {
		n.Options.MaxReturnShare, n.Options.MinSample = 0.1, 2
	}}, changes...)...)
}

func (h *harness) admit(b *held, n int, topic ...string) int {
	h.Helper()
	to := append(topic, original)[0]
	return check.Must(h.Repository.Admit(h.Context(), repository.Lease{RedriveID: b.RedriveID, Number: b.Number, Owner: b.owner}, to, n, 2))(h)
}

func (h *harness) wantAdmitted(b *held, n, want int) {
	h.Helper()
	check.Same(h, h.admit(b, n), want, fmt.Sprintf("messages admitted of %d", n))
}

func (h *harness) bounds(id uuid.UUID) []entity.TopicBound {
	h.Helper()
	return check.Must(h.Repository.RedriveBounds(h.Context(), id, settled))(h)
}

// known looks twice, so that the outcomes that are known now count, and returns the bound of the only topic.
func (h *harness) known(id uuid.UUID) entity.TopicBound {
	h.Helper()
	h.bounds(id)
	h.clock.Advance(settled)
	list := h.bounds(id)
	check.Require(h, len(list) == 1, "%d bounds, want 1", len(list))
	return list[0]
}

// putIn stores a message of another original topic.
func (h *harness) putIn(topic string) uuid.UUID {
	h.Helper()
	return h.put(func(m *entity.Message) { m.OriginalTopic = topic }).ID
}

func boundTopics(h *harness) {
	a1, b1 := h.putIn("a"), h.putIn("b")
	a2, b2, a3 := h.putIn("a"), h.putIn("b"), h.putIn("a")
	r := h.create(retryAll(func(n *repository.NewRedrive) {
		n.Selection = entity.Selection{IDs: []uuid.UUID{b1, a1, a2, b2, a3}}
		n.Options.MaxReturnShare, n.Options.MinSample, n.Options.Canary, n.Options.CanaryWait = 0.1, 20, 3, time.Minute
		n.BatchSize = 2
	}))
	check.True(h, r.Bounded, "the redrive is not bounded")
	var got []string
	for i := range 2 {
		b := h.wantLease(r.ID, i)
		got = append(got, fmt.Sprintf("%s %d %t %d", b.Topic, b.First, b.Canary, len(b.Items)))
		h.saveAll(b, entity.ItemSkipped)
	}
	h.wantNoLease(r.ID)
	h.move(r.ID, repository.RedriveMove{To: entity.RedriveRunning, Action: entity.ActionPass, PassCanary: true})
	b := h.wantLease(r.ID, 2)
	got = append(got, fmt.Sprintf("%s %d %t %d", b.Topic, b.First, b.Canary, len(b.Items)))
	check.Equal(h, got, []string{"b 0 true 2", "a 2 true 1", "a 3 false 2"}, "topic, first item, canary and size of the batches")
	items := check.Must(h.Repository.RedriveItems(h.Context(), r.ID, repository.ItemQuery{Limit: everything}))(h)
	var ids []uuid.UUID
	for _, item := range items {
		ids = append(ids, item.MessageID)
	}
	check.Equal(h, ids, []uuid.UUID{b1, b2, a1, a2, a3}, "messages in their order")
}

func boundWithout(h *harness) {
	h.putIn("a")
	h.putIn("b")
	r := h.create(retryAll(func(n *repository.NewRedrive) {
		n.Selection.Filter = entity.Filter{Topics: check.Must(entity.ParseTopicPatterns("topics", "a", "b"))(h)}
		n.Options.MaxReturnShare, n.Options.MinSample = 0.1, 2
	}))
	b := check.Must(h.Repository.LeaseBatch(h.Context(), r.ID, uuid.New(), expiry, "a"))(h)
	check.True(h, b != nil && b.Topic == "b", "LeaseBatch without a = %+v, want the batch of b", b)
	b = check.Must(h.Repository.LeaseBatch(h.Context(), r.ID, uuid.New(), expiry, "a", "b"))(h)
	check.True(h, b == nil, "LeaseBatch without a and b = %+v, want none", b)
	h.clock.Advance(expiry)
	b = check.Must(h.Repository.LeaseBatch(h.Context(), r.ID, uuid.New(), expiry, "a", "b"))(h)
	check.True(h, b != nil && b.Topic == "b" && b.TakenOver, "LeaseBatch without a and b = %+v, want the batch whose owner died", b)
}

func boundOrdered(h *harness) {
	for range 4 {
		h.putIn("a")
	}
	h.putIn("b")
	r := h.create(retryAll(func(n *repository.NewRedrive) {
		n.Selection.Filter = entity.Filter{Topics: check.Must(entity.ParseTopicPatterns("topics", "a", "b"))(h)}
		n.Options.MaxReturnShare, n.Options.MinSample, n.Options.KeepKeyOrder = 0.1, 2, true
	}))
	first := h.wantLease(r.ID, 0)
	h.wantLease(r.ID, 2)
	h.wantNoLease(r.ID)
	h.saveAll(first, entity.ItemSucceeded)
	h.wantLease(r.ID, 1)
}

func boundAdmits(h *harness) {
	r, _ := h.bounded(5)
	b := h.wantLease(r.ID, 0)
	h.wantAdmitted(b, 1, 1)
	h.wantAdmitted(b, 5, 1)
	h.wantAdmitted(b, 1, 0)
	h.wantAdmitted(h.wantLease(r.ID, 1), 2, 0)
	bounds := check.Must(h.Repository.Redrive(h.Context(), r.ID))(h).Bounds
	check.Equal(h, bounds, []entity.TopicBound{{Topic: original, Bound: 2, Admitted: 2, AdmittedAt: h.clock.Kept()}}, "bounds")
}

func boundPerTopic(h *harness) {
	r, _ := h.bounded(5)
	b := h.wantLease(r.ID, 0)
	h.wantAdmitted(b, 3, 2)
	check.Same(h, h.admit(b, 3, "elsewhere"), 2, "messages admitted to another topic")
	list := h.bounds(r.ID)
	check.True(h, len(list) == 2 && list[0].Topic == "elsewhere" && list[1].Topic == original, "bounds = %+v, want two by topic", list)
}

func boundGivesBack(h *harness) {
	r, _ := h.bounded(5)
	b := h.wantLease(r.ID, 0)
	h.wantAdmitted(b, 3, 2)
	h.save(b, entity.ItemSucceeded, entity.ItemFailed)
	b = h.wantLease(r.ID, 0)
	h.wantAdmitted(b, 1, 1)
	h.save(b)
	b = h.wantLease(r.ID, 0)
	h.wantAdmitted(b, 1, 1)
	check.Require(h, h.saveItems(b, itemWith(b.First+2, b.Items[2].MessageID, entity.ItemSucceeded)), "SaveBatch = false, want true")
	h.wantAdmitted(h.wantLease(r.ID, 1), 1, 0)
}

func boundOfTheDead(h *harness) {
	r, _ := h.bounded(5)
	dead := h.wantLease(r.ID, 0)
	h.wantAdmitted(dead, 3, 2)
	h.clock.Advance(expiry)
	heir := h.wantLease(r.ID, 0)
	h.wantAdmitted(heir, 3, 0)
	h.wantAdmitted(dead, 3, 0)
	check.True(h, !h.saveItems(dead, itemWith(0, dead.Items[0].MessageID, entity.ItemSucceeded)), "the dead saved")
	h.save(heir, entity.ItemSucceeded)
	h.wantAdmitted(h.wantLease(r.ID, 0), 3, 1)
}

func boundWithoutLease(h *harness) {
	r, _ := h.bounded(5)
	b := h.wantLease(r.ID, 0)
	h.wantAdmitted(&held{b.RedriveBatch, uuid.New()}, 1, 0)
	h.move(r.ID, repository.RedriveMove{To: entity.RedrivePaused, Action: entity.ActionPause})
	h.wantAdmitted(b, 1, 0)
	gone := *b.RedriveBatch
	gone.RedriveID = uuid.New()
	_, err := h.Repository.Admit(h.Context(), repository.Lease{RedriveID: gone.RedriveID, Owner: b.owner}, original, 1, 2)
	h.wantNoRedrive("Admit", gone.RedriveID, err)
}

func boundKnown(h *harness) {
	r, _ := h.bounded(5)
	b := h.wantLease(r.ID, 0)
	h.wantAdmitted(b, 3, 2)
	h.save(b, entity.ItemSucceeded, entity.ItemSucceeded) // both at offset 41
	check.Same(h, h.known(r.ID).Known, 0, "known outcomes before the group commits")
	h.saveCommitted(committedIn(2, 42))
	check.Same(h, h.bounds(r.ID)[0].Known, 0, "known outcomes when they are first seen")
	h.clock.Advance(settled - time.Millisecond)
	check.Same(h, h.bounds(r.ID)[0].Known, 0, "known outcomes before they are settled")
	h.clock.Advance(time.Millisecond)
	check.Same(h, h.bounds(r.ID)[0].Known, 2, "known outcomes")
	b = h.wantLease(r.ID, 0)
	h.wantAdmitted(b, 1, 1)
	check.Require(h, h.saveItems(b, itemWith(b.First+2, b.Items[2].MessageID, entity.ItemSucceeded)), "SaveBatch = false, want true")
	for range 3 {
		check.Same(h, h.known(r.ID).Known, 3, "known outcomes of a batch that is done")
	}
}

// committedIn is the committed offset in a partition of the topic to which itemWith sends.
func committedIn(partition int32, offset int64) repository.Committed {
	return repository.Committed{TopicGroup: repository.TopicGroup{Topic: original, Group: billing}, TopicID: "life-1", Partition: partition, Offset: offset}
}

func boundReturned(h *harness) {
	r, ids := h.bounded(5)
	b := h.wantLease(r.ID, 0)
	h.wantAdmitted(b, 3, 2)
	h.returned(r.ID, ids[0])
	h.save(b, entity.ItemSucceeded, entity.ItemSucceeded)
	check.Same(h, h.known(r.ID).Known, 1, "known outcomes")
}

func boundGroups(h *harness) {
	r, _ := h.bounded(5)
	b := h.wantLease(r.ID, 0)
	h.wantAdmitted(b, 3, 2)
	other := itemWith(b.First+1, b.Items[1].MessageID, entity.ItemSucceeded)
	other.Group, other.Partition = "", 1
	check.Require(h, h.saveItems(b, itemWith(b.First, b.Items[0].MessageID, entity.ItemSucceeded), other), "SaveBatch = false, want true")
	check.Equal(h, h.bounds(r.ID)[0].Groups, []string{"", billing}, "groups")
	h.saveCommitted(committedIn(2, 42))
	check.Equal(h, h.bounds(r.ID)[0].Groups, []string{""}, "groups")
}

func boundRedirected(h *harness) {
	const elsewhere = "elsewhere"
	h.saveGroups(repository.TopicGroup{Topic: original, Group: billing}, repository.TopicGroup{Topic: elsewhere, Group: "shipping"})
	r, _ := h.bounded(5)
	b := h.wantLease(r.ID, 0)
	check.Same(h, h.admit(b, 2, elsewhere), 2, "messages admitted")
	sent := itemWith(b.First, b.Items[0].MessageID, entity.ItemSucceeded)
	sent.Topic = elsewhere
	check.Require(h, h.saveItems(b, sent), "SaveBatch = false, want true")
	check.Equal(h, h.bounds(r.ID)[0].Groups, []string{"shipping"}, "groups")
	for _, group := range []string{billing, "shipping"} { // what billing has committed in the topic shows that it reads it
		offset := committedIn(2, 1)
		offset.Topic, offset.Group = elsewhere, group
		h.saveCommitted(offset)
	}
	check.Equal(h, h.bounds(r.ID)[0].Groups, []string{billing}, "groups after billing has committed")
	offset := committedIn(2, 42)
	offset.Topic = elsewhere
	h.saveCommitted(offset)
	check.Same(h, h.known(r.ID).Known, 1, "known outcomes")
}

func boundRace(h *harness) {
	r, _ := h.bounded(30)
	var owners sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for range 8 {
		b := h.lease(r.ID, uuid.New())
		owners.Go(func() {
			n, err := h.Repository.Admit(h.Context(), repository.Lease{RedriveID: b.RedriveID, Number: b.Number, Owner: b.owner}, original, 3, 7)
			mu.Lock()
			defer mu.Unlock()
			check.NoError(h, err)
			total += n
		})
	}
	owners.Wait()
	check.Same(h, total, 7, "messages admitted together")
}

func boundChange(h *harness) {
	r, _ := h.bounded(5)
	b := h.wantLease(r.ID, 0)
	h.wantAdmitted(b, 3, 2)
	was := h.bounds(r.ID)[0]
	now := was
	now.Bound, now.Counted, now.Presumed, now.Looks = 4, 2, 2, 1
	check.True(h, check.Must(h.Repository.SaveBound(h.Context(), r.ID, was, now))(h), "SaveBound = false, want true")
	check.True(h, !check.Must(h.Repository.SaveBound(h.Context(), r.ID, was, now))(h), "a second SaveBound = true, want false")
	got := h.bounds(r.ID)[0]
	got.Groups = nil
	check.Equal(h, got, now, "bound")
	h.wantAdmitted(b, 9, 4)
	lifted := now
	lifted.Lifted = entity.BoundUnknown
	check.True(h, check.Must(h.Repository.SaveBound(h.Context(), r.ID, now, lifted))(h), "SaveBound = false, want true")
	h.wantAdmitted(b, 9, 9)
}

func boundContinue(h *harness) {
	r, _ := h.bounded(5)
	b := h.wantLease(r.ID, 0)
	h.wantAdmitted(b, 3, 2)
	check.Same(h, h.admit(b, 1, "elsewhere"), 1, "messages admitted to another topic")
	check.NoError(h, h.Repository.SaveWaiting(h.Context(), r.ID, true, "2 messages are not consumed"))
	cause := fullCause()
	got := check.Must(h.Repository.ContinueRedrive(h.Context(), r.ID, cause))(h)
	check.True(h, got.State == entity.RedriveRunning && got.WaitingSince.IsZero() && got.Note == "" && len(got.Bounds) == 2 &&
		got.Bounds[0].Lifted == "" && got.Bounds[1].Lifted == entity.BoundContinued, "redrive = %+v, want one topic lifted", got)
	h.wantAdmitted(b, 9, 9)
	check.Must(h.Repository.ContinueRedrive(h.Context(), r.ID, cause))(h)
	_ = check.As[*entity.NothingWaitsError](h, check.Err(h.Repository.ContinueRedrive(h.Context(), r.ID, entity.By("bob"))), "a second ContinueRedrive")
	entries := h.entriesOf(r.ID)
	last := entries[len(entries)-1]
	check.True(h, last.Action == entity.ActionContinue && last.From == "running" && last.To == "running" && last.Cause.Actor == cause.Actor &&
		last.Cause.Reason == cause.Reason, "audit entry = %+v, want the continuation", last)
}

func boundContinueCanary(h *harness) {
	r, _ := h.began(5, func(n *repository.NewRedrive) { n.Options.Canary, n.Options.CanaryWait = 2, time.Minute })
	_ = check.As[*entity.NothingWaitsError](h, check.Err(h.Repository.ContinueRedrive(h.Context(), r.ID, entity.By("bob"))), "ContinueRedrive before the canary is sent")
	h.save(h.wantLease(r.ID, 0), entity.ItemSucceeded, entity.ItemSucceeded)
	got := check.Must(h.Repository.ContinueRedrive(h.Context(), r.ID, entity.By("bob")))(h)
	check.True(h, got.State == entity.RedriveRunning && got.CanaryPassed, "redrive = %+v, want running with a passed canary", got)
	h.wantLease(r.ID, 1)
}

func boundContinueHarm(h *harness) {
	canary := func(n *repository.NewRedrive) { n.Options.Canary, n.Options.CanaryWait = 2, time.Minute }
	r, _ := h.began(5, canary)
	h.save(h.wantLease(r.ID, 0), entity.ItemSucceeded, entity.ItemFailed)
	_ = check.As[*entity.NothingWaitsError](h, check.Err(h.Repository.ContinueRedrive(h.Context(), r.ID, entity.By("bob"))), "ContinueRedrive of a canary with a failure")
	r, ids := h.began(5, canary)
	b := h.wantLease(r.ID, 0)
	h.returned(r.ID, b.Items[0].MessageID)
	h.save(b, entity.ItemSucceeded, entity.ItemSucceeded)
	_ = check.As[*entity.NothingWaitsError](h, check.Err(h.Repository.ContinueRedrive(h.Context(), r.ID, entity.By("bob"))), "ContinueRedrive of a canary with a return")
	_ = ids
}

func boundContinueNothing(h *harness) {
	r, _ := h.bounded(5)
	h.wantAdmitted(h.wantLease(r.ID, 0), 1, 1)
	_ = check.As[*entity.NothingWaitsError](h, check.Err(h.Repository.ContinueRedrive(h.Context(), r.ID, entity.By("bob"))), "ContinueRedrive below the bound")
	h.move(r.ID, repository.RedriveMove{To: entity.RedrivePaused, Action: entity.ActionPause})
	check.Is(h, check.Err(h.Repository.ContinueRedrive(h.Context(), r.ID, entity.By("bob"))), entity.ErrConflict, "ContinueRedrive of a paused redrive")
	id := uuid.New()
	h.wantNoRedrive("ContinueRedrive", id, check.Err(h.Repository.ContinueRedrive(h.Context(), id, entity.By("bob"))))
}

func boundNone(h *harness) {
	r, _ := h.began(5, func(n *repository.NewRedrive) { n.Options.MaxFailureShare, n.Options.MinSample = 0.1, 2 })
	check.True(h, !r.Bounded && r.Bounds == nil, "redrive = %+v, want no bounds", r)
	check.Same(h, h.wantLease(r.ID, 0).Topic, "", "topic of a batch")
}
