package repositorytest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func redriveSelectionPromises() []promise {
	return []promise{
		{"FilterIsOldestFirst", selectionOrder},
		{"FindsByDeadLetterTopicAndByOriginalTopic", selectionNames},
		{"TakesWhatTheActionCan", selectionActions},
		{"NamedStatusesAreToldOf", selectionStatuses},
		{"EachFieldNarrows", selectionFields},
		{"IgnoresTheNextAttemptTime", selectionNextAttempt},
		{"CutOffIsExclusiveBeginningInclusive", selectionTimes},
		{"ImpossibleWordsSelectNothing", selectionImpossible},
		{"WhatArrivesLaterIsNotInIt", selectionFrozen},
		{"WhatChangesLaterStaysInIt", selectionStays},
		{"IDsKeepTheirOrderEachOnce", selectionIDs},
		{"IDsThatCannotBeTakenAreCounted", selectionIDsLeftOut},
		{"IDsMustMatchTheOtherFields", selectionIDsNarrowed},
		{"IDsThatAreNotVisibleAreAsUnknownOnes", selectionIDsHidden},
		{"KeyOrderIsThatOfTheOriginalOffsets", selectionKeyOrder},
		{"WithoutKeyOrderOffsetsDoNotMatter", selectionNoKeyOrder},
		{"BatchesAreNoLargerThanAskedFor", selectionBatches},
		{"CanaryIsExactlyItsNumber", selectionCanary},
		{"CanaryIsForRetriesOnly", selectionCanaryOfOthers},
		{"RateKeepsBatchesToASecond", selectionRate},
		{"ArchivedMessagesAreThoseThatTheCallerFound", selectionArchived},
		{"ArchivedMessagesHaveTheirOwnActions", selectionArchivedActions},
		{"SurveyCountsTheSame", previewCounts},
		{"SurveyIsLargestFirstWithASample", previewGroups},
		{"SurveyTellsDeadLetterTopicsApart", previewSources},
		{"SurveyOfIDs", previewIDs},
		{"SurveyStoresNothing", previewStoresNothing},
	}
}

// items returns items of a redrive. When the query has no limit, it returns all of them.
func (h *harness) items(id uuid.UUID, q repository.ItemQuery) []entity.RedriveItem {
	h.Helper()
	if q.Limit == 0 {
		q.Limit = everything
	}
	return check.Must(h.Repository.RedriveItems(h.Context(), id, q))(h)
}

func messagesOf(items []entity.RedriveItem) []uuid.UUID {
	ids := check.Each(items, func(item entity.RedriveItem) uuid.UUID { return item.MessageID })
	return ids
}

// wantSelected creates a redrive, and checks which messages it contains, and how many messages it has left out for each
// reason.
func (h *harness) wantSelected(name string, n repository.NewRedrive, leftOut map[string]int, want ...uuid.UUID) {
	h.Helper()
	n.ID = uuid.New()
	r := h.create(n)
	h.wantIDs(name, messagesOf(h.items(r.ID, repository.ItemQuery{})), want)
	skipped := 0
	for _, count := range leftOut {
		skipped += count
	}
	check.True(h, r.Selected == len(want)+skipped && r.LeftOut == skipped,
		"%s: %d selected, %d left out, want %d and %d", name, r.Selected, r.LeftOut, len(want)+skipped, skipped)
	h.wantRedriveCounts(r.ID, entity.RedriveCounts{Waiting: len(want), Skipped: skipped, Reasons: leftOut})
}

func selectionOrder(h *harness) {
	want := ties(h, 8)
	h.wantSelected("messages", retryAll(), nil, append(want, h.put().ID)...)
}

func selectionNames(h *harness) {
	orders, payments, unknown := twoNames(h)
	both := h.put(func(m *entity.Message) { m.OriginalTopic, m.Source = "shared.dlq", h.source("shared.dlq", 8) })
	sql := h.put(func(m *entity.Message) { m.Source = entity.Source{} })
	h.wantSelected("orders", retryAll(), nil, orders.ID, sql.ID)
	h.wantSelected("shared.dlq", retryAll(func(n *repository.NewRedrive) { n.Selection.Topic = "shared.dlq" }), nil,
		orders.ID, payments.ID, unknown.ID, both.ID)
}

