package repositorytest

import (
	"bytes"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func indexPromises() []promise {
	return []promise{
		{"OneHoldsIt", indexHeld},
		{"WhatHasNoDocumentIsFoundByOtherFilters", indexMissing},
		{"AnotherVersionIsNotFound", indexVersions},
		{"AnotherVersionIsNotKept", indexStale},
		{"AnswersAreFromOnesOwnVersion", indexAnswers},
		{"UnindexedIsOldestFirstWithBytes", indexUnindexed},
		{"UnindexedIsBounded", indexBounded},
		{"UndecodedIsDueLaterWithEveryTry", indexUndecoded},
		{"WhatIsStoredIsNotAskedForAgain", indexStored},
		{"WithoutAGroupIsAskedForWhateverItsAge", indexUngrouped},
		{"DocumentGivesAGroupOnce", indexGroups},
		{"WhatComesLateIsNotMissed", indexLate},
		{"ArchivedMessagesAreIndexedToo", indexArchived},
		{"DeletedMessagesLoseTheirDocument", indexDeleted},
		{"UntilIsTheOldestThatIsMissing", indexUntil},
	}
}

// worker is the id under which these tests acquire the indexer lease.
var worker = uuid.MustParse("00000000-0000-4000-8000-00000000c0de")

func (h *harness) hold(version int64) {
	h.Helper()
	held, err := h.Repository.AcquireIndexerLease(h.Context(), worker, version, time.Minute)
	check.Require(h, err == nil && held, "AcquireIndexerLease = %v, %v, want it held", held, err)
}

func (h *harness) document(version int64, documents ...entity.Document) {
	h.Helper()
	check.NoError(h, h.Repository.StoreDocuments(h.Context(), version, documents))
}

func (h *harness) unindexed(version int64) []uuid.UUID {
	h.Helper()
	found := check.Must(h.Repository.Unindexed(h.Context(), version, everything, 1<<30, 1<<20))(h)
	return ids(found)
}

func (h *harness) until() time.Time {
	h.Helper()
	return check.Must(h.Repository.IndexedUntil(h.Context()))(h)
}

func grouped(m *entity.Message) { m.Group = someGroup }

func byWord(word string) repository.SearchQuery {
	return repository.SearchQuery{Filter: entity.Filter{Words: []string{word}}}
}

func indexHeld(h *harness) {
	other := uuid.New()
	try := func(owner uuid.UUID, want bool) {
		h.Helper()
		held, err := h.Repository.AcquireIndexerLease(h.Context(), owner, 1, time.Minute)
		check.True(h, err == nil && held == want, "AcquireIndexerLease = %v, %v, want %v", held, err, want)
	}
	try(worker, true)
	try(other, false)
	h.clock.Advance(59 * time.Second)
	try(worker, true)
	h.clock.Advance(59 * time.Second)
	try(other, false)
	h.clock.Advance(time.Second)
	try(other, true)
	try(worker, false)
}

func indexMissing(h *harness) {
	with, without := h.put(), h.put()
	h.indexed(with)
	h.wantIDs("by a word", h.search(byWord("boom")), []uuid.UUID{with.ID})
	h.wantIDs("by topic", h.search(repository.SearchQuery{Filter: entity.Filter{Topic: original}}), []uuid.UUID{without.ID, with.ID})
	h.indexed(without)
	h.wantIDs("by a word, later", h.search(byWord("boom")), []uuid.UUID{without.ID, with.ID})
	h.document(indexVersion, entity.Document{MessageID: with.ID, Text: "another"})
	h.wantIDs("by a word that it has no more", h.search(byWord("boom")), []uuid.UUID{without.ID})
}

func indexVersions(h *harness) {
	a, b := h.put(grouped), h.put(grouped)
	h.indexed(a)
	h.indexed(b)
	h.wantIDs("unindexed", h.unindexed(indexVersion), nil)
	h.hold(8)
	h.wantIDs("by a word of the old version", h.search(byWord("boom")), nil)
	h.wantIDs("unindexed in the new version", h.unindexed(8), []uuid.UUID{a.ID, b.ID})
	h.document(8, entity.Document{MessageID: a.ID, Text: "boom"})
	h.document(indexVersion, entity.Document{MessageID: b.ID, Text: "boom"}) // stores a document as an indexer does that still works for the old version of the search index
	h.wantIDs("by a word", h.search(byWord("boom")), []uuid.UUID{a.ID})
	h.wantIDs("unindexed", h.unindexed(8), []uuid.UUID{b.ID})
}

// indexStale: a document of another version than that of the search index is not stored. It comes from an indexer that
// has lost the lease without noticing.
func indexStale(h *harness) {
	a, b := h.put(grouped), h.put(grouped)
	h.indexed(a)
	h.hold(8)
	h.document(8, entity.Document{MessageID: a.ID, Text: "boom"}, entity.Document{MessageID: b.ID, Text: "boom"})
	h.wantIDs("unindexed", h.unindexed(8), nil)
	for range 3 { // moves the indexer's position past both messages
		h.clock.Advance(time.Hour)
		h.wantIDs("unindexed", h.unindexed(8), nil)
	}
	h.wantIDs("unindexed for the late one", h.unindexed(indexVersion), nil)
	h.document(indexVersion, entity.Document{MessageID: a.ID, Text: "late"})
	h.wantIDs("by a word", h.search(byWord("boom")), []uuid.UUID{b.ID, a.ID})
	h.wantIDs("by a word of the late one", h.search(byWord("late")), nil)
}

func indexAnswers(h *harness) {
	m := h.put(grouped)
	h.indexed(m)
	for version, want := range map[int64][]uuid.UUID{indexVersion: {m.ID}, 9: nil} {
		h.Repository.SetIndexVersion(version)
		h.wantIDs("by a word", h.search(byWord("boom")), want)
		n, err := h.Repository.CountMatching(h.Context(), repository.CountQuery{Filter: byWord("boom").Filter, How: repository.CountExact})
		check.True(h, err == nil && n.Messages == int64(len(want)), "counted %d, %v, want %d", n.Messages, err, len(want))
		var exported []uuid.UUID
		err = h.Repository.Export(h.Context(), repository.ExportQuery{Filter: byWord("boom").Filter, Limit: 10}, func(m *entity.Message) error {
			exported = append(exported, m.ID)
			return nil
		})
		check.True(h, err == nil && len(exported) == len(want), "exported %v, %v, want %v", exported, err, want)
		groups, err := h.Repository.PreviewRedrive(h.Context(), retryAll(func(n *repository.NewRedrive) { n.Selection.Words = []string{"boom"} }))
		check.True(h, err == nil && len(groups) == len(want), "surveyed %v, %v, want %d", groups, err, len(want))
		h.Repository.SetIndexVersion(9)
		h.hold(indexVersion)
		h.wantIDs("by a word, from another version", h.search(byWord("boom")), nil)
	}
}

func indexUnindexed(h *harness) {
	h.hold(1)
	record := func(m *entity.Message) {
		m.Record.Key, m.Record.Headers = []byte("k"), []entity.Header{{Key: "h", Value: []byte("v")}}
	}
	want := h.puts(3, record)
	sql := h.put(func(m *entity.Message) { m.Source, m.Record.State = entity.Source{}, entity.ValueFromPayload })
	large := h.put(func(m *entity.Message) { m.Record.Value = bytes.Repeat([]byte("x"), 1001) })
	found := check.Must(h.Repository.Unindexed(h.Context(), 1, 10, 1<<20, 1000))(h)
	h.wantIDs("unindexed", ids(found), append(want, sql.ID, large.ID))
	if r := found[0].Record; string(r.Key) != "k" || len(r.Headers) != 1 || string(r.Value) != `{"order": 1}` {
		h.Errorf("record %+v, want its bytes", r)
	}
	if r := found[3].Record; r.State != entity.ValueFromPayload || len(r.Value) == 0 {
		h.Errorf("record of a row put in by SQL %+v, want its payload", r)
	}
	if r := found[4].Record; r.State != entity.ValueNotLoaded || r.Size != 1001 {
		h.Errorf("record of a large value %+v, want it left out", r)
	}
}

func indexBounded(h *harness) {
	h.hold(1)
	want := h.puts(6, func(m *entity.Message) { m.Record.Value = make([]byte, 1000) })
	for bytes, n := range map[int64]int{1: 1, 2900: 2, 4000: 3, 1 << 20: 4} {
		found := check.Must(h.Repository.Unindexed(h.Context(), 1, 4, bytes, 1<<20))(h)
		h.wantIDs("unindexed", ids(found), want[:n])
	}
}

func indexStored(h *harness) {
	h.hold(1)
	for range 4 {
		first := h.puts(3, grouped)
		h.wantIDs("unindexed", h.unindexed(1), first)
		h.document(1, entity.Document{MessageID: first[0]}, entity.Document{MessageID: first[2]})
		h.wantIDs("the one between", h.unindexed(1), first[1:2])
		h.clock.Advance(time.Hour)
		h.wantIDs("the one between, later", h.unindexed(1), first[1:2])
		h.document(1, entity.Document{MessageID: first[1]}, entity.Document{MessageID: uuid.New()})
		h.wantIDs("nothing", h.unindexed(1), nil)
		h.document(1) // storing an empty list of documents is no error
	}
}

func indexUngrouped(h *harness) {
	h.hold(1)
	ids := h.puts(2, grouped)
	h.document(1, entity.Document{MessageID: ids[0]}, entity.Document{MessageID: ids[1]})
	for range 3 {
		h.clock.Advance(time.Hour)
		h.wantIDs("unindexed", h.unindexed(1), nil)
	}
	old := h.message(func(m *entity.Message) { m.Source, m.CreatedAt = entity.Source{}, m.CreatedAt.Add(-1000*time.Hour) })
	h.Insert(h.T, old)
	h.wantIDs("an old row put in by SQL", h.unindexed(1), []uuid.UUID{old.ID})
	f := entity.Fingerprint{Class: "Timeout", Title: "boom"}
	h.document(1, entity.Document{MessageID: old.ID, Fingerprint: &f})
	h.wantIDs("unindexed", h.unindexed(1), nil)
}

func indexGroups(h *harness) {
	h.hold(1)
	none, has := h.put(), h.put(grouped)
	before := h.get(none.ID)
	h.clock.Advance(time.Hour)
	f := entity.Fingerprint{Class: "Timeout", Title: "timed out", Frames: []string{"a.b"}}
	other := entity.Fingerprint{Class: "Parse", Title: "boom"}
	h.document(1, entity.Document{MessageID: none.ID, Text: "t", Fingerprint: &f}, entity.Document{MessageID: has.ID, Fingerprint: &f})
	want := before
	want.Group = f.ID()
	h.wantUnchanged(want)
	check.Same(h, h.get(has.ID).Group, someGroup, "the group, want the one it had")
	h.document(1, entity.Document{MessageID: none.ID, Text: "t", Fingerprint: &other})
	h.wantUnchanged(want)
	h.wantIDs("by group", h.search(repository.SearchQuery{Filter: entity.Filter{Group: f.ID()}}), []uuid.UUID{none.ID})
	g := check.Must(h.Repository.ErrorGroup(h.Context(), f.ID(), nil, repository.Trend{}))(h)
	check.True(h, g.Title == f.Title && g.Counts[entity.Pending] == 1, "ErrorGroup = %+v, want it with one message", g)
}

func indexLate(h *harness) {
	h.hold(1)
	start := h.clock.Now()
	first := h.puts(2, grouped)
	h.document(1, entity.Document{MessageID: first[0]}, entity.Document{MessageID: first[1]})
	h.wantIDs("unindexed", h.unindexed(1), nil)
	h.wantIDs("unindexed again", h.unindexed(1), nil)
	late := h.message(grouped, func(m *entity.Message) { m.CreatedAt = start.Add(time.Second / 2) })
	h.Insert(h.T, late)
	h.wantIDs("one that was stored seconds late", h.unindexed(1), []uuid.UUID{late.ID})
}

func indexArchived(h *harness) {
	h.hold(1)
	m, live := h.archived(), h.put(grouped)
	h.wantIDs("unindexed", h.unindexed(1), []uuid.UUID{live.ID, m.ID})
	f := entity.Fingerprint{Title: "boom"}
	h.document(1, entity.Document{MessageID: m.ID, Text: "boom", Fingerprint: &f})
	h.wantIDs("unindexed", h.unindexed(1), []uuid.UUID{live.ID})
	q := byWord("boom")
	q.Archived = true
	h.wantIDs("in the archive by a word", h.search(q), []uuid.UUID{m.ID})
	h.wantIDs("live by a word", h.search(byWord("boom")), nil)
	check.Same(h, h.getArchived(m.ID).Group, someGroup, "the group, want the one it had")
}

func indexDeleted(h *harness) {
	m := h.put()
	h.indexed(m)
	check.NoError(h, h.Repository.Delete(h.Context(), m.ID, entity.By("alice")))
	h.wantIDs("by a word", h.search(byWord("boom")), nil)
	h.unindexed(indexVersion) // asks for unindexed messages, as the indexer does in each step
	again := m                // gets the id of the deleted message, which no new message has outside of tests
	h.Insert(h.T, again)
	h.wantIDs("by a word", h.search(byWord("boom")), nil)
}

func indexUntil(h *harness) {
	if got := h.until(); !got.IsZero() {
		h.Errorf("at first until %v, want never", got)
	}
	h.hold(1)
	ids := h.puts(3, grouped)
	h.document(1, entity.Document{MessageID: ids[0]}, entity.Document{MessageID: ids[2]})
	h.wantIDs("unindexed", h.unindexed(1), ids[1:2])
	if got, want := h.until(), h.get(ids[1]).CreatedAt; !got.Equal(want) {
		h.Errorf("until %v, want %v", got, want)
	}
	h.document(1, entity.Document{MessageID: ids[1]})
	h.wantIDs("unindexed", h.unindexed(1), nil)
	if got, want := h.until(), h.clock.Kept().Add(-repository.IndexSettles); !got.Equal(want) {
		h.Errorf("until %v, want a moment ago, %v", got, want)
	}
	h.hold(2)
	h.unindexed(2)
	if got, want := h.until(), h.get(ids[0]).CreatedAt; !got.Equal(want) {
		h.Errorf("in a new version until %v, want the first message's %v", got, want)
	}
}

// indexUndecoded: a message whose schema could not be read becomes due again and again, each time after a longer pause,
// until it is forgotten or deleted.
func indexUndecoded(h *harness) {
	h.hold(1)
	list := h.puts(2)
	one, two := list[0], list[1]
	due := func(what string, want ...uuid.UUID) {
		h.Helper()
		found := check.Must(h.Repository.Undecoded(h.Context(), 10, 1<<20, 1<<20))(h)
		h.wantIDs(what, ids(found), want)
	}
	deferAll := func(list ...uuid.UUID) {
		h.Helper()
		check.NoError(h, h.Repository.DeferDecoding(h.Context(), check.Each(list, func(id uuid.UUID) repository.DeferredDecoding {
			return repository.DeferredDecoding{MessageID: id, First: 10 * time.Second, Longest: 15 * time.Second}
		})))
	}
	deferAll(one)
	h.clock.Advance(time.Second) // so that the first message becomes due a second before the other one
	deferAll(two)
	due("at once")
	h.clock.Advance(10 * time.Second)
	due("after the first time", one, two)
	check.Same(h, check.Must(h.Repository.CountUndecoded(h.Context()))(h), 2, "undecoded messages")
	deferAll(one)
	check.NoError(h, h.Repository.ForgetUndecoded(h.Context(), []uuid.UUID{two}))
	h.clock.Advance(14 * time.Second)
	due("before the longest time")
	h.clock.Advance(time.Second)
	due("after the longest time", one)
	check.NoError(h, h.Repository.Delete(h.Context(), one, entity.By("tester")))
	due("of a deleted message")
	check.Same(h, check.Must(h.Repository.CountUndecoded(h.Context()))(h), 0, "undecoded messages")
}
