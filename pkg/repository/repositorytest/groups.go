package repositorytest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func groupsPromises() []promise {
	return []promise{
		{"AreKnownOnceAMessageOfThemIsStored", groupsKnown},
		{"KeepSoMuchOfAFingerprint", groupsBounded},
		{"CountWhatThereIsAndWhatCame", groupsCount},
		{"TellFirstAndLastSeen", groupsSeen},
		{"TellArrivalsByTheHour", groupsTrend},
		{"AreOfATopicByWhatIsThere", groupsOfTopic},
		{"AreSortedAndPagedByTime", groupsByTime},
		{"AreSortedAndPagedByWhatIsOpen", groupsByOpen},
		{"AreSeenByTopics", groupsVisible},
		{"TellNoTimesOfTopicsThatAreNotSeen", groupsHiddenTimes},
		{"RegressWhenAllWereResolved", groupsRegress},
		{"TakeWhatIsRestoredForNoArrival", groupsRestored},
		{"TakeAMessageThatGetsItsGroupLater", groupsLater},
		{"CountBeforeTheyAreNotedAndGetTheirNameThen", groupsSavedLate},
		{"FollowAMappedMessage", groupsMapped},
		{"AreAnnotated", groupsAnnotated},
		{"AreAnnotatedOncePerOperation", groupsAnnotatedOnce},
		{"AreAnnotatedByTopic", groupsAnnotatedByTopic},
		{"CountWhatComesAtOnce", groupsAtOnce},
		{"AreLimitedForEachDeadLetterTopicAndHour", groupsLimited},
		{"AreLimitedOverAllCallers", groupsLimitedTogether},
		{"ClassifyLaterWhatWasRefused", groupsClassified},
	}
}

// fingerprint stores a fingerprint with the given title.
func (h *harness) fingerprint(title string) entity.Fingerprint {
	h.Helper()
	f := entity.Fingerprint{Class: "java.io.IOException", Title: title, Frames: []string{"shop.Stock.take", "shop.Order.place"}, Rule: "stock"}
	check.NoError(h, h.Repository.SaveFingerprints(h.Context(), []entity.Fingerprint{f, f}))
	return f
}

func ofGroup(f entity.Fingerprint) func(*entity.Message) {
	return func(m *entity.Message) { m.Group = f.ID() }
}

// came stores n messages of an error group, and returns their ids.
func (h *harness) came(f entity.Fingerprint, n int, changes ...func(*entity.Message)) []uuid.UUID {
	h.Helper()
	s := h.open(deadLetter, 0, 0)
	b := h.batch(s, h.position(s, 0), n, append([]func(*entity.Message){ofGroup(f)}, changes...)...)
	h.store(b, 1)
	return ids(b.Messages)
}

func (h *harness) group(f entity.Fingerprint, trend repository.Trend) entity.ErrorGroup {
	h.Helper()
	return check.Must(h.Repository.ErrorGroup(h.Context(), f.ID(), nil, trend))(h)
}

func (h *harness) groups(q repository.GroupQuery) []repository.ListedGroup {
	h.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	return check.Must(h.Repository.ErrorGroups(h.Context(), q))(h)
}

func groupsSavedLate(h *harness) {
	f := entity.Fingerprint{Class: "java.io.IOException", Title: "late"}
	h.came(f, 2)
	if g := h.group(f, repository.Trend{}); g.Title != "" || g.Arrived != 2 || g.Counts[entity.Pending] != 2 || g.FirstSeen.IsZero() {
		h.Errorf("before it is noted the group is %+v, want 2 messages and no name", g)
	}
	for range 2 {
		check.NoError(h, h.Repository.SaveFingerprints(h.Context(), []entity.Fingerprint{f}))
	}
	h.came(f, 1)
	if g := h.group(f, repository.Trend{}); g.Title != "late" || g.Class != f.Class || g.Arrived != 3 {
		h.Errorf("after it is noted the group is %+v, want 3 messages and its name", g)
	}
}

// wantGroups checks which error groups a list contains, by their titles.
func (h *harness) wantGroups(what string, q repository.GroupQuery, want ...string) {
	h.Helper()
	got := check.Each(h.groups(q), func(g repository.ListedGroup) string { return g.Title })
	check.Same(h, got, want, "groups %s", what)
}

