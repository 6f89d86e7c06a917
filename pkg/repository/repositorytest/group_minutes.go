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

func groupMinutesPromises() []promise {
	return []promise{
		{"AreCountedOnceWithTheFirstDocument", minutesOnce},
		{"AreOfVisibleTopics", minutesVisible},
		{"AreCountedInTheGroupOfTheFirstDocument", minutesOfDocument},
		{"MoveWithAClassifiedMessage", minutesClassified},
		{"AreForgottenAfterADay", minutesForgotten},
		{"SortByArrivalsThenByLastSeen", minutesSorted},
		{"SortByTheExactTimeOfTheLastArrival", lastSeenExact},
		{"FilterByStatusNewAndRegressed", groupsFiltered},
	}
}

// minutes returns the counts by the minute of an error group from the time since on, the oldest first.
func (h *harness) minutes(f entity.Fingerprint, since time.Time) (counts []int64) {
	h.Helper()
	for _, m := range h.group(f, repository.Trend{Minutes: since}).Minutes {
		counts = append(counts, m.Messages)
	}
	return counts
}

func (h *harness) anHourAgo() time.Time {
	return h.clock.Now().UTC().Truncate(time.Minute).Add(-time.Hour)
}

func minutesOnce(h *harness) {
	f, since := h.fingerprint("a"), h.anHourAgo()
	first := h.came(f, 2)
	check.Len(h, h.minutes(f, since), 0, "minutes before the documents: storing messages counts nothing")
	h.clock.Advance(time.Minute)
	second := h.came(f, 3)
	for version := range int64(2) {
		h.documented(version, append(first, second...)...)
	}
	check.NoError(h, h.Repository.Delete(h.Context(), first[0], entity.By("alice")))
	check.Same(h, h.minutes(f, since), []int64{2, 3}, "minutes, after two versions of the documents and a deletion")
	got := h.group(f, repository.Trend{Minutes: since.Add(time.Hour + time.Minute)}).Minutes
	check.True(h, len(got) == 1 && got[0].Minute.Equal(since.Add(time.Hour+time.Minute)) && got[0].Messages == 3, "minutes %v, want the second one", got)
	check.Len(h, h.group(f, repository.Trend{}).Minutes, 0, "minutes that were not asked for")
}

func minutesVisible(h *harness) {
	f, since := h.fingerprint("a"), h.anHourAgo()
	h.documented(1, append(h.came(f, 2), h.came(f, 3, ofTopic("payments"))...)...)
	g := check.Must(h.Repository.ErrorGroup(h.Context(), f.ID(), h.visible("payments"), repository.Trend{Minutes: since}))(h)
	check.True(h, len(g.Minutes) == 1 && g.Minutes[0].Messages == 3, "minutes %v, want the 3 of the visible topic", g.Minutes)
	list := h.groups(repository.GroupQuery{Visible: h.visible("payments"), Sort: repository.GroupsByRecent, Recent: since})
	check.Same(h, list[0].Cursor.Key, repository.RecentKey(3, list[0].LastSeen), "sort key")
}

func minutesOfDocument(h *harness) {
	f, since := entity.Fingerprint{Class: "E", Title: "late"}, h.anHourAgo()
	m := h.put()
	h.hold(1)
	for range 2 {
		h.document(1, entity.Document{MessageID: m.ID, CreatedAt: m.CreatedAt, Fingerprint: &f})
	}
	check.Same(h, h.minutes(f, since), []int64{1}, "minutes of the group that a document brought")
}

func minutesClassified(h *harness) {
	unclassified, since := entity.Unclassified(deadLetter), h.anHourAgo()
	own := failures(deadLetter, "own", 1)
	h.wantRefused("of the new group", own, 0)
	check.NoError(h, h.Repository.SaveFingerprints(h.Context(), []entity.Fingerprint{unclassified}))
	came := h.came(unclassified, 3)
	h.documented(1, came[:2]...)
	moves := check.Each(came, func(id uuid.UUID) repository.Classification {
		return repository.Classification{MessageID: id, DLQTopic: deadLetter, Group: own[0].ID()}
	})
	for range 2 {
		check.NoError(h, h.Repository.Classify(h.Context(), moves))
	}
	h.documented(1, came...)
	check.Same(h, h.minutes(own[0].Fingerprint, since), []int64{3}, "minutes of their own group")
	if _, err := h.Repository.ErrorGroup(h.Context(), unclassified.ID(), nil, repository.Trend{}); err == nil {
		check.Len(h, h.minutes(unclassified, since), 0, "minutes of the group that they left")
	}
}