// archivedOf changes a redrive to one of archived messages, of which the caller has found the given ones.
func archivedOf(found ...uuid.UUID) func(*repository.NewRedrive) {
	return func(n *repository.NewRedrive) { n.Selection.Archived, n.Found = true, &found }
}

func selectionArchived(h *harness) {
	a, b, c := uuid.New(), uuid.New(), uuid.New()
	h.wantSelected("by filter", retryAll(archivedOf(b, a, c)), nil, b, a, c)
	h.wantSelected("no message", retryAll(archivedOf()), nil)
	byID := func(n *repository.NewRedrive) { n.Selection.IDs, n.Selection.Topic = []uuid.UUID{c, b, c, a}, "" }
	h.wantSelected("by id", retryAll(archivedOf(a, c), byID), map[string]int{repository.SkippedGone: 1}, c, a)
	n := retryAll(archivedOf(a), func(n *repository.NewRedrive) { n.Action = entity.RedriveRestore })
	n.ID = uuid.New()
	for _, r := range []entity.Redrive{h.create(n), check.Must(h.Repository.Redrive(h.Context(), n.ID))(h)} {
		check.True(h, r.Selection.Archived && r.Action == entity.RedriveRestore, "redrive has %+v and action %s, want archived messages and restore", r.Selection, r.Action)
	}
}

func selectionArchivedActions(h *harness) {
	for _, action := range []entity.RedriveAction{
		entity.RedriveRetry, entity.RedriveRequeue, entity.RedriveDead, entity.RedriveDelete, entity.RedriveMap, entity.RedriveRestore,
	} {
		for _, archived := range []bool{true, false} {
			n := retryAll(func(n *repository.NewRedrive) {
				n.ID, n.Action, n.Options.OriginalTopic = uuid.New(), action, "payments"
			})
			if archived {
				archivedOf()(&n)
			}
			_, err := h.Repository.CreateRedrive(h.Context(), n)
			want := archived == slices.Contains(entity.ArchivedActions(), action) || !archived && action != entity.RedriveRestore
			check.True(h, want == (err == nil), "%s of archived messages %v: error %v, want that it is allowed: %v", action, archived, err, want)
			if err != nil {
				check.Is(h, err, entity.ErrInvalid, string(action))
			}
		}
	}
	n := retryAll(func(n *repository.NewRedrive) { n.ID, n.Selection.Archived = uuid.New(), true })
	check.Is(h, check.Err(h.Repository.CreateRedrive(h.Context(), n)), entity.ErrInvalid, "archived messages that nobody has searched for")
}

// oneOfEach stores one message of each status, one whose attempts are used up, and one that is unsettleable, because
// the actions of redrives treat these differently. It returns their ids, by the status or by the names exhausted and
// unsettled.
func oneOfEach(h *harness) map[string]uuid.UUID {
	found := map[string]uuid.UUID{}
	for _, s := range entity.Statuses() {
		found[string(s)] = h.in(s).ID
	}
	found["exhausted"] = h.put(func(m *entity.Message) { m.RetryCount = m.MaxRetries }).ID
	found["unsettled"] = h.put().ID
	h.unsettleable(found["unsettled"])
	return found
}