// wantPaged checks that a list contains these error groups when it is read in pages of one group each.
func (h *harness) wantPaged(q repository.GroupQuery, want ...string) {
	h.Helper()
	var got []string
	q.Limit = 1
	for range len(want) + 1 {
		page := h.groups(q)
		if len(page) == 0 {
			break
		}
		got = append(got, page[0].Title)
		q.After = &page[0].Cursor
	}
	check.Same(h, got, want, "groups by pages of one")
}

func (h *harness) wantNoGroup(what string, id uuid.UUID, err error) {
	h.Helper()
	var missing *entity.GroupNotFoundError
	check.True(h, errors.As(err, &missing) && missing.ID == id && errors.Is(err, entity.ErrNotFound),
		"%s: got %v, want a GroupNotFoundError of %s", what, err, id)
}

func groupsKnown(h *harness) {
	f := h.fingerprint("no stock")
	h.wantGroups("without messages", repository.GroupQuery{})
	_, err := h.Repository.ErrorGroup(h.Context(), f.ID(), nil, repository.Trend{})
	h.wantNoGroup("ErrorGroup of a group without messages", f.ID(), err)

	id := h.came(f, 1)[0]
	h.fingerprint("no stock")
	check.Same(h, h.get(id).Group, f.ID(), "the message is of group")
	h.wantGroups("with a message", repository.GroupQuery{}, "no stock")
	got := h.group(f, repository.Trend{})
	check.True(h, got.ID == f.ID() && reflect.DeepEqual(got.Fingerprint, f),
		"ErrorGroup is %s, %+v, want %s, %+v", got.ID, got.Fingerprint, f.ID(), f)
	unknown := uuid.New()
	_, err = h.Repository.ErrorGroup(h.Context(), unknown, nil, repository.Trend{})
	h.wantNoGroup("ErrorGroup of an unknown id", unknown, err)
	check.NoError(h, h.Repository.SaveFingerprints(h.Context(), nil))
}

func groupsBounded(h *harness) {
	long := entity.Fingerprint{Class: strings.Repeat("ü", 400), Title: strings.Repeat("a", 999) + "→" + strings.Repeat("b", 9999)}
	for range 40 {
		long.Frames = append(long.Frames, strings.Repeat("f", 1000))
	}
	long.Message = "the message of which the title is only the cause"
	odd := entity.Fingerprint{Title: "\u202e odd \" \\ ' {} [\u0001]", Frames: []string{`a"b\c`, "", "{x,y}"}}
	check.NoError(h, h.Repository.SaveFingerprints(h.Context(), []entity.Fingerprint{long, odd}))
	h.came(long, 1)
	h.came(odd, 1)
	got := h.group(long, repository.Trend{})
	if want := repository.BoundFingerprint(long); !reflect.DeepEqual(got.Fingerprint, want) || len(got.Title) != 999 || len(got.Frames) != 10 || len(got.Frames[0]) != 300 || len(got.Class) != 300 {
		h.Errorf("a long fingerprint is kept as %+v, want %+v", got.Fingerprint, want)
	}
	check.Same(h, h.group(odd, repository.Trend{}).Fingerprint, odd, "an odd fingerprint is kept as")
}

func groupsCount(h *harness) {
	f := h.fingerprint("no stock")
	first, second := h.came(f, 4), h.came(f, 3, ofTopic("payments"))
	h.came(h.fingerprint("other"), 2)
	h.puts(2) // stores messages that have no error group
	h.attempt(first[0], entity.Acknowledged)
	h.attempt(first[1], entity.Rejected)
	h.claim(second[0])
	check.NoError(h, h.Repository.Delete(h.Context(), second[1], entity.By("alice")))
	h.Archive(h.T, first[0])
	got := h.group(f, repository.Trend{})
	check.Same(h, got.Counts, map[entity.Status]int64{entity.Pending: 3, entity.Dead: 1, entity.Retrying: 1}, "Counts")
	check.True(h, got.Arrived == 7 && got.Open() == 5, "arrived %d, open %d, want 7 and 5", got.Arrived, got.Open())
	check.Same(h, got.Topics, []entity.TopicShare{{Topic: original, Messages: 3}, {Topic: "payments", Messages: 2}}, "Topics")
	if listed := h.groups(repository.GroupQuery{}); len(listed) != 2 || !slices.ContainsFunc(listed, func(g repository.ListedGroup) bool {
		return reflect.DeepEqual(g.ErrorGroup, got)
	}) {
		h.Errorf("ErrorGroups = %+v, want the group as ErrorGroup has it, %+v, and another", listed, got)
	}
}

