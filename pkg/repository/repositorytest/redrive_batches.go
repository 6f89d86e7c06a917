package repositorytest

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func redriveBatchesPromises() []promise {
	return []promise{
		{"HandsOutEveryMessageOnce", leaseAll},
		{"OnlyActiveOnesHandOutBatches", leaseInactive},
		{"WhatTheDeadHadIsHandedOutInEveryState", leaseInactiveOfTheDead},
		{"CanaryHandsOutTheCanaryOnly", leaseCanary},
		{"RateLetsNoMoreThroughAndHasNoBurst", leaseRate},
		{"RestOfABatchCountsForTheRate", leaseRateOfRest},
		{"KeyOrderIsOneBatchAfterTheOther", leaseOrdered},
		{"BatchOfTheDeadIsTakenOver", leaseTakenOver},
		{"RenewedLeaseIsKept", leaseRenewed},
		{"SaveCountsEachResult", saveCounts},
		{"SaveInPartsComesTogether", saveParts},
		{"SaveOfNothingGivesTheBatchBack", saveNothing},
		{"SaveAfterALossStoresNothing", saveLost},
		{"SaveAfterAPauseCounts", savePaused},
		{"SaveTakesForeignNumbersAndTextThatIsNone", saveForeign},
		{"ItemsComeByPageAndResult", itemsPaged},
		{"ItemsTellWhatBecameOfTheirRecords", itemsOutcomes},
		{"ConfiguredGroupTellsOfItemsThatNameNone", itemsConfigured},
		{"OutcomesOfTheCanaryAlone", outcomesCanary},
		{"OverlapsCountWhatWaitsInOthers", overlapsCounted},
		{"ReturnsAreGroupedByTheirErrors", returnsGrouped},
		{"AttemptsOfFindsTheLastOfEach", attemptsOf},
		{"AttemptsOfShowsClaims", attemptsOfClaims},
		{"ManyOwnersNeverShareABatch", raceLeases},
		{"OneOfManyTakesOver", raceTakeOver},
		{"RateHoldsForManyOwners", raceRate},
		{"NothingIsLeasedBehindAPause", racePause},
		{"OneOfManyFinishes", raceFinishRedrive},
		{"OneOfManyCreates", raceCreate},
	}
}

func (h *harness) leaseFor(id, owner uuid.UUID) *repository.RedriveBatch {
	h.Helper()
	return check.Must(h.Repository.LeaseBatch(h.Context(), id, owner, expiry))(h)
}

// lease leases the next batch for the owner; it returns nil when no batch can be leased.
func (h *harness) lease(id, owner uuid.UUID) *held {
	h.Helper()
	b := h.leaseFor(id, owner)
	if b == nil {
		return nil
	}
	return &held{b, owner}
}

// held is a leased batch and its owner.
type held struct {
	*repository.RedriveBatch
	owner uuid.UUID
}

func (h *harness) wantNoLease(id uuid.UUID) {
	h.Helper()
	b := h.leaseFor(id, uuid.New())
	check.True(h, b == nil, "LeaseBatch = %+v, want none", b)
}

// wantLease leases the next batch, whose number must be the given one.
func (h *harness) wantLease(id uuid.UUID, number int) *held {
	h.Helper()
	b := h.lease(id, uuid.New())
	check.Require(h, b != nil && b.Number == number, "LeaseBatch = %+v, want batch %d", b, number)
	return b
}

// itemWith returns an item of a batch with a result, and with the reason, the topic and the offset that usually belong
// to this result.
func itemWith(number int, id uuid.UUID, result entity.ItemResult) entity.RedriveItem {
	item := entity.RedriveItem{
		Number: number, MessageID: id, Result: result,
		Topic: original, TopicID: "life-1", Partition: 2, Offset: 41, Group: billing,
	}
	switch result {
	case entity.ItemFailed, entity.ItemInDoubt:
		item.Reason, item.Offset = string(entity.NetworkTimeout), -1
	case entity.ItemDead:
		item.Reason, item.Offset = string(entity.BadRecord), -1
	case entity.ItemSkipped, entity.ItemWaiting:
		item = entity.RedriveItem{Number: number, MessageID: id, Result: result, Offset: -1, Reason: repository.SkippedTaken}
	case entity.ItemSucceeded:
	}
	return item
}

func (h *harness) saveItems(b *held, items ...entity.RedriveItem) bool {
	h.Helper()
	return check.Must(h.Repository.SaveBatch(h.Context(), repository.BatchResults{
		RedriveID: b.RedriveID, Number: b.Number, Owner: b.owner, Items: items,
	}))(h)
}