func selectionActions(h *harness) {
	m := oneOfEach(h)
	taken := func(n int) map[string]int { return map[string]int{repository.SkippedTaken: n} }
	for _, c := range []struct {
		action  entity.RedriveAction
		requeue bool
		want    []string
		leftOut map[string]int
	}{
		{entity.RedriveRetry, false, []string{"PENDING"}, taken(2)},
		{entity.RedriveRetry, true, []string{"PENDING", "DEAD"}, taken(2)},
		{entity.RedriveRequeue, false, []string{"DEAD"}, taken(2)},
		{entity.RedriveDead, false, []string{"PENDING", "exhausted", "unsettled"}, taken(1)},
		{entity.RedriveDelete, false, []string{"PENDING", "RESOLVED", "DEAD", "exhausted"}, taken(2)},
	} {
		var want []uuid.UUID
		for _, name := range c.want {
			want = append(want, m[name])
		}
		h.wantSelected(string(c.action), retryAll(func(n *repository.NewRedrive) {
			n.Action, n.Options.Requeue = c.action, c.requeue
		}), c.leftOut, want...)
	}
}

func selectionStatuses(h *harness) {
	m := oneOfEach(h)
	with := func(action entity.RedriveAction, statuses ...entity.Status) repository.NewRedrive {
		return retryAll(func(n *repository.NewRedrive) { n.Action, n.Selection.Statuses = action, statuses })
	}
	h.wantSelected("retry of all statuses", with(entity.RedriveRetry, entity.Statuses()...),
		map[string]int{repository.SkippedTaken: 2, repository.SkippedNotRetryable: 3}, m["PENDING"])
	h.wantSelected("retry of PENDING", with(entity.RedriveRetry, entity.Pending),
		map[string]int{repository.SkippedNotRetryable: 1}, m["PENDING"])
	h.wantSelected("delete of RESOLVED", with(entity.RedriveDelete, entity.Resolved), nil, m["RESOLVED"])
	h.wantSelected("dead of RETRYING", with(entity.RedriveDead, entity.Retrying),
		map[string]int{repository.SkippedTaken: 1}, m["unsettled"])
	h.wantSelected("requeue of RESOLVED", with(entity.RedriveRequeue, entity.Resolved),
		map[string]int{repository.SkippedNotRetryable: 1})
	h.wantSelected("retry of a status that is none", with(entity.RedriveRetry, "LOST"), nil)
}

func selectionFields(h *harness) {
	failing := func(class, group string) uuid.UUID {
		return h.put(func(m *entity.Message) { m.Failure.Class, m.Failure.ConsumerGroup = class, group }).ID
	}
	a, b, c := failing("Timeout", "billing"), failing("Timeout", "shipping"), failing("", "billing")
	other := h.put(func(m *entity.Message) { m.OriginalTopic, m.Failure.Class = "payments", "Timeout" }).ID
	with := func(s entity.Selection) repository.NewRedrive {
		return retryAll(func(n *repository.NewRedrive) { n.Selection = s })
	}
	h.wantSelected("class", with(entity.Selection{Filter: entity.Filter{ErrorClass: "Timeout"}}), nil, a, b, other)
	h.wantSelected("group", with(entity.Selection{Filter: entity.Filter{ConsumerGroup: "billing"}}), nil, a, c)
	h.wantSelected("both", with(entity.Selection{Filter: entity.Filter{ErrorClass: "Timeout", ConsumerGroup: "billing"}}), nil, a)
	h.wantSelected("topic and class", with(entity.Selection{Filter: entity.Filter{Topic: original, ErrorClass: "Timeout"}}), nil, a, b)
}

func selectionNextAttempt(h *harness) {
	m := h.put(func(m *entity.Message) { m.NextAttemptAt = h.clock.Now().Add(time.Hour) })
	h.wantSelected("a message that waits", retryAll(), nil, m.ID)
}

func selectionTimes(h *harness) {
	ids := h.puts(4)
	at := func(i int) time.Time { return h.get(ids[i]).CreatedAt }
	h.wantSelected("from the second to before the fourth", retryAll(func(n *repository.NewRedrive) {
		n.Selection = entity.Selection{Filter: entity.Filter{Topic: original, CreatedAfter: at(1), CreatedBefore: at(3)}}
	}), nil, ids[1], ids[2])
	h.wantSelected("before the second", retryAll(func(n *repository.NewRedrive) { n.Selection.CreatedBefore = at(1) }), nil, ids[0])
}