func groupsSeen(h *harness) {
	f := h.fingerprint("no stock")
	first := h.clock.Kept()
	gone := h.came(f, 1)
	h.clock.Advance(2 * time.Hour)
	h.came(f, 1)
	h.clock.Advance(10 * time.Second) // a store may write last_seen up to a minute late, but must return the exact time
	last := h.clock.Kept()
	h.came(f, 1)
	h.clock.Advance(time.Hour)
	check.NoError(h, h.Repository.Delete(h.Context(), gone[0], entity.By("alice")))
	got := h.group(f, repository.Trend{})
	check.True(h, got.FirstSeen == first && got.LastSeen == last,
		"seen from %v to %v, want from %v to %v", got.FirstSeen, got.LastSeen, first, last)
	check.True(h, got.New(first.Add(23*time.Hour)) && !got.New(first.Add(24*time.Hour)), "it is new for another time than a day")
}

func groupsTrend(h *harness) {
	f := h.fingerprint("no stock")
	start := h.clock.Kept() // 05:06:07 in UTC; the clock's time zone differs from UTC by half an hour
	h.came(f, 3)
	h.clock.Advance(53 * time.Minute) // now it is 05:59 in UTC
	h.came(f, 1, ofTopic("payments"))
	h.clock.Advance(time.Minute) // now it is 06:00 in UTC
	late := h.came(f, 2)
	h.clock.Advance(3 * time.Hour) // now it is 09:00 in UTC
	h.came(f, 5)
	h.attempt(late[0], entity.Acknowledged)
	hour := start.Truncate(time.Hour)
	for name, c := range map[string]struct {
		trend repository.Trend
		want  []entity.HourCount
	}{
		"no trend": {},
		"all": {repository.Trend{Since: start, Until: start.Add(24 * time.Hour)}, []entity.HourCount{
			{Hour: hour, Messages: 4}, {Hour: hour.Add(time.Hour), Messages: 2}, {Hour: hour.Add(4 * time.Hour), Messages: 5},
		}},
		"part of it": {repository.Trend{Since: hour.Add(90 * time.Minute), Until: hour.Add(4 * time.Hour)}, []entity.HourCount{
			{Hour: hour.Add(time.Hour), Messages: 2},
		}},
		"before": {repository.Trend{Since: hour.Add(-24 * time.Hour), Until: hour}, nil},
	} {
		check.Equal(h, h.group(f, c.trend).Trend, c.want, "%s: ErrorGroup", name)
		check.Equal(h, h.groups(repository.GroupQuery{Trend: c.trend})[0].Trend, c.want, "%s: ErrorGroups", name)
	}
}

func groupsOfTopic(h *harness) {
	a, b := h.fingerprint("a"), h.fingerprint("b")
	h.came(a, 2)
	h.clock.Advance(time.Hour)
	resolved := h.came(b, 1, ofTopic("payments"))[0]
	h.came(b, 1)
	h.wantGroups("of a topic", repository.GroupQuery{Topic: "payments"}, "b")
	h.wantGroups("of both", repository.GroupQuery{Topic: original}, "b", "a")
	h.wantGroups("of an unknown topic", repository.GroupQuery{Topic: "nobody"})
	h.wantGroups("of a name that no topic has", repository.GroupQuery{Topic: "no\x00body"})
	h.attempt(resolved, entity.Acknowledged)
	h.wantGroups("of a topic, all resolved", repository.GroupQuery{Topic: "payments"}, "b")
	h.wantGroups("of a topic, open, all resolved", repository.GroupQuery{Topic: "payments", Statuses: repository.OpenStatuses})
	h.wantGroups("by what is open, of a topic, all resolved", repository.GroupQuery{Topic: "payments", Statuses: repository.OpenStatuses, Sort: repository.GroupsByOpen})
	check.NoError(h, h.Repository.Delete(h.Context(), resolved, entity.By("alice")))
	h.wantGroups("of a topic, all deleted", repository.GroupQuery{Topic: "payments"})
	got := h.group(b, repository.Trend{})
	check.True(h, got.Arrived == 2 && len(got.Topics) == 1,
		"after the delete the group has %d arrivals and topics %v, want 2 and one topic", got.Arrived, got.Topics)
}

