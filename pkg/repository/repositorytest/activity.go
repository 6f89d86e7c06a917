package repositorytest

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func activityPromises() []promise {
	return []promise{
		{"HasEveryStepOldestFirst", activitySteps},
		{"CountsWhatCameBackToo", activityReturned},
		{"CountsEachOnce", activityOnce},
		{"CountsNothingTwiceInAnotherVersion", activityVersions},
		{"CountsNothingForAnotherVersion", activityStale},
		{"StaysWhateverBecomesOfMessages", activityStays},
		{"CountsArchivedMessagesToo", activityArchived},
		{"IsOfVisibleTopics", activityVisible},
		{"ForgetsWhatIsOld", activityForgets},
		{"ForgetsFineStepsSooner", activityFine},
		{"SaysHowFarItIs", activityUntil},
		{"IsCountedOnceBesideOthers", activityTogether},
	}
}

func (h *harness) arrivals(q repository.ArrivalsQuery) repository.Arrivals {
	h.Helper()
	return check.Must(h.Repository.Arrivals(h.Context(), q))(h)
}

// lastWeek returns a query for the hourly numbers of arrivals in the seven days that end with the present hour.
func (h *harness) lastWeek() repository.ArrivalsQuery {
	until := h.clock.Now().UTC().Truncate(time.Hour).Add(time.Hour)
	return repository.ArrivalsQuery{Since: until.Add(-7 * 24 * time.Hour), Until: until, Step: time.Hour}
}

// wantArrivals checks the number of messages that arrived in the last week, and the number of returns among them.
func (h *harness) wantArrivals(what string, arrived, returned int64, changes ...func(*repository.ArrivalsQuery)) {
	h.Helper()
	q := h.lastWeek()
	for _, change := range changes {
		change(&q)
	}
	var a, r int64
	for _, p := range h.arrivals(q).Points {
		a, r = a+p.Arrived, r+p.Returned
	}
	check.True(h, a == arrived && r == returned, "%s: %d arrived and %d returned, want %d and %d", what, a, r, arrived, returned)
}

// documented stores documents with the given version for the given messages, as the indexer does.
func (h *harness) documented(version int64, ids ...uuid.UUID) {
	h.Helper()
	h.hold(version)
	documents := make([]entity.Document, len(ids))
	for i, id := range ids {
		documents[i] = entity.Document{MessageID: id, Text: "boom"}
	}
	h.document(version, documents...)
}

func cameBack(m *entity.Message) { m.Parent, m.Root = uuid.New(), uuid.New() }

func ofArrivals(topic string) func(*repository.ArrivalsQuery) {
	return func(q *repository.ArrivalsQuery) { q.Topic = topic }
}

func activitySteps(h *harness) {
	now := h.clock.Now().UTC()
	since := now.Truncate(5 * time.Minute).Add(-55 * time.Minute)
	q := repository.ArrivalsQuery{Since: since, Until: since.Add(time.Hour), Step: repository.FineArrivalsStep}
	came := map[int]int64{0: 1, 3: 2, 10: 1, 11: 1}
	var ids []uuid.UUID
	for _, at := range []time.Duration{
		-time.Microsecond, 0, 15 * time.Minute, 20*time.Minute - time.Microsecond, 50 * time.Minute, now.Sub(since),
	} {
		ids = append(ids, h.put(func(m *entity.Message) { m.CreatedAt = since.Add(at) }).ID)
	}
	h.documented(1, ids...)
	for i, p := range h.arrivals(q).Points {
		want := repository.ArrivalsPoint{At: since.Add(time.Duration(i) * 5 * time.Minute), Arrived: came[i]}
		check.Same(h, p, want, "point %d", i)
	}
	check.Same(h, len(h.arrivals(q).Points), 12, "points of an hour")
	q.Since, q.Step = q.Since.Truncate(time.Hour), time.Hour
	q.Until = q.Since.Add(2 * time.Hour)
	var hours []int64
	for _, p := range h.arrivals(q).Points {
		hours = append(hours, p.Arrived)
	}
	if !slices.Equal(hours, []int64{4, 2}) { // the messages arrived from 04:10 to 05:06: 4 before 05:00, and 2 after it
		h.Errorf("by the hour %v, want 4 and 2", hours)
	}
}