func selectionImpossible(h *harness) {
	m := h.put(func(m *entity.Message) { m.Failure.Class, m.Failure.ConsumerGroup = "a\uFFFDb", "a\uFFFDb" })
	for _, word := range impossible {
		for name, s := range map[string]entity.Selection{
			"topic":          {Filter: entity.Filter{Topic: word}},
			"class":          {Filter: entity.Filter{Topic: original, ErrorClass: word}},
			"group":          {Filter: entity.Filter{Topic: original, ConsumerGroup: word}},
			"topic of an id": {IDs: []uuid.UUID{m.ID}, Filter: entity.Filter{Topic: word}},
		} {
			if word != "" {
				h.wantSelected(name, retryAll(func(n *repository.NewRedrive) { n.Selection = s }), nil)
			}
		}
	}
}

func selectionFrozen(h *harness) {
	r, ids := h.began(3)
	h.puts(3)
	h.wantIDs("items", messagesOf(h.items(r.ID, repository.ItemQuery{})), ids)
}

func selectionStays(h *harness) {
	r, ids := h.began(3)
	h.attempt(ids[0], entity.Acknowledged)
	check.NoError(h, h.Repository.Delete(h.Context(), ids[1], entity.By("alice")))
	h.wantIDs("items", messagesOf(h.items(r.ID, repository.ItemQuery{})), ids)
}

func ofIDs(ids ...uuid.UUID) repository.NewRedrive {
	return retryAll(func(n *repository.NewRedrive) { n.Selection = entity.Selection{IDs: ids} })
}

func selectionIDs(h *harness) {
	ids := h.puts(7)
	slices.Reverse(ids)
	h.wantSelected("ids", ofIDs(append(ids, ids[2], ids[0])...), nil, ids...)
	check.Len(h, h.create(ofIDs(ids...)).Selection.IDs, 0, "selection shows ids, want them as items only")
}

func selectionIDsLeftOut(h *harness) {
	m := oneOfEach(h)
	lost := uuid.New()
	h.wantSelected("ids", ofIDs(m["DEAD"], lost, m["RETRYING"], m["PENDING"], m["RESOLVED"], m["exhausted"], lost), map[string]int{
		repository.SkippedGone: 1, repository.SkippedTaken: 1, repository.SkippedNotRetryable: 3,
	}, m["PENDING"])
}

func selectionIDsNarrowed(h *harness) {
	ids := h.puts(2)
	other := h.put(func(m *entity.Message) { m.OriginalTopic = "payments" }).ID
	n := ofIDs(other, ids[1], ids[0])
	n.Selection.Topic = original
	h.wantSelected("ids of a topic", n, nil, ids[1], ids[0])
	n.Selection.Topic = deadLetter
	h.wantSelected("ids of a dead-letter topic", n, nil, other, ids[1], ids[0])
	n.Selection.CreatedAfter = h.get(ids[1]).CreatedAt
	h.wantSelected("ids since a moment", n, nil, other, ids[1])
}

// sizes leases all batches of a redrive. It returns the number of messages in each batch, and the number of batches
// that belong to the canary.
func (h *harness) sizes(id uuid.UUID) (sizes []int, canaries int) {
	h.Helper()
	next := 0
	for range everything {
		b := h.lease(id, uuid.New())
		if b == nil {
			return sizes, canaries
		}
		check.True(h, b.Number == len(sizes) && b.First == next,
			"batch %d begins with item %d, want batch %d with %d", b.Number, b.First, len(sizes), next)
		sizes, next = append(sizes, len(b.Items)), next+len(b.Items)
		if b.Canary {
			canaries++
		}
	}
	h.Fatal("batches without end")
	return nil, 0
}

func (h *harness) wantSizes(n repository.NewRedrive, canaries int, want ...int) {
	h.Helper()
	n.ID = uuid.New()
	r := h.create(n)
	if r.State == entity.RedriveCanary {
		h.move(n.ID, repository.RedriveMove{To: entity.RedriveRunning})
	}
	got, marked := h.sizes(n.ID)
	check.True(h, slices.Equal(got, want) && marked == canaries,
		"batches of %v, %d the canary's, want %v, %d", got, marked, want, canaries)
}