func groupsByTime(h *harness) {
	a, b, c := h.fingerprint("a"), h.fingerprint("b"), h.fingerprint("c")
	for _, f := range []entity.Fingerprint{a, b, c, a} {
		h.came(f, 1)
		h.clock.Advance(time.Hour)
	}
	h.wantGroups("by last seen", repository.GroupQuery{}, "a", "c", "b")
	h.wantPaged(repository.GroupQuery{}, "a", "c", "b")
	h.wantGroups("by first seen", repository.GroupQuery{Sort: repository.GroupsByFirstSeen}, "c", "b", "a")
	h.wantPaged(repository.GroupQuery{Sort: repository.GroupsByFirstSeen}, "c", "b", "a")

	// Error groups whose messages arrived at the same time are sorted by id.
	tied := []entity.Fingerprint{h.fingerprint("t1"), h.fingerprint("t2"), h.fingerprint("t3")}
	for _, f := range tied {
		h.came(f, 1, ofTopic("ties"))
	}
	slices.SortFunc(tied, func(a, b entity.Fingerprint) int { return compareIDs(b.ID(), a.ID()) })
	for _, sort := range []repository.GroupSort{repository.GroupsByLastSeen, repository.GroupsByFirstSeen, repository.GroupsByOpen} {
		h.wantPaged(repository.GroupQuery{Topic: "ties", Sort: sort}, tied[0].Title, tied[1].Title, tied[2].Title)
	}
}

func groupsByOpen(h *harness) {
	a, b, c := h.fingerprint("a"), h.fingerprint("b"), h.fingerprint("c")
	h.came(a, 3)
	many := h.came(b, 5)
	h.came(c, 1, ofTopic("payments"))
	h.attempt(h.came(c, 1)[0], entity.Rejected)
	by := repository.GroupQuery{Sort: repository.GroupsByOpen}
	h.wantGroups("by what is open", by, "b", "a", "c")
	for _, id := range many {
		h.attempt(id, entity.Acknowledged)
	}
	h.wantGroups("by what is open, one resolved", by, "a", "c", "b")
	h.wantPaged(by, "a", "c", "b")
	by.Statuses = repository.OpenStatuses
	h.wantPaged(by, "a", "c")
	h.wantGroups("that are open", repository.GroupQuery{Statuses: repository.OpenStatuses, Sort: repository.GroupsByFirstSeen}, titles(a, c)...)
	by.Topic = "payments"
	h.wantPaged(by, "c")
}

// titles returns the titles of error groups, whose messages arrived at the same time, in the order of a list.
func titles(f ...entity.Fingerprint) []string {
	slices.SortFunc(f, func(a, b entity.Fingerprint) int { return compareIDs(b.ID(), a.ID()) })
	all := check.Each(f, func(one entity.Fingerprint) string { return one.Title })
	return all
}

func groupsVisible(h *harness) {
	a, b, c := h.fingerprint("a"), h.fingerprint("b"), h.fingerprint("c")
	start := h.clock.Kept()
	h.came(a, 3)
	h.clock.Advance(time.Hour)
	payments := h.came(a, 2, ofTopic("payments.eu"))
	later := h.clock.Kept()
	h.clock.Advance(time.Hour)
	h.came(b, 1)
	h.came(a, 1, ofTopic(""))
	h.came(c, 9, ofTopic(""))
	seen := h.visible("payments.*", "unused")
	for _, sort := range []repository.GroupSort{repository.GroupsByLastSeen, repository.GroupsByFirstSeen, repository.GroupsByOpen} {
		h.wantPaged(repository.GroupQuery{Visible: seen, Sort: sort}, "a")
		h.wantPaged(repository.GroupQuery{Visible: seen, Sort: sort, Topic: "payments.eu", Statuses: repository.OpenStatuses}, "a")
		h.wantGroups("of a topic that is not visible", repository.GroupQuery{Visible: seen, Sort: sort, Topic: original})
		h.wantGroups("for a user who sees nothing", repository.GroupQuery{Visible: h.visible("nobody"), Sort: sort})
		h.wantGroups("for a user without patterns", repository.GroupQuery{Visible: &entity.TopicPatterns{}, Sort: sort})
	}
	trend := repository.Trend{Since: start, Until: h.clock.Now().Add(time.Hour)}
	got := check.Must(h.Repository.ErrorGroup(h.Context(), a.ID(), seen, trend))(h)
	want := entity.ErrorGroup{
		ID: a.ID(), Fingerprint: a, FirstSeen: later, LastSeen: later, Counts: map[entity.Status]int64{entity.Pending: 2}, Arrived: 2,
		Topics: []entity.TopicShare{{Topic: "payments.eu", Messages: 2}},
		Trend:  []entity.HourCount{{Hour: later.Truncate(time.Hour), Messages: 2}},
	}
	check.Same(h, got, want, "ErrorGroup of one topic")
	listed := h.groups(repository.GroupQuery{Visible: seen, Trend: trend, Sort: repository.GroupsByOpen})
	check.True(h, reflect.DeepEqual(listed[0].ErrorGroup, want) && listed[0].Cursor.Key == 2,
		"ErrorGroups of one topic has %+v, want %+v with 2 open", listed[0], want)
	_, err := h.Repository.ErrorGroup(h.Context(), b.ID(), seen, trend)
	h.wantNoGroup("ErrorGroup of a group that is not visible", b.ID(), err)
	_, err = h.Repository.ErrorGroup(h.Context(), c.ID(), h.visible("^.*$"), trend)
	h.wantNoGroup("ErrorGroup of unknown origin for a user with patterns", c.ID(), err)

	for _, id := range payments {
		check.NoError(h, h.Repository.Delete(h.Context(), id, entity.By("alice")))
	}
	h.wantGroups("of which the messages are gone", repository.GroupQuery{Visible: seen}, "a")
	h.wantGroups("that are open, of which the messages are gone", repository.GroupQuery{Visible: seen, Statuses: repository.OpenStatuses})
}