// save stores the given results for the first messages of a batch, one for each message.
func (h *harness) save(b *held, results ...entity.ItemResult) {
	h.Helper()
	check.Require(h, b != nil, "LeaseBatch = none, want one")
	var items []entity.RedriveItem
	for i, r := range results {
		items = append(items, itemWith(b.First+i, b.Items[i].MessageID, r))
	}
	check.Require(h, h.saveItems(b, items...), "SaveBatch of batch %d = false, want true", b.Number)
}

func (h *harness) saveAll(b *held, result entity.ItemResult) {
	h.Helper()
	check.Require(h, b != nil, "LeaseBatch = none, want one")
	h.save(b, slices.Repeat([]entity.ItemResult{result}, len(b.Items))...)
}

// complete leases all batches of the redrive with the id, and saves the given result for every message in them.
func (h *harness) complete(id uuid.UUID, result entity.ItemResult) {
	h.Helper()
	for range everything {
		b := h.lease(id, uuid.New())
		if b == nil {
			return
		}
		h.saveAll(b, result)
	}
	h.Fatal("batches without end")
}

// returned makes an attempt on the message with the id on behalf of the redrive, and stores a message that is the
// return of this attempt.
func (h *harness) returned(redrive, id uuid.UUID) {
	h.Helper()
	c := intent(id)
	c.RedriveID = redrive
	taken := h.claimAll(c)
	check.Require(h, len(taken) == 1, "Claim took %d, want 1", len(taken))
	h.acknowledge(c)
	h.comeBack(id, c.ID)
}

func idsOf(b *held) []uuid.UUID {
	ids := check.Each(b.Items, func(item repository.BatchItem) uuid.UUID { return item.MessageID })
	return ids
}

func leaseAll(h *harness) {
	r, want := h.began(7)
	var got []uuid.UUID
	for n := range 3 {
		b := h.wantLease(r.ID, n)
		check.True(h, b.RedriveID == r.ID && b.First == len(got) && !b.Canary && !b.TakenOver,
			"batch %d = %+v, want item %d first, no canary, not taken over", n, b, len(got))
		got = append(got, idsOf(b)...)
	}
	h.wantIDs("leased", got, want)
	h.wantNoLease(r.ID)
}

func leaseInactive(h *harness) {
	for _, state := range []entity.RedriveState{entity.RedrivePaused, entity.RedriveStopped, entity.RedriveCancelled} {
		r, _ := h.began(2)
		h.move(r.ID, repository.RedriveMove{To: state})
		h.wantNoLease(r.ID)
		if state != entity.RedriveCancelled {
			h.move(r.ID, repository.RedriveMove{To: entity.RedriveRunning})
			h.wantLease(r.ID, 0)
		}
	}
}

func leaseCanary(h *harness) {
	r, ids := h.began(9, func(n *repository.NewRedrive) { n.Options.Canary = 4 })
	first, second := h.wantLease(r.ID, 0), h.wantLease(r.ID, 1)
	check.True(h, first.Canary && second.Canary, "batches are the canary's: %v, %v, want both", first.Canary, second.Canary)
	h.wantIDs("canary", append(idsOf(first), idsOf(second)...), ids[:4])
	h.wantNoLease(r.ID)
	h.saveAll(first, entity.ItemSucceeded)
	h.wantNoLease(r.ID)
	h.move(r.ID, repository.RedriveMove{To: entity.RedriveRunning, PassCanary: true})
	check.True(h, !h.wantLease(r.ID, 2).Canary, "the third batch is the canary's, want not")
}

func leaseRate(h *harness) {
	r, _ := h.began(8, func(n *repository.NewRedrive) { n.Options.Rate = 2 })
	for n := range 2 {
		h.wantLease(r.ID, n)
		h.wantNoLease(r.ID)
		h.clock.Advance(time.Second - time.Microsecond)
		h.wantNoLease(r.ID)
		h.clock.Advance(time.Microsecond)
	}
	h.move(r.ID, repository.RedriveMove{To: entity.RedrivePaused})
	h.clock.Advance(time.Hour)
	h.move(r.ID, repository.RedriveMove{To: entity.RedriveRunning})
	check.True(h, h.leaseFor(r.ID, uuid.New()) != nil, "LeaseBatch after a pause = none, want one")
	h.wantNoLease(r.ID)
}

func leaseRateOfRest(h *harness) {
	r, _ := h.began(4, func(n *repository.NewRedrive) { n.Options.Rate = 2 })
	h.save(h.wantLease(r.ID, 0), entity.ItemSucceeded)
	h.clock.Advance(time.Second)
	h.wantLease(r.ID, 0)
	h.clock.Advance(time.Second / 2)
	h.wantLease(r.ID, 1)
}