func minutesForgotten(h *harness) {
	f := h.fingerprint("a")
	old := h.came(f, 1)
	h.documented(1, old...)
	h.clock.Advance(25 * time.Hour)
	h.documented(1, h.came(f, 1)...)
	check.Same(h, h.minutes(f, time.Unix(0, 0)), []int64{1}, "minutes of a day")
	q := repository.ArrivalsQuery{Since: h.anHourAgo(), Step: repository.ArrivalsMinute}
	q.Until = q.Since.Add(time.Hour + time.Minute)
	points := h.arrivals(q).Points
	check.True(h, len(points) == 61 && points[60].Arrived == 1 && points[59].Arrived == 0, "arrivals by the minute %v, want one in the last of 61", points)
}

func minutesSorted(h *harness) {
	a, b, c := h.fingerprint("a"), h.fingerprint("b"), h.fingerprint("c")
	h.documented(1, h.came(a, 5)...)
	h.documented(1, h.came(c, 1)...)
	h.clock.Advance(20 * time.Minute)
	recent := h.clock.Now().UTC().Truncate(time.Minute)
	h.documented(1, h.came(b, 2)...)
	by := repository.GroupQuery{Sort: repository.GroupsByRecent, Recent: recent}
	h.clock.Advance(time.Second)
	h.wantPaged(by, append([]string{"b"}, titles(a, c)...)...)
	h.documented(1, h.came(c, 3)...)
	h.wantPaged(by, "c", "b", "a")
	by.Topic, by.Statuses = original, repository.OpenStatuses
	h.wantPaged(by, "c", "b", "a")
}

// lastSeenExact: a list of error groups is sorted by the exact times that it shows, although a store may write the time
// of a group up to a minute late.
func lastSeenExact(h *harness) {
	const n = 5
	groups := make([]entity.Fingerprint, n)
	for i := range groups {
		groups[i] = h.fingerprint(fmt.Sprint("g", i))
		h.came(groups[i], 1)
		h.clock.Advance(3 * time.Second)
	}
	for _, again := range []int{3, 0, 2, 0} {
		h.came(groups[again], 1)
		h.clock.Advance(3 * time.Second)
	}
	h.wantPaged(repository.GroupQuery{}, "g0", "g2", "g3", "g4", "g1")
	h.wantPaged(repository.GroupQuery{Sort: repository.GroupsByRecent, Recent: h.anHourAgo()}, "g0", "g2", "g3", "g4", "g1")
	list := h.groups(repository.GroupQuery{Limit: 2})
	list = append(list, h.groups(repository.GroupQuery{Limit: 9, After: &list[1].Cursor})...)
	check.True(h, len(list) == n && slices.IsSortedFunc(list, func(a, b repository.ListedGroup) int { return b.LastSeen.Compare(a.LastSeen) }),
		"%d groups in two pages, want %d, sorted by what is shown", len(list), n)
}

func groupsFiltered(h *harness) {
	old, dead, again := h.fingerprint("old"), h.fingerprint("dead"), h.fingerprint("again")
	h.came(old, 1)
	h.attempt(h.came(again, 1)[0], entity.Acknowledged)
	h.clock.Advance(25 * time.Hour)
	h.attempt(h.came(dead, 1)[0], entity.Rejected)
	h.clock.Advance(time.Second)
	h.came(again, 1)
	sorts := []repository.GroupSort{repository.GroupsByLastSeen, repository.GroupsByFirstSeen, repository.GroupsByOpen, repository.GroupsByRecent}
	for _, visible := range []*entity.TopicPatterns{nil, h.visible("*")} {
		for _, sort := range sorts {
			q := repository.GroupQuery{Sort: sort, Visible: visible, Statuses: []entity.Status{entity.Dead}}
			h.wantPaged(q, "dead")
			h.wantPaged(repository.GroupQuery{Sort: sort, Visible: visible, FirstAfter: h.clock.Now().Add(-entity.NewGroupAge)}, "dead")
			h.wantPaged(repository.GroupQuery{Sort: sort, Visible: visible, Regressed: true}, "again")
			check.Len(h, h.groups(repository.GroupQuery{Sort: sort, Visible: visible, Statuses: []entity.Status{entity.Pending, entity.Retrying}}), 2, "groups with messages to send")
		}
	}
}