// groupsHiddenTimes: neither the order of the list nor a time in it reveals when a message arrived in a topic that the
// caller may not see.
func groupsHiddenTimes(h *harness) {
	a, b := h.fingerprint("a"), h.fingerprint("b")
	for _, came := range []struct {
		f     entity.Fingerprint
		topic string
	}{{a, original}, {b, "payments"}, {a, "payments.eu"}, {b, original}} {
		h.came(came.f, 1, ofTopic(came.topic))
		h.clock.Advance(time.Hour)
	}
	seen := h.visible("payments*", "payments")
	for _, sort := range []repository.GroupSort{repository.GroupsByLastSeen, repository.GroupsByFirstSeen} {
		h.wantPaged(repository.GroupQuery{Sort: sort}, "b", "a")
		h.wantPaged(repository.GroupQuery{Sort: sort, Visible: seen}, "a", "b")
		h.wantPaged(repository.GroupQuery{Sort: sort, Visible: seen, Statuses: repository.OpenStatuses}, "a", "b")
		h.wantPaged(repository.GroupQuery{Sort: sort, Visible: seen, Topic: "payments"}, "b")
		for _, g := range h.groups(repository.GroupQuery{Sort: sort, Visible: seen}) {
			if g.Cursor.Key != g.LastSeen.UnixMicro() || !g.FirstSeen.Equal(g.LastSeen) {
				h.Errorf("group %s is at %d, seen from %v to %v, want one time, that of payments", g.Title, g.Cursor.Key, g.FirstSeen, g.LastSeen)
			}
		}
	}

	f := h.fingerprint("comes back")
	h.attempt(h.came(f, 1, ofTopic("payments"))[0], entity.Acknowledged)
	h.clock.Advance(time.Hour)
	back := h.clock.Kept()
	h.came(f, 1)
	h.clock.Advance(time.Hour)
	regressed := func(when string, visible *entity.TopicPatterns, want time.Time) {
		h.Helper()
		g, err := h.Repository.ErrorGroup(h.Context(), f.ID(), visible, repository.Trend{})
		check.True(h, err == nil && g.RegressedAt.Equal(want), "%s: regressed at %v, %v, want %v", when, g.RegressedAt, err, want)
	}
	regressed("to those who see everything", nil, back)
	regressed("to those who see where it came back", h.visible(original), back)
	regressed("to those who do not", seen, time.Time{})
	listed := h.groups(repository.GroupQuery{Visible: seen, Sort: repository.GroupsByFirstSeen})
	check.True(h, listed[0].RegressedAt.IsZero(),
		"the list for those who do not see where it came back has %v, want no time", listed[0].RegressedAt)
	h.came(f, 1, ofTopic("payments"))
	regressed("once it has come back where they see it", seen, back)
}