func activityReturned(h *harness) {
	h.documented(1, h.put().ID, h.put(cameBack).ID, h.put(cameBack, ofTopic("payments")).ID)
	h.wantArrivals("all", 3, 2)
	h.wantArrivals("one topic", 2, 1, ofArrivals(original))
	h.wantArrivals("another", 1, 1, ofArrivals("payments"))
	h.wantArrivals("a part of its name", 0, 0, ofArrivals("pay"))
	h.wantArrivals("a dead-letter topic", 0, 0, ofArrivals(deadLetter))
	h.wantArrivals("what cannot be a name", 0, 0, ofArrivals("a\x00\xff"))
}

func activityOnce(h *harness) {
	m, uncounted := h.put(), h.put()
	h.wantArrivals("before its document", 0, 0)
	for _, text := range []string{"boom", "boom", "another"} {
		h.hold(1)
		h.document(1, entity.Document{MessageID: m.ID, Text: text}, entity.Document{MessageID: m.ID, Text: text}, entity.Document{MessageID: uuid.New()})
	}
	h.wantArrivals("after three documents", 1, 0)
	h.documented(1, m.ID, uncounted.ID)
	h.wantArrivals("with another one", 2, 0)
}

func activityVersions(h *harness) {
	ids := h.puts(3)
	h.documented(1, ids...)
	for version := range int64(3) {
		h.hold(10 + version)
		h.wantIDs("unindexed", h.unindexed(10+version), ids)
		h.documented(10+version, ids...)
	}
	h.wantArrivals("in the fourth version", 3, 0)
	h.documented(1, ids...)
	h.wantArrivals("back in the first", 3, 0)
}

func activityStale(h *harness) {
	m := h.put()
	h.hold(8)
	h.document(7, entity.Document{MessageID: m.ID, Text: "boom"})
	h.wantArrivals("by one who has not heard of it", 0, 0)
	h.documented(8, m.ID)
	h.wantArrivals("by the right one", 1, 0)
}

func activityStays(h *harness) {
	ids := h.puts(3, func(m *entity.Message) { m.Origin.Confidence = entity.FromMapping })
	early := h.put()
	h.documented(1, ids...)
	check.NoError(h, h.Repository.Delete(h.Context(), ids[0], entity.By("alice")))
	check.NoError(h, h.Repository.Delete(h.Context(), early.ID, entity.By("alice")))
	h.documented(1, early.ID)
	h.wantArrivals("deleted, one of them before its document", 3, 0)
	h.Archive(h.T, ids[1])
	h.documented(2, ids...)
	h.wantArrivals("archived", 3, 0)
	check.Must(h.Repository.Restore(h.Context(), ids[1], entity.By("alice")))(h)
	h.documented(3, ids...)
	h.wantArrivals("restored", 3, 0)
	if mapped, err := h.Repository.Change(h.Context(), repository.Change{
		Action: entity.RedriveMap, IDs: ids[2:], OriginalTopic: "payments",
	}, entity.By("alice")); err != nil || len(mapped) != 1 {
		h.Fatalf("Change = %v, %v, want one mapped", mapped, err)
	}
	h.documented(4, ids...)
	h.wantArrivals("given another topic", 3, 0, ofArrivals(original))
}

func activityArchived(h *harness) {
	m := h.put(cameBack)
	h.Archive(h.T, m.ID)
	h.documented(1, m.ID)
	h.documented(1, m.ID)
	h.wantArrivals("archived before its document", 1, 1)
}

func activityVisible(h *harness) {
	for _, topic := range []string{"", "a", "a", "b.x", "b.y", "c"} {
		h.documented(1, h.put(ofTopic(topic)).ID)
	}
	for globs, want := range map[string]int64{"*": 5, "^.*$": 5, "a": 2, "b.*": 2, "a c": 3, "d*": 0, deadLetter: 0} {
		visible := h.globs(strings.Fields(globs)...)
		seen := func(q *repository.ArrivalsQuery) { q.Visible = &visible }
		h.wantArrivals(globs, want, 0, seen)
		var of int64
		if visible.Match("a") {
			of = 2
		}
		h.wantArrivals("a for "+globs, of, 0, seen, ofArrivals("a"))
	}
	h.wantArrivals("all", 6, 0)
}