// selectionIDsHidden: a selection by ids does not reveal whether messages exist that the caller may not see.
func selectionIDsHidden(h *harness) {
	mine := h.put()
	hidden := h.put(func(m *entity.Message) { m.OriginalTopic = "payments" })
	unknown := h.put(func(m *entity.Message) { m.OriginalTopic = "" })
	nowhere := h.put(func(m *entity.Message) { m.OriginalTopic, m.Source = "", entity.Source{} })
	resolved := h.in(entity.Resolved, func(m *entity.Message) { m.OriginalTopic = "payments" })
	n := retryAll(func(n *repository.NewRedrive) {
		n.Selection = entity.Selection{IDs: []uuid.UUID{hidden.ID, mine.ID, unknown.ID, uuid.New(), nowhere.ID, resolved.ID}}
		n.Selection.Visible = h.visible(original)
	})
	h.wantSelected("ids of others", n, map[string]int{repository.SkippedGone: 5}, mine.ID)
	for _, g := range h.survey(n) {
		if want := map[string]int{"": 1, repository.SkippedGone: 5}[g.Reason]; g.Messages != want || g.Reason != "" && g.Topic != "" {
			h.Errorf("Survey of ids of others has %+v, want 1 that goes and 5 of no topic that are gone", g)
		}
	}
}

func selectionBatches(h *harness) {
	h.puts(6)
	h.wantSizes(retryAll(func(n *repository.NewRedrive) { n.BatchSize = 4 }), 0, 4, 2)
	h.wantSizes(retryAll(func(n *repository.NewRedrive) { n.BatchSize = 3 }), 0, 3, 3)
	h.wantSizes(retryAll(func(n *repository.NewRedrive) { n.BatchSize = 7 }), 0, 6)
	h.wantSizes(retryAll(func(n *repository.NewRedrive) { n.BatchSize = 1 }), 0, 1, 1, 1, 1, 1, 1)
}

func selectionCanary(h *harness) {
	h.puts(10)
	canary := func(size, canary int) repository.NewRedrive {
		return retryAll(func(n *repository.NewRedrive) { n.BatchSize, n.Options.Canary = size, canary })
	}
	h.wantSizes(canary(4, 1), 1, 1, 4, 4, 1)
	h.wantSizes(canary(4, 4), 1, 4, 4, 2)
	h.wantSizes(canary(4, 6), 2, 4, 2, 4)
	h.wantSizes(canary(3, 10), 4, 3, 3, 3, 1)
	h.wantSizes(canary(4, 100), 3, 4, 4, 2)
}

func selectionCanaryOfOthers(h *harness) {
	h.puts(4)
	r := h.create(retryAll(func(n *repository.NewRedrive) {
		n.Action, n.Options.Canary, n.Options.KeepKeyOrder = entity.RedriveDelete, 2, true
	}))
	check.True(h, r.State == entity.RedriveRunning && r.CanaryPassed, "a delete with a canary is %s, want running", r.State)
	if got, marked := h.sizes(r.ID); !slices.Equal(got, []int{3, 1}) || marked != 0 {
		h.Errorf("batches of %v, %d the canary's, want 3 and 1, and none", got, marked)
	}
}

func selectionRate(h *harness) {
	h.puts(5)
	for _, c := range []struct {
		rate float64
		want int
	}{{2.9, 2}, {0.1, 1}, {1, 1}, {3, 3}, {1000, 3}} {
		r := h.create(retryAll(func(n *repository.NewRedrive) { n.Options.Rate = c.rate }))
		b := h.lease(r.ID, uuid.New())
		check.True(h, b != nil && len(b.Items) == c.want,
			"with %v messages a second the first batch is %+v, want %d messages", c.rate, b, c.want)
	}
}

func (h *harness) survey(n repository.NewRedrive) []repository.SelectionCount {
	h.Helper()
	return check.Must(h.Repository.PreviewRedrive(h.Context(), n))(h)
}