func groupsRegress(h *harness) {
	f := h.fingerprint("no stock")
	came := h.came(f, 2)
	want := func(when string, at time.Time, regressed bool) {
		h.Helper()
		got := h.group(f, repository.Trend{})
		check.True(h, got.RegressedAt.Equal(at) && got.Regressed() == regressed,
			"%s: regressed at %v, %t, want %v, %t", when, got.RegressedAt, got.Regressed(), at, regressed)
		h.clock.Advance(time.Minute)
	}
	never := time.Time{}
	want("after the first", never, false)
	h.attempt(came[0], entity.Acknowledged)
	came = append(came, h.came(f, 1)...)
	want("while one was PENDING", never, false)
	h.attempt(came[1], entity.Rejected)
	h.attempt(came[2], entity.Acknowledged)
	came = append(came, h.came(f, 1)...)
	want("while one was DEAD", never, false)
	h.claim(came[3])
	check.NoError(h, h.Repository.Delete(h.Context(), came[1], entity.By("alice")))
	h.came(f, 1)
	want("while one was RETRYING", never, false)

	g := h.fingerprint("other")
	h.came(g, 1) // open messages of another error group, which must not influence the group under test
	f = h.fingerprint("of one message")
	last := h.came(f, 1)[0]
	h.attempt(last, entity.Acknowledged)
	want("when all are resolved", never, false)
	at := h.clock.Kept()
	h.came(f, 1)
	want("when one came after all were resolved", at, true)
	h.came(f, 1)
	want("when another came then", at, true)
	for _, id := range h.searched(f) {
		h.attempt(id, entity.Acknowledged)
	}
	want("when all are resolved again", at, false)
	at = h.clock.Kept()
	h.came(f, 3)
	want("when it came back again", at, true)
}

// searched searches for the PENDING messages of the error group of a fingerprint, and returns the ids of the messages
// that it finds.
func (h *harness) searched(f entity.Fingerprint) []uuid.UUID {
	h.Helper()
	found := check.Must(h.Repository.Search(h.Context(), repository.SearchQuery{
		Filter: entity.Filter{Group: f.ID(), Statuses: []entity.Status{entity.Pending}}, Limit: 100,
	}))(h)
	return ids(found.Messages)
}

func groupsRestored(h *harness) {
	f := h.fingerprint("no stock")
	first := h.clock.Kept()
	id := h.came(f, 1)[0]
	h.clock.Advance(time.Hour)
	h.attempt(id, entity.Acknowledged)
	h.Archive(h.T, id)
	h.clock.Advance(time.Hour)
	check.Must(h.Repository.Restore(h.Context(), id, entity.By("alice")))(h)
	got := h.group(f, repository.Trend{Since: first, Until: h.clock.Now()})
	want := entity.ErrorGroup{
		ID: f.ID(), Fingerprint: f, FirstSeen: first, LastSeen: first, Counts: map[entity.Status]int64{entity.Pending: 1}, Arrived: 1,
		Topics: []entity.TopicShare{{Topic: original, Messages: 1}},
		Trend:  []entity.HourCount{{Hour: first.Truncate(time.Hour), Messages: 1}},
	}
	check.Same(h, got, want, "after a restore the group")
}

func groupsLater(h *harness) {
	f := h.fingerprint("no stock")
	h.attempt(h.came(f, 1)[0], entity.Acknowledged)
	h.clock.Advance(time.Hour)
	created := h.clock.Kept()
	m := h.put() // stores a message that has no error group
	h.clock.Advance(time.Hour)
	check.NoError(h, h.Repository.StoreDocuments(h.Context(), 1, []entity.Document{{MessageID: m.ID, Fingerprint: &f}}))
	check.Same(h, h.get(m.ID).Group, f.ID(), "the message's group")
	got := h.group(f, repository.Trend{Since: created, Until: h.clock.Now()})
	wantTrend := []entity.HourCount{{Hour: created.Truncate(time.Hour), Messages: 1}}
	if got.Arrived != 2 || got.Open() != 1 || got.LastSeen != created || got.RegressedAt != created || !reflect.DeepEqual(got.Trend, wantTrend) {
		h.Errorf("the group is %+v, want 2 arrived, 1 open, last seen and regressed at %v, trend %v", got, created, wantTrend)
	}
}

func groupsMapped(h *harness) {
	f := h.fingerprint("no stock")
	start := h.clock.Kept()
	ids := h.came(f, 3, ofTopic(""), func(m *entity.Message) { m.Origin.Confidence = entity.FromNothing })
	h.clock.Advance(time.Hour)
	changed, err := h.Repository.Change(h.Context(), repository.Change{
		Action: entity.RedriveMap, IDs: ids[:2], OriginalTopic: "payments",
	}, entity.By("alice"))
	check.Require(h, err == nil && len(changed) == 2, "Change = %v, %v, want two", changed, err)
	check.NoError(h, h.Repository.Delete(h.Context(), ids[0], entity.By("alice")))
	got := h.group(f, repository.Trend{})
	if want := []entity.TopicShare{{Topic: "", Messages: 1}, {Topic: "payments", Messages: 1}}; got.Arrived != 3 || !reflect.DeepEqual(got.Topics, want) || !got.RegressedAt.IsZero() {
		h.Errorf("the group is %+v, want 3 arrived, shares %v, not regressed", got, want)
	}
	trend := repository.Trend{Since: start, Until: h.clock.Now()}
	got, err = h.Repository.ErrorGroup(h.Context(), f.ID(), h.visible("payments"), trend)
	if want := []entity.HourCount{{Hour: start.Truncate(time.Hour), Messages: 2}}; err != nil || got.Arrived != 2 || !reflect.DeepEqual(got.Trend, want) {
		h.Errorf("for who sees the new topic: %+v, %v, want 2 arrived, trend %v", got, err, want)
	}
}