func activityForgets(h *harness) {
	days := func(n time.Duration) func(*entity.Message) {
		return func(m *entity.Message) { m.CreatedAt = h.clock.Now().Add(-n * 24 * time.Hour) }
	}
	all := func(q *repository.ArrivalsQuery) { q.Since = q.Since.AddDate(-1, 0, 0) }
	h.documented(1, h.put(days(300)).ID, h.put(days(9)).ID, h.put(days(7)).ID, h.put().ID, h.put(days(-2)).ID)
	h.wantArrivals("what was old when it came", 2, 0, all)
	h.clock.Advance(24 * time.Hour * 3 / 2)
	h.documented(1, h.put().ID)
	h.wantArrivals("a day and a half later", 2, 0, all)
	h.clock.Advance(24 * time.Hour * 7)
	h.documented(1, h.put().ID)
	h.wantArrivals("a week later", 2, 0, all)
	h.wantArrivals("in that week", 1, 0)
}

func activityFine(h *harness) {
	ago := func(d time.Duration) uuid.UUID {
		return h.put(func(m *entity.Message) { m.CreatedAt = h.clock.Now().Add(-d) }).ID
	}
	want := func(what string, arrived int64) {
		h.Helper()
		h.wantArrivals(what, arrived, 0, func(q *repository.ArrivalsQuery) { q.Step = repository.FineArrivalsStep })
	}
	h.documented(1, ago(0), ago(time.Hour), ago(3*time.Hour))
	want("what was old when it came", 2)
	h.wantArrivals("by the hour", 3, 0)
	h.clock.Advance(90 * time.Minute)
	h.documented(1, ago(0))
	want("an hour and a half later", 2)
	h.wantArrivals("by the hour", 4, 0)
}

func activityUntil(h *harness) {
	until := h.arrivals(h.lastWeek()).Until
	check.True(h, until.IsZero(), "at first until %v, want never", until)
	h.hold(1)
	m := h.put(grouped)
	h.wantIDs("unindexed", h.unindexed(1), []uuid.UUID{m.ID})
	if got := h.arrivals(h.lastWeek()).Until; !got.Equal(m.CreatedAt.Truncate(time.Microsecond)) {
		h.Errorf("until %v, want the message's %v", got, m.CreatedAt)
	}
	group := func() entity.ErrorGroup {
		return check.Must(h.Repository.ErrorGroup(h.Context(), someGroup, nil, repository.Trend{}))(h)
	}
	check.True(h, group().CountedUntil.Equal(m.CreatedAt.Truncate(time.Microsecond)), "minutes of the group until %v, want the message's %v", group().CountedUntil, m.CreatedAt)
	h.documented(1, m.ID)
	h.unindexed(1)
	check.True(h, group().CountedUntil.Equal(h.until()), "minutes of the group until %v, want the search index's", group().CountedUntil)
	if got, want := h.arrivals(h.lastWeek()).Until, h.until(); !got.Equal(want) || want.Before(m.CreatedAt) {
		h.Errorf("until %v, want the search index's %v", got, want)
	}
}

// activityTogether: several indexers store documents of the same messages at the same time, because more than one of
// them believes that it holds the indexer lease. Each message must be counted only once.
func activityTogether(h *harness) {
	const workers = 4
	ids := h.puts(100)
	h.hold(1)
	errs := make([]error, workers)
	together(workers, func(i int) {
		documents := make([]entity.Document, len(ids))
		for n, id := range ids {
			documents[(n*7+i*13)%len(ids)] = entity.Document{MessageID: id, Text: strings.Repeat("boom", i)}
		}
		errs[i] = h.Repository.StoreDocuments(h.Context(), 1, documents)
	})
	for _, err := range errs {
		check.True(h, err == nil, "StoreDocuments: %v", err)
	}
	h.wantArrivals("of four workers", 100, 0)
}