func previewCounts(h *harness) {
	oneOfEach(h)
	for _, action := range []entity.RedriveAction{entity.RedriveRetry, entity.RedriveRequeue, entity.RedriveDead, entity.RedriveDelete} {
		for _, statuses := range [][]entity.Status{nil, entity.Statuses()} {
			n := retryAll(func(n *repository.NewRedrive) { n.Action, n.Selection.Statuses = action, statuses })
			found := map[string]int{}
			for _, g := range h.survey(n) {
				found[g.Reason] += g.Messages
			}
			r := h.create(n)
			want := map[string]int{"": r.Counts.Waiting}
			for reason, count := range r.Counts.Reasons {
				want[reason] += count
			}
			for reason, count := range want {
				check.Same(h, found[reason], count, "%s of %v: of %q of Survey", action, statuses, reason)
			}
		}
	}
}

func previewGroups(h *harness) {
	with := func(topic string, c entity.Confidence) func(*entity.Message) {
		return func(m *entity.Message) { m.OriginalTopic, m.Origin.Confidence = topic, c }
	}
	h.puts(3, with("a", entity.FromHeader))
	h.puts(2, with("b", entity.FromHeader))
	guessed := h.put(with("b", entity.FromName)).ID
	unknown := h.put(with("", entity.FromNothing)).ID
	h.puts(4, with("b", entity.FromHeader))
	claimed := h.in(entity.Retrying, with("b", entity.FromHeader)).ID

	got := h.survey(retryAll(func(n *repository.NewRedrive) { n.Selection.Topic = deadLetter }))
	want := []repository.SelectionCount{
		{Messages: 6, Topic: "b", Confidence: entity.FromHeader},
		{Messages: 3, Topic: "a", Confidence: entity.FromHeader},
		{Messages: 1, Topic: "", Confidence: entity.FromNothing, Sample: unknown},
		{Messages: 1, Topic: "b", Confidence: entity.FromHeader, Reason: repository.SkippedTaken, Sample: claimed},
		{Messages: 1, Topic: "b", Confidence: entity.FromName, Sample: guessed},
	}
	for i := range min(2, len(got)) {
		m := h.get(got[i].Sample)
		check.True(h, m.OriginalTopic == got[i].Topic && m.Origin.Confidence == got[i].Confidence,
			"sample of %+v is a message of %q, %s", got[i], m.OriginalTopic, m.Origin.Confidence)
		want[i].Sample = got[i].Sample
	}
	check.Same(h, got, want, "Survey")
}

func previewSources(h *harness) {
	from := func(topic string) func(*entity.Message) {
		return func(m *entity.Message) { m.Source = h.source(topic, h.next) }
	}
	h.puts(2, from("gamma.dlq"))
	h.puts(3, from("orders.dlq"))
	ids := h.puts(1, from("gamma.dlq"))
	for name, n := range map[string]repository.NewRedrive{
		"by filter": retryAll(func(n *repository.NewRedrive) { n.Selection.Topic = original }),
		"by ids":    ofIDs(append(h.puts(1, from("orders.dlq")), ids...)...),
	} {
		got := map[string]int{}
		for _, g := range h.survey(n) {
			got[h.get(g.Sample).Source.Topic] += g.Messages
		}
		want := map[string]int{"gamma.dlq": 3, "orders.dlq": 4}
		if name == "by ids" {
			want = map[string]int{"gamma.dlq": 1, "orders.dlq": 1}
		}
		check.Same(h, got, want, "%s: Survey", name)
	}
}

func previewIDs(h *harness) {
	m, lost := h.put(), uuid.New()
	got := h.survey(ofIDs(lost, m.ID, m.ID))
	want := []repository.SelectionCount{
		{Messages: 1, Reason: repository.SkippedGone, Sample: lost},
		{Messages: 1, Topic: original, Confidence: entity.FromHeader, Sample: m.ID},
	}
	check.Same(h, got, want, "Survey")
}