func groupsAnnotated(h *harness) {
	f := h.fingerprint("no stock")
	empty := h.fingerprint("nothing came")
	h.came(f, 1)
	note, link, yes, none := "it's \"known\" →\x01", "https://tickets.example/7", true, ""
	annotate := func(a repository.Annotation) {
		h.Helper()
		check.Must(h.Repository.AnnotateGroup(h.Context(), f.ID(), a, nil, entity.AuditInfo{Actor: "bob", Reason: "why not"}))(h)
	}
	want := func(note, link string, muted bool) {
		h.Helper()
		got := h.group(f, repository.Trend{}).Common
		check.True(h, got.Note == note && got.Link == link && got.Muted == muted,
			"note %q, link %q, muted %t, want %q, %q, %t", got.Note, got.Link, got.Muted, note, link, muted)
	}
	want("", "", false)
	annotate(repository.Annotation{Note: &note})
	want(note, "", false)
	annotate(repository.Annotation{Link: &link, Muted: &yes})
	want(note, link, true)
	annotate(repository.Annotation{Note: &none})
	want("", link, true)
	annotate(repository.Annotation{})
	want("", link, true)

	entries, err := h.Repository.Trail(h.Context(), repository.TrailQuery{ObjectID: f.ID(), Limit: 10})
	var texts []string
	for _, e := range entries {
		texts = append(texts, e.LastError)
		if e.Action != entity.ActionAnnotate || e.Kind != entity.KindGroup || e.Cause.Actor != "bob" || e.Cause.Reason != "why not" || e.At != h.clock.Kept() {
			h.Errorf("the trail has %+v, want bob's annotation", e)
		}
	}
	if want := []string{"note: ", "link: " + link + "\nmuted: true", "note: " + note}; err != nil || !slices.Equal(texts, want) {
		h.Errorf("the trail has %q, %v, want %q", texts, err, want)
	}
	for _, id := range []uuid.UUID{uuid.New(), empty.ID()} {
		_, err := h.Repository.AnnotateGroup(h.Context(), id, repository.Annotation{Note: &note}, nil, entity.By("bob"))
		h.wantNoGroup("AnnotateGroup of what is no group", id, err)
		h.wantEntries(id)
	}
}

func groupsAnnotatedOnce(h *harness) {
	f := h.fingerprint("no stock")
	h.came(f, 1)
	first, second := "first", "second"
	mine := entity.AuditInfo{Actor: "bob", Operation: uuid.New()}
	for _, step := range []struct {
		note  *string
		cause entity.AuditInfo
	}{{&first, mine}, {&second, entity.By("eve")}, {&first, mine}} {
		check.Must(h.Repository.AnnotateGroup(h.Context(), f.ID(), repository.Annotation{Note: step.note}, nil, step.cause))(h)
	}
	check.Same(h, h.group(f, repository.Trend{}).Common.Note, second, "the note: what bob did was done before")
	entries := check.Must(h.Repository.Trail(h.Context(), repository.TrailQuery{ObjectID: f.ID(), Limit: 10}))(h)
	check.Len(h, entries, 2, "the trail, want two entries")
}

func (h *harness) patterns(list ...string) *entity.TopicPatterns {
	h.Helper()
	p := check.Must(entity.ParseTopicPatterns("topics", list...))(h)
	return &p
}