func leaseOrdered(h *harness) {
	r, _ := h.began(7, func(n *repository.NewRedrive) { n.Options.KeepKeyOrder = true })
	first := h.wantLease(r.ID, 0)
	h.wantNoLease(r.ID)
	h.save(first, entity.ItemSucceeded) // saves a result for one message of the batch, which has two further messages without a result
	again := h.wantLease(r.ID, 0)
	h.clock.Advance(expiry)
	over := h.wantLease(r.ID, 0)
	check.True(h, over.TakenOver, "an expired batch is leased without TakenOver")
	check.True(h, !h.saveItems(again), "SaveBatch by who lost the batch = true, want false")
	h.saveAll(over, entity.ItemSucceeded)
	h.wantLease(r.ID, 1)
	h.wantNoLease(r.ID)
}

func leaseTakenOver(h *harness) {
	r, _ := h.began(6)
	first := h.wantLease(r.ID, 0)
	h.wantLease(r.ID, 1)
	h.clock.Advance(expiry - time.Microsecond)
	h.wantNoLease(r.ID)
	h.clock.Advance(time.Microsecond)
	b := h.wantLease(r.ID, 0)
	check.True(h, b.TakenOver && slices.Equal(idsOf(b), idsOf(first)),
		"batch 0 = %+v, want it taken over with the same messages", b)
	h.wantLease(r.ID, 1)
	h.wantNoLease(r.ID)
}

func leaseRenewed(h *harness) {
	r, _ := h.began(6)
	mine, theirs := h.wantLease(r.ID, 0), h.wantLease(r.ID, 1)
	h.clock.Advance(expiry / 2)
	check.NoError(h, h.Repository.RenewLeases(h.Context(), mine.owner, expiry))
	h.clock.Advance(expiry / 2)
	check.True(h, h.wantLease(r.ID, theirs.Number).TakenOver, "the lease that was not renewed is not over")
	h.wantNoLease(r.ID)
	h.saveAll(mine, entity.ItemSucceeded)
}

func saveCounts(h *harness) {
	r, _ := h.began(8, func(n *repository.NewRedrive) { n.BatchSize = 6 })
	b := h.wantLease(r.ID, 0)
	h.save(b, entity.ItemSucceeded, entity.ItemFailed, entity.ItemDead, entity.ItemInDoubt, entity.ItemSkipped, entity.ItemSucceeded)
	h.wantRedriveCounts(r.ID, entity.RedriveCounts{
		Succeeded: 2, Failed: 2, Dead: 1, InDoubt: 1, Skipped: 1, Waiting: 2,
		Reasons: map[string]int{string(entity.NetworkTimeout): 1, string(entity.BadRecord): 1, repository.SkippedTaken: 1},
	})
	h.saveAll(h.wantLease(r.ID, 1), entity.ItemFailed)
	h.wantRedriveCounts(r.ID, entity.RedriveCounts{
		Succeeded: 2, Failed: 4, Dead: 1, InDoubt: 1, Skipped: 1,
		Reasons: map[string]int{string(entity.NetworkTimeout): 3, string(entity.BadRecord): 1, repository.SkippedTaken: 1},
	})
	h.wantNoLease(r.ID)
}

func saveParts(h *harness) {
	r, ids := h.began(3)
	b := h.wantLease(r.ID, 0)
	second := itemWith(1, ids[1], entity.ItemSucceeded)
	second.Topic, second.Partition, second.Offset, second.Group = "elsewhere", 7, 1000, ""
	check.Require(h, h.saveItems(b, second), "SaveBatch = false, want true")
	b = h.wantLease(r.ID, 0)
	check.True(h, !b.TakenOver && b.Items[0].Result == entity.ItemWaiting && b.Items[1].Result == entity.ItemSucceeded,
		"the rest of the batch = %+v, taken over %v, want the second only with a result, not taken over", b.Items, b.TakenOver)
	third, first := itemWith(2, ids[2], entity.ItemFailed), itemWith(0, ids[0], entity.ItemSucceeded)
	check.Require(h, h.saveItems(b, third, first), "SaveBatch = false, want true")
	first.Outcome, second.Outcome = entity.Published, entity.Published
	check.Same(h, h.items(r.ID, repository.ItemQuery{}), []entity.RedriveItem{first, second, third}, "items")
	h.wantRedriveCounts(r.ID, entity.RedriveCounts{
		Succeeded: 2, Failed: 1, Reasons: map[string]int{string(entity.NetworkTimeout): 1},
	})
	h.wantNoLease(r.ID)
}

func saveNothing(h *harness) {
	r, _ := h.began(2)
	b := h.wantLease(r.ID, 0)
	check.True(h, h.saveItems(b) && !h.saveItems(b), "SaveBatch twice, want true and then false")
	check.True(h, !h.wantLease(r.ID, 0).TakenOver, "a batch that was given back is taken over, want not")
	h.wantRedriveCounts(r.ID, entity.RedriveCounts{Waiting: 2, UnderWay: 2})
}