func previewStoresNothing(h *harness) {
	m := h.put()
	n := retryAll()
	h.survey(n)
	h.wantNoRedrive("Redrive after a survey", n.ID, check.Err(h.Repository.Redrive(h.Context(), n.ID)))
	h.wantUnchanged(h.get(m.ID))
}

// selectionKeyOrder: the names of the messages say their key, their original partition and offset, and the second in
// which their dead letter was written. They are stored in another order.
func selectionKeyOrder(h *harness) {
	epoch := h.clock.Now().Add(-time.Hour)
	ids := map[string]uuid.UUID{}
	put := func(name, key string, partition, offset int64, died, dlqPartition int) {
		ids[name] = h.put(func(m *entity.Message) {
			m.Record.Key = []byte(key)
			if key == "" {
				m.Record.Key = nil
			}
			if offset >= 0 {
				p := int32(partition)
				m.Origin.Partition, m.Origin.Offset = &p, &offset
			}
			m.Source.Partition, m.Source.Timestamp = int32(dlqPartition), epoch.Add(time.Duration(died)*time.Second)
		}).ID
	}
	want := func(what string, names ...string) {
		h.Helper()
		list := check.Each(names, func(name string) uuid.UUID { return ids[name] })
		keep := func(n *repository.NewRedrive) { n.Options.KeepKeyOrder = true }
		h.wantSelected(what, retryAll(keep), nil, list...)
		reversed := slices.Clone(list)
		slices.Reverse(reversed)
		h.wantSelected(what+", by ids", retryAll(keep, func(n *repository.NewRedrive) { n.Selection = entity.Selection{IDs: reversed} }), nil, list...)
		for _, id := range list {
			check.NoError(h, h.Repository.Delete(h.Context(), id, entity.By("ops")))
		}
		clear(ids)
	}

	put("6", "k", 0, 6, 1, 0)
	put("5", "k", 0, 5, 2, 0)
	put("7", "k", 0, 7, 3, 0)
	want("one key", "5", "6", "7")

	for i, offset := range []int64{4, 2, 8, 5, 0, 7, 3, 1, 6} { // read one dead-letter partition after the other
		put(fmt.Sprint(offset), "k", 0, offset, int(offset), i/3)
	}
	want("three dead-letter partitions", "0", "1", "2", "3", "4", "5", "6", "7", "8")

	put("k9", "k", 0, 9, 1, 0)
	put("l3", "l", 0, 3, 2, 0)
	put("k2", "k", 0, 2, 3, 0)
	want("other keys keep their places", "l3", "k2", "k9")

	put("at 1, unknown", "k", 0, -1, 1, 0)
	put("at 2, offset 9", "k", 0, 9, 2, 0)
	put("at 3, unknown", "k", 0, -1, 3, 0)
	put("at 4, offset 4", "k", 0, 4, 4, 0)
	put("at 5, unknown", "k", 0, -1, 5, 0)
	want("offsets that are not known", "at 1, unknown", "at 3, unknown", "at 4, offset 4", "at 2, offset 9", "at 5, unknown")

	put("partition 3, offset 1", "k", 3, 1, 3, 1)
	put("partition 0, offset 90", "k", 0, 90, 2, 0)
	put("partition 0, offset 80", "k", 0, 80, 1, 0)
	put("partition 3, offset 0", "k", 3, 0, 4, 1)
	want("partitions of an enlarged topic", "partition 0, offset 80", "partition 0, offset 90", "partition 3, offset 0", "partition 3, offset 1")

	put("later", "", 0, 1, 2, 0)
	put("earlier", "", 0, 2, 1, 0)
	want("without a key", "earlier", "later")
}

func selectionNoKeyOrder(h *harness) {
	first := h.put(func(m *entity.Message) { failed(m); *m.Origin.Offset = 9 })
	second := h.put(func(m *entity.Message) { failed(m); *m.Origin.Offset = 1 })
	h.wantSelected("without key order", retryAll(), nil, first.ID, second.ID)
}