// groupsAnnotatedByTopic: a user who may see only some topics of an error group reads and writes only the annotations
// of these topics. The audit entries name only these topics.
func groupsAnnotatedByTopic(h *harness) {
	f := h.fingerprint("no stock")
	in := func(topic string) { h.came(f, 1, func(m *entity.Message) { m.OriginalTopic = topic }) }
	in("alpha")
	in("beta")
	annotate := func(by, note string, where *entity.TopicPatterns, want ...string) {
		h.Helper()
		topics, err := h.Repository.AnnotateGroup(h.Context(), f.ID(), repository.Annotation{Note: &note}, where, entity.By(by))
		check.True(h, err == nil && slices.Equal(topics, want), "%s annotated %v, %v, want %v", by, topics, err, want)
	}
	want := func(visible *entity.TopicPatterns, common string, annotations ...entity.GroupAnnotation) {
		h.Helper()
		got := check.Must(h.Repository.ErrorGroup(h.Context(), f.ID(), visible, repository.Trend{}))(h)
		check.True(h, got.Common.Note == common && slices.Equal(got.Annotations, annotations),
			"%v sees %q and %+v, want %q and %+v", visible, got.Common.Note, got.Annotations, common, annotations)
	}
	trail := func(visible *entity.TopicPatterns, want ...string) {
		h.Helper()
		entries, err := h.Repository.Trail(h.Context(), repository.TrailQuery{ObjectID: f.ID(), Limit: 10, Visible: visible})
		got := check.Each(entries, func(e entity.AuditEntry) string { return e.Cause.Actor + " " + e.Topics })
		check.True(h, err == nil && slices.Equal(got, want), "%v sees the changes %q, %v, want %q", visible, got, err, want)
	}
	said := func(topic, note string) entity.GroupAnnotation {
		return entity.GroupAnnotation{Topic: topic, Note: note}
	}
	alpha, beta, later := h.patterns("alpha"), h.patterns("beta"), h.patterns("gamma")

	annotate("bob", "ours", beta, "beta")
	want(alpha, "")
	want(beta, "ours", said("beta", "ours"))
	want(nil, "", said("beta", "ours"))
	trail(alpha)
	trail(beta, "bob beta")
	annotate("ann", "theirs", alpha, "alpha")
	want(alpha, "theirs", said("alpha", "theirs"))
	want(beta, "ours", said("beta", "ours"))
	_, err := h.Repository.AnnotateGroup(h.Context(), f.ID(), repository.Annotation{Note: new("x")}, later, entity.By("eve"))
	h.wantNoGroup("AnnotateGroup of topics in which nothing came", f.ID(), err)

	annotate("root", "everywhere", nil, entity.AllTopics)
	in("gamma")
	want(nil, "everywhere", said(entity.AllTopics, "everywhere"), said("alpha", "everywhere"), said("beta", "everywhere"))
	want(later, "everywhere", said(entity.AllTopics, "everywhere"))
	if _, err := h.Repository.AnnotateGroup(h.Context(), f.ID(), repository.Annotation{Link: new("https://t/1")}, later, entity.By("eve")); err != nil {
		h.Fatal(err)
	}
	want(later, "everywhere", said(entity.AllTopics, "everywhere"), entity.GroupAnnotation{Topic: "gamma", Note: "everywhere", Link: "https://t/1"})
	trail(alpha, "root ", "ann alpha")
	trail(nil, "eve gamma", "root ", "ann alpha", "bob beta")
}

// groupsAtOnce: when eight sessions store the first messages of two error groups at the same time, all messages are
// counted, and no group counts as regressed.
func groupsAtOnce(h *harness) {
	a, b := h.fingerprint("a"), h.fingerprint("b")
	const sessions, rounds, each = 8, 5, 6
	var batches [sessions][]repository.Batch
	for i := range batches {
		s := h.open(deadLetter, 0, int32(i))
		for round := range int64(rounds) {
			batch := h.batch(s, round*each, each)
			for n := range batch.Messages {
				f := a
				if (n+i)%2 == 0 {
					f = b
				}
				batch.Messages[n].Group = f.ID()
				batch.Messages[n].OriginalTopic = fmt.Sprint("topic", n%3)
			}
			batches[i] = append(batches[i], batch)
		}
	}
	together(sessions, func(i int) {
		for _, batch := range batches[i] {
			if _, err := h.Repository.Store(h.Context(), batch); err != nil {
				h.Errorf("Store: %v", err)
			}
		}
	})
	for _, f := range []entity.Fingerprint{a, b} {
		got := h.group(f, repository.Trend{Since: h.clock.Now(), Until: h.clock.Now().Add(time.Second)})
		const want = sessions * rounds * each / 2
		if got.Arrived != want || got.Counts[entity.Pending] != want || len(got.Trend) != 1 || got.Trend[0].Messages != want || !got.RegressedAt.IsZero() {
			h.Errorf("group %s is %+v, want %d of everything, not regressed", f.Title, got, want)
		}
	}
}