func saveLost(h *harness) {
	r, ids := h.began(2)
	late := h.wantLease(r.ID, 0)
	h.clock.Advance(expiry)
	item := itemWith(0, ids[0], entity.ItemFailed)
	now := h.wantLease(r.ID, 0)
	foreign := &held{&repository.RedriveBatch{RedriveID: r.ID, Number: 99}, now.owner}
	check.True(h, !h.saveItems(late, item) && !h.saveItems(foreign, item) && !h.saveItems(&held{now.RedriveBatch, uuid.Nil}, item),
		"SaveBatch by another owner, or of no batch = true, want false")
	h.wantRedriveCounts(r.ID, entity.RedriveCounts{Waiting: 2, UnderWay: 2})
	h.saveAll(now, entity.ItemSucceeded)
	h.wantRedriveCounts(r.ID, entity.RedriveCounts{Succeeded: 2})
}

// savePaused: results of records that were sent before the redrive was paused, stopped or cancelled can still be saved.
func savePaused(h *harness) {
	for _, to := range []entity.RedriveState{entity.RedrivePaused, entity.RedriveStopped, entity.RedriveCancelled} {
		r, _ := h.began(4)
		b := h.wantLease(r.ID, 0)
		h.move(r.ID, repository.RedriveMove{To: to})
		h.save(b, entity.ItemSucceeded, entity.ItemSucceeded)
		got := h.redrive(r.ID).Counts
		check.True(h, got.Succeeded == 2 && got.Waiting == r.Selected-2,
			"%s: %d succeeded, %d wait, want 2 and %d", to, got.Succeeded, got.Waiting, r.Selected-2)
	}
}

func saveForeign(h *harness) {
	r, ids := h.began(2)
	b := h.wantLease(r.ID, 0)
	item := itemWith(0, ids[0], entity.ItemFailed)
	item.Reason, item.Topic, item.Group = "broken\x00\xff", "bro\x00ken", "\xff"
	if !h.saveItems(b, item, itemWith(-1, ids[0], entity.ItemDead), itemWith(2, ids[0], entity.ItemDead), itemWith(1, ids[1], entity.ItemWaiting)) {
		h.Fatal("SaveBatch = false, want true")
	}
	got := h.redrive(r.ID).Counts
	check.True(h, got.Failed == 1 && got.Dead == 0 && got.Waiting == 1, "counts = %+v, want one failed, one waiting", got)
}

func itemsPaged(h *harness) {
	r, ids := h.began(8)
	h.save(h.wantLease(r.ID, 0), entity.ItemSucceeded, entity.ItemDead, entity.ItemFailed)
	h.save(h.wantLease(r.ID, 1), entity.ItemInDoubt, entity.ItemSkipped, entity.ItemSucceeded)
	numbers := func(q repository.ItemQuery) (found []int) {
		for _, item := range h.items(r.ID, q) {
			if found = append(found, item.Number); item.MessageID != ids[item.Number] {
				h.Errorf("item %d is message %s, want %s", item.Number, item.MessageID, ids[item.Number])
			}
		}
		return found
	}
	for _, c := range []struct {
		q    repository.ItemQuery
		want []int
	}{
		{repository.ItemQuery{}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{repository.ItemQuery{From: 2, Limit: 3}, []int{2, 3, 4}},
		{repository.ItemQuery{From: 6}, []int{6, 7}},
		{repository.ItemQuery{From: 8}, nil},
		{repository.ItemQuery{Results: []entity.ItemResult{entity.ItemSucceeded}}, []int{0, 5}},
		{repository.ItemQuery{From: 1, Limit: 2, Results: []entity.ItemResult{entity.ItemSucceeded, entity.ItemWaiting}}, []int{5, 6}},
		{repository.ItemQuery{Results: []entity.ItemResult{entity.ItemFailed}}, []int{2}},
		{repository.ItemQuery{Results: []entity.ItemResult{entity.ItemDead}}, []int{1}},
		{repository.ItemQuery{Results: []entity.ItemResult{entity.ItemInDoubt, entity.ItemSkipped}}, []int{3, 4}},
		{repository.ItemQuery{Results: []entity.ItemResult{entity.ItemWaiting}}, []int{6, 7}},
	} {
		check.Same(h, numbers(c.q), c.want, "RedriveItems(%+v)", c.q)
	}
}

func itemsOutcomes(h *harness) {
	r, ids := h.began(9, func(n *repository.NewRedrive) { n.BatchSize = 9 })
	b := h.wantLease(r.ID, 0)
	var items []entity.RedriveItem
	for i, change := range []func(*entity.RedriveItem){
		func(*entity.RedriveItem) {},                        // is consumed, because its offset 41 is before the committed offset 50
		func(item *entity.RedriveItem) { item.Offset = 50 }, // is only published, because the consumer reads its record next
		func(item *entity.RedriveItem) { item.TopicID = "life-2" },
		func(item *entity.RedriveItem) { item.Partition = 3 },
		func(item *entity.RedriveItem) { item.Group = "shipping" },
		func(item *entity.RedriveItem) { item.Offset = -1 },
		func(*entity.RedriveItem) {},                                                                         // is returned, because its record comes back
		func(item *entity.RedriveItem) { *item = itemWith(item.Number, item.MessageID, entity.ItemInDoubt) }, // is returned, because its record comes back although its attempt is in doubt
		func(item *entity.RedriveItem) { item.Topic = "" },                                                   // has no outcome, because an item without a topic sent nothing
	} {
		item := itemWith(i, ids[i], entity.ItemSucceeded)
		change(&item)
		items = append(items, item)
	}
	check.Require(h, h.saveItems(b, items...), "SaveBatch = false, want true")
	h.saveCommitted(committed(billing, 50))
	h.returned(r.ID, ids[6])
	h.returned(r.ID, ids[7])
	h.returned(uuid.New(), ids[1]) // a return that belongs to an attempt of another redrive, and must not count for this one
	want := []entity.Outcome{
		entity.Consumed, entity.Published, entity.Published, entity.Published, entity.Published, entity.Published,
		entity.Returned, entity.Returned, "",
	}
	for i, item := range h.items(r.ID, repository.ItemQuery{}) {
		check.Same(h, item.Outcome, want[i], "item %d", i)
	}
	for outcome, want := range map[entity.Outcome][]int{entity.Consumed: {0}, entity.Published: {1, 2, 3, 4, 5}, entity.Returned: {6, 7}} {
		var got []int
		for _, item := range h.items(r.ID, repository.ItemQuery{Outcome: outcome}) {
			got = append(got, item.Number)
		}
		check.Same(h, got, want, "items that are %s", outcome)
	}
	if got := h.items(r.ID, repository.ItemQuery{From: 7, Outcome: entity.Returned, Results: []entity.ItemResult{entity.ItemInDoubt}}); len(got) != 1 || got[0].Number != 7 {
		h.Errorf("the returned one in doubt: got %+v, want item 7", got)
	}
	h.wantOutcomes(r.ID, false, entity.OutcomeCounts{Published: 5, Consumed: 1, Returned: 2})
	check.Same(h, h.redrive(r.ID).Counts.Returned, 2, "messages that came back")
}

func (h *harness) wantOutcomes(id uuid.UUID, canary bool, want entity.OutcomeCounts) {
	h.Helper()
	got, err := h.Repository.RedriveOutcomes(h.Context(), id, canary)
	check.True(h, err == nil && got == want, "RedriveOutcomes = %+v, %v, want %+v", got, err, want)
}

func itemsConfigured(h *harness) {
	r, ids := h.began(2)
	b := h.wantLease(r.ID, 0)
	nameless, named := itemWith(0, ids[0], entity.ItemSucceeded), itemWith(1, ids[1], entity.ItemSucceeded)
	nameless.Group, named.Group = "", "shipping"
	h.saveItems(b, nameless, named)
	want := func(group string, outcome entity.Outcome) {
		h.Helper()
		got := h.items(r.ID, repository.ItemQuery{})
		check.True(h, got[0].Group == group && got[0].Outcome == outcome,
			"item without a group has outcome of %q: %s, want %q: %s", got[0].Group, got[0].Outcome, group, outcome)
		check.True(h, got[1].Group == "shipping" && got[1].Outcome == entity.Published,
			"item of shipping has outcome of %q: %s, want shipping: published", got[1].Group, got[1].Outcome)
	}
	h.saveCommitted(committed(billing, 50))
	want("", entity.Published)
	h.saveGroups(repository.TopicGroup{Topic: original, Group: billing})
	want("", entity.Published)
	h.configure(repository.TopicGroup{Topic: original, Group: "aaa"}, repository.TopicGroup{Topic: "other", Group: billing})
	want("aaa", entity.Published)
	h.configure(repository.TopicGroup{Topic: original, Group: "aaa"}, repository.TopicGroup{Topic: original, Group: billing})
	want(billing, entity.Consumed)
}

func outcomesCanary(h *harness) {
	r, ids := h.began(5, func(n *repository.NewRedrive) { n.Options.Canary = 2 })
	h.saveAll(h.wantLease(r.ID, 0), entity.ItemSucceeded)
	h.wantOutcomes(r.ID, true, entity.OutcomeCounts{Published: 2})
	h.move(r.ID, repository.RedriveMove{To: entity.RedriveRunning})
	h.complete(r.ID, entity.ItemSucceeded)
	h.returned(r.ID, ids[0])
	h.returned(r.ID, ids[3])
	h.wantOutcomes(r.ID, true, entity.OutcomeCounts{Published: 1, Returned: 1})
	h.wantOutcomes(r.ID, false, entity.OutcomeCounts{Published: 3, Returned: 2})
}

func (h *harness) attemptsOf(redrive uuid.UUID, ids ...uuid.UUID) map[uuid.UUID]entity.Attempt {
	h.Helper()
	attempts := check.Must(h.Repository.AttemptsOf(h.Context(), redrive, ids))(h)
	found := map[uuid.UUID]entity.Attempt{}
	for _, a := range attempts {
		if _, twice := found[a.MessageID]; twice {
			h.Errorf("AttemptsOf has message %s twice", a.MessageID)
		}
		found[a.MessageID] = a
	}
	return found
}

// attemptFor makes an attempt for a redrive and finishes it with the verdict.
func (h *harness) attemptFor(redrive, id uuid.UUID, verdict entity.Verdict) repository.Claim {
	h.Helper()
	c := intent(id)
	c.RedriveID = redrive
	h.claimAll(c)
	h.clock.Advance(time.Second)
	h.finish(c, verdict)
	return c
}

func attemptsOf(h *harness) {
	mine, other := uuid.New(), uuid.New()
	ids := h.puts(5, func(m *entity.Message) { m.Failure.ConsumerGroup = "billing" })
	h.attemptFor(mine, ids[0], entity.Failed)
	h.attemptFor(mine, ids[0], entity.Acknowledged)
	h.attemptFor(mine, ids[1], entity.GivenBack)
	h.attemptFor(other, ids[1], entity.Failed)
	h.attempt(ids[2], entity.Failed)
	h.attemptFor(mine, ids[3], entity.Failed) // an attempt on a message that is not passed to AttemptsOf
	got := h.attemptsOf(mine, ids[0], ids[1], ids[2], ids[4], uuid.New(), ids[0])
	want := map[uuid.UUID]entity.Attempt{ids[0]: h.history(ids[0])[1], ids[1]: h.history(ids[1])[0]}
	for id, a := range want {
		a.ConsumerGroup = "billing"
		want[id] = a
	}
	check.True(h, len(got) == 2 && got[ids[0]] == want[ids[0]] && got[ids[1]] == want[ids[1]],
		"AttemptsOf\n got %+v\nwant %+v", got, want)
	check.Len(h, h.attemptsOf(mine), 0, "AttemptsOf no message")
	check.Len(h, h.attemptsOf(uuid.Nil, ids...), 0, "AttemptsOf no redrive")
}

func attemptsOfClaims(h *harness) {
	redrive := uuid.New()
	m := h.put(func(m *entity.Message) { m.Failure.ConsumerGroup = "billing" })
	h.attemptFor(redrive, m.ID, entity.Failed)
	c := intent(m.ID)
	c.RedriveID, c.Topic, c.TopicID = redrive, "elsewhere", "life-7"
	h.claimAll(c)
	want := entity.Attempt{
		MessageID: m.ID, Number: 2, ID: c.ID, RetryCount: 2, RedriveID: redrive, Verdict: entity.InDoubt, StartedAt: h.clock.Kept(),
		From: entity.Retrying, To: entity.Retrying, Topic: "elsewhere", TopicID: "life-7", Partition: c.Partition, Offset: -1,
		ConsumerGroup: "billing",
	}
	for range 2 { // checks once while the claim is valid, and once after it has expired
		check.Same(h, h.attemptsOf(redrive, m.ID)[m.ID], want, "AttemptsOf a claim")
		h.clock.Advance(2 * expiry)
	}
	check.Len(h, h.attemptsOf(uuid.New(), m.ID), 0, "AttemptsOf another redrive")
}

func raceLeases(h *harness) {
	const owners, batches = 8, 24
	r, ids := h.began(batches, func(n *repository.NewRedrive) { n.BatchSize = 1 })
	var mu sync.Mutex
	var got []uuid.UUID
	together(owners, func(int) {
		owner := uuid.New()
		for range 4 * batches { // LeaseBatch may return nil while other owners lease batches, so each owner asks several times
			b, err := h.Repository.LeaseBatch(h.Context(), r.ID, owner, expiry)
			if err != nil {
				h.Errorf("LeaseBatch: %v", err)
				return
			}
			if b == nil {
				continue
			}
			mu.Lock()
			got = append(got, b.Items[0].MessageID)
			mu.Unlock()
			item := itemWith(b.First, b.Items[0].MessageID, entity.ItemSucceeded)
			saved, err := h.Repository.SaveBatch(h.Context(), repository.BatchResults{
				RedriveID: r.ID, Number: b.Number, Owner: owner, Items: []entity.RedriveItem{item},
			})
			check.True(h, err == nil && saved, "SaveBatch = %v, %v, want true", saved, err)
		}
	})
	h.wantSameIDs("leased by all owners", got, ids)
	h.wantRedriveCounts(r.ID, entity.RedriveCounts{Succeeded: batches})
}

func raceTakeOver(h *harness) {
	for range rounds {
		r := h.create(ofIDs(h.put().ID))
		late := h.wantLease(r.ID, 0)
		h.clock.Advance(expiry)
		h.wantOne("LeaseBatch of an expired batch", func() bool {
			b, err := h.Repository.LeaseBatch(h.Context(), r.ID, uuid.New(), expiry)
			check.True(h, err == nil, "LeaseBatch: %v", err)
			check.True(h, b == nil || b.TakenOver, "it is not taken over, want that")
			return b != nil
		})
		check.True(h, !h.saveItems(late), "SaveBatch by who lost the batch = true, want false")
	}
}

func raceRate(h *harness) {
	r, _ := h.began(2*rounds, func(n *repository.NewRedrive) { n.Options.Rate = 2 })
	for range rounds {
		h.wantOne("LeaseBatch within a second", func() bool {
			b, err := h.Repository.LeaseBatch(h.Context(), r.ID, uuid.New(), time.Hour)
			check.True(h, err == nil, "LeaseBatch: %v", err)
			return b != nil
		})
		h.clock.Advance(time.Second)
	}
}

func racePause(h *harness) {
	for range rounds {
		r := h.create(retryAll(func(n *repository.NewRedrive) {
			n.BatchSize, n.Selection = 1, entity.Selection{IDs: h.puts(12)}
		}))
		var pauseErr error
		together(4, func(i int) {
			if i == 0 {
				_, pauseErr = h.Repository.MoveRedrive(h.Context(), r.ID, repository.RedriveMove{
					To: entity.RedrivePaused, Action: entity.ActionPause, Cause: entity.By("bob"),
				})
				if b, err := h.Repository.LeaseBatch(h.Context(), r.ID, uuid.New(), expiry); err != nil || b != nil {
					h.Errorf("LeaseBatch after the pause = %+v, %v, want none", b, err)
				}
				return
			}
			for range 4 {
				if _, err := h.Repository.LeaseBatch(h.Context(), r.ID, uuid.New(), expiry); err != nil {
					h.Errorf("LeaseBatch: %v", err)
				}
			}
		})
		check.True(h, pauseErr == nil, "MoveRedrive: %v", pauseErr)
		h.wantNoLease(r.ID)
	}
}

// raceFinishRedrive: two processes save the last two batches at the same time, and then both finish the redrive. The
// redrive becomes finished exactly once.
func raceFinishRedrive(h *harness) {
	for range rounds {
		r := h.create(retryAll(func(n *repository.NewRedrive) {
			n.BatchSize, n.Selection = 1, entity.Selection{IDs: h.puts(2)}
		}))
		batches := []*held{h.wantLease(r.ID, 0), h.wantLease(r.ID, 1)}
		together(2, func(i int) {
			b := batches[i]
			saved, err := h.Repository.SaveBatch(h.Context(), repository.BatchResults{
				RedriveID: r.ID, Number: b.Number, Owner: b.owner,
				Items: []entity.RedriveItem{itemWith(i, b.Items[0].MessageID, entity.ItemSucceeded)},
			})
			check.True(h, err == nil && saved, "SaveBatch = %v, %v, want true", saved, err)
			// One of the two calls may return an error, because the redrive is finished already.
			_, _ = h.Repository.MoveRedrive(h.Context(), r.ID, repository.RedriveMove{
				To: entity.RedriveFinished, Action: entity.ActionFinish, Cause: entity.By("alice"),
			})
		})
		if got := h.redrive(r.ID); got.State != entity.RedriveFinished || got.Counts.Succeeded != 2 {
			h.Errorf("it is %s with %d succeeded, want finished with 2", got.State, got.Counts.Succeeded)
		}
		if got := len(h.trail(repository.TrailQuery{ObjectID: r.ID, Action: entity.ActionFinish})); got != 1 {
			h.Errorf("it is finished %d times in the trail, want once", got)
		}
	}
}

func raceCreate(h *harness) {
	ids := h.puts(4)
	for range rounds {
		n := ofIDs(ids...)
		together(4, func(int) {
			if r, err := h.Repository.CreateRedrive(h.Context(), n); err != nil || r.ID != n.ID || r.Selected != 4 {
				h.Errorf("CreateRedrive = %d selected, %v, want 4", r.Selected, err)
			}
		})
		h.wantIDs("items", messagesOf(h.items(n.ID, repository.ItemQuery{})), ids)
		check.Same(h, len(h.entriesOf(n.ID)), 1, "entries of the trail")
	}
}

// leaseInactiveOfTheDead: when the owner of a batch has died and the redrive is not active any more, another owner can
// lease the batch, because the results of its attempts must still be stored.
func leaseInactiveOfTheDead(h *harness) {
	for _, state := range []entity.RedriveState{entity.RedrivePaused, entity.RedriveStopped, entity.RedriveCancelled} {
		ids := h.puts(2)
		r := h.create(retryAll(func(n *repository.NewRedrive) {
			n.Selection = entity.Selection{IDs: ids}
			n.BatchSize, n.Options.Rate = 1, 1
		}))
		h.wantLease(r.ID, 0)
		h.move(r.ID, repository.RedriveMove{To: state})
		if got := h.redrive(r.ID).Counts; got.UnderWay != 1 || got.Waiting != 2 {
			h.Errorf("%s: %d under way of %d waiting, want 1 of 2", state, got.UnderWay, got.Waiting)
		}
		h.wantNoLease(r.ID)
		h.clock.Advance(2 * expiry)
		active := check.Must(h.Repository.ActiveRedrives(h.Context()))(h)
		check.True(h, slices.Contains(active, r.ID), "%s: ActiveRedrives = %v, want %s among them", state, active, r.ID)
		b := h.wantLease(r.ID, 0)
		check.True(h, b.OnlyCatchUp && b.TakenOver, "%s: batch = %+v, want one to catch up with only", state, b.RedriveBatch)
		h.saveAll(b, entity.ItemSucceeded)
		h.wantNoLease(r.ID)
		if got := h.redrive(r.ID).Counts; got.UnderWay != 0 || got.Succeeded != 1 {
			h.Errorf("%s: counts = %+v, want 1 succeeded and nothing under way", state, got)
		}
		if active, err := h.Repository.ActiveRedrives(h.Context()); err != nil || slices.Contains(active, r.ID) {
			h.Errorf("%s: ActiveRedrives = %v, %v, want it gone", state, active, err)
		}
	}
}

func overlapsCounted(h *harness) {
	r, ids := h.began(6)
	n := retryAll(func(n *repository.NewRedrive) { n.ID = uuid.New() })
	want := func(when string, count int) {
		h.Helper()
		var wanted []entity.Overlap
		if count > 0 {
			now := h.redrive(r.ID)
			wanted = []entity.Overlap{{ID: r.ID, Action: now.Action, State: now.State, Actor: now.Cause.Actor, CreatedAt: now.CreatedAt, Messages: count}}
		}
		check.Same(h, check.Must(h.Repository.Overlaps(h.Context(), n))(h), wanted, "%s: overlaps of a selection", when)
	}
	want("at first", 6)
	h.save(h.wantLease(r.ID, 0), entity.ItemSucceeded, entity.ItemSkipped)
	want("with two results", 4)
	only := retryAll(func(n *repository.NewRedrive) { n.ID, n.Selection = uuid.New(), entity.Selection{IDs: ids[4:]} })
	check.Same(h, check.Must(h.Repository.Overlaps(h.Context(), only))(h)[0].Messages, 2, "of two ids")
	other := h.create(n)
	check.Same(h, check.Must(h.Repository.RedriveOverlaps(h.Context(), other.ID))(h)[0].Messages, 4, "of a redrive")
	check.Same(h, check.Must(h.Repository.RedriveOverlaps(h.Context(), r.ID))(h)[0].ID, other.ID, "of the first redrive")
	h.move(other.ID, repository.RedriveMove{To: entity.RedriveCancelled})
	h.move(r.ID, repository.RedriveMove{To: entity.RedrivePaused})
	want("while it is paused", 4)
	h.move(r.ID, repository.RedriveMove{To: entity.RedriveCancelled})
	want("when it is over", 0)
	check.Len(h, check.Must(h.Repository.RedriveOverlaps(h.Context(), other.ID))(h), 0, "redrives that are over")
}

func returnsGrouped(h *harness) {
	r, ids := h.began(4)
	f := entity.Fingerprint{Class: "Timeout", Title: "timed out"}
	check.NoError(h, h.Repository.SaveFingerprints(h.Context(), []entity.Fingerprint{f}))
	for i, id := range ids[:3] {
		c := intent(id)
		c.RedriveID = r.ID
		h.claimAll(c)
		h.acknowledge(c)
		h.comeBack(id, c.ID, func(m *entity.Message) {
			if i > 0 {
				m.Group = f.ID()
			}
		})
	}
	h.returned(uuid.New(), ids[3]) // a return that belongs to an attempt of another redrive, and must not count for this one
	got := check.Must(h.Repository.ReturnedErrors(h.Context(), r.ID))(h)
	want := []entity.ReturnedError{
		{Group: f.ID(), Class: "Timeout", Title: "timed out", Topic: original, DLQTopic: "returns.dlq", Messages: 2},
		{Topic: original, DLQTopic: "returns.dlq", Messages: 1},
	}
	check.Same(h, got, want, "errors of the messages that came back")
}
