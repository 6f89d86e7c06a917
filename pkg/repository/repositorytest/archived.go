package repositorytest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func archivedPromises() []promise {
	return []promise{
		{"GetArchivedIsTheMessage", archivedGet},
		{"RestoredIsPendingWithItsBytes", archivedRestore},
		{"RestoredMayBeClaimedAtOnce", archivedDue},
		{"RestoredKeepsItsHistoryAndDocument", archivedHistory},
		{"RestoreIsInTheAuditTrail", archivedAudit},
		{"RestoreAgainIsNoError", archivedAgain},
		{"EraseLeavesNothing", archivedErase},
		{"RestoreOfNothingIsNotFound", archivedNothing},
		{"OneOfManyRestores", archivedRace},
		{"RestoredBeforeItWasIndexedIsFoundLater", archivedUnindexed},
	}
}

func (h *harness) getArchived(id uuid.UUID) entity.Message {
	h.Helper()
	return check.Must(h.Repository.GetArchived(h.Context(), id, whole))(h)
}

func (h *harness) restore(id uuid.UUID) entity.Message {
	h.Helper()
	return check.Must(h.Repository.Restore(h.Context(), id, entity.By("alice")))(h)
}

// archived returns an archived message with a key, headers, a failure, an error group and two attempts.
func (h *harness) archived() entity.Message {
	h.Helper()
	m := h.put(func(m *entity.Message) {
		m.Record.Key, m.Record.Headers = []byte("k"), []entity.Header{{Key: "h", Value: []byte("v")}, {Key: "h"}}
		m.Failure.Class, m.Failure.ConsumerGroup, m.Failure.Dialect = "Timeout", "billing", "spring"
		m.Group = someGroup
	})
	h.attempt(m.ID, entity.Failed)
	h.clock.Advance(time.Hour)
	h.attempt(m.ID, entity.Rejected)
	m = h.get(m.ID)
	h.Archive(h.T, m.ID)
	h.clock.Advance(time.Hour)
	return m
}

func archivedGet(h *harness) {
	m := h.archived()
	check.Same(h, h.getArchived(m.ID), m, "GetArchived")
	h.wantNotFound("Get of an archived message", m.ID, check.Err(h.Repository.Get(h.Context(), m.ID, whole)))
	small := check.Must(h.Repository.GetArchived(h.Context(), m.ID, 1))(h)
	check.True(h, small.Record.State == entity.ValueNotLoaded && small.Record.Size == m.Record.Size,
		"GetArchived with a limit = %+v, want the value left out", small.Record)
	live := h.put()
	h.wantNotFound("GetArchived of a live message", live.ID, check.Err(h.Repository.GetArchived(h.Context(), live.ID, whole)))
}

func archivedRestore(h *harness) {
	m := h.archived()
	answer := h.restore(m.ID)
	want := m
	want.Status, want.RetryCount = entity.Pending, 0
	want.UpdatedAt, want.NextAttemptAt = h.clock.Kept(), h.clock.Kept()
	want.Outcome = ""
	got := h.get(m.ID)
	if h.UpdatedAtIsTheServers {
		want.UpdatedAt, want.NextAttemptAt = got.UpdatedAt, got.NextAttemptAt
	}
	check.Same(h, got, want, "restored")
	check.True(h, answer.ID == m.ID && answer.Status == entity.Pending && answer.UpdatedAt == got.UpdatedAt,
		"Restore = %+v, want the present message", answer)
	h.wantNotFound("GetArchived after a restore", m.ID, check.Err(h.Repository.GetArchived(h.Context(), m.ID, whole)))
}

func archivedDue(h *harness) {
	claimed := h.in(entity.Retrying)
	h.Archive(h.T, claimed.ID)
	h.restore(claimed.ID)
	got := h.get(claimed.ID)
	check.True(h, got.Claim == (entity.Claim{}) && !got.Unsettled, "restored with %+v, want no claim", got.Claim)
	h.claim(claimed.ID)
}

func archivedHistory(h *harness) {
	m := h.archived()
	h.indexed(m, 42)
	found := entity.Filter{Words: []string{"boom"}}
	h.wantIDs("by word in the archive", h.search(repository.SearchQuery{Filter: found, Archived: true}), []uuid.UUID{m.ID})
	h.restore(m.ID)
	h.wantIDs("by word after the restore", h.search(repository.SearchQuery{Filter: found}), []uuid.UUID{m.ID})
	check.Same(h, len(h.history(m.ID)), 2, "attempts in the history")
	h.attempt(m.ID, entity.Acknowledged)
	all := h.history(m.ID)
	check.True(h, len(all) == 3 && all[2].Number == 3, "history %+v, want the third attempt after the others", all)
}

func archivedAudit(h *harness) {
	m := h.archived()
	cause := fullCause()
	check.Must(h.Repository.Restore(h.Context(), m.ID, cause))(h)
	entries := h.trail(repository.TrailQuery{ObjectID: m.ID, Action: entity.ActionRestore})
	check.Require(h, len(entries) == 1, "%d entries, want 1", len(entries))
	want := entity.AuditEntry{
		ID: entries[0].ID, At: entries[0].At, Action: entity.ActionRestore, Kind: entity.KindMessage, ObjectID: m.ID,
		From: string(entity.Dead), To: string(entity.Pending), Class: m.LastPublishErrorClass, LastError: m.LastPublishError, Cause: cause,
	}
	check.Same(h, entries[0], want, "the entry")
}

func archivedAgain(h *harness) {
	m := h.archived()
	cause := fullCause()
	for range 2 {
		got, err := h.Repository.Restore(h.Context(), m.ID, cause)
		check.True(h, err == nil && got.ID == m.ID && got.Status == entity.Pending, "Restore = %+v, %v, want the message", got, err)
	}
	check.Same(h, len(h.trail(repository.TrailQuery{ObjectID: m.ID, Action: entity.ActionRestore})), 1, "entries")
	h.wantNotFound("another Restore", m.ID, check.Err(h.Repository.Restore(h.Context(), m.ID, fullCause())))
}

func archivedErase(h *harness) {
	m, other := h.archived(), h.archived()
	cause := fullCause()
	for range 2 { // the second call with the same operation must be no error
		erased, err := h.Repository.Erase(h.Context(), m.ID, cause)
		check.True(h, err == nil && erased == repository.Erased{}, "Erase = %+v, %v, want nothing left", erased, err)
	}
	h.wantNotFound("GetArchived", m.ID, check.Err(h.Repository.GetArchived(h.Context(), m.ID, 0)))
	h.wantNotFound("Restore", m.ID, check.Err(h.Repository.Restore(h.Context(), m.ID, fullCause())))
	h.wantNotFound("Erase by another operation", m.ID, check.Err(h.Repository.Erase(h.Context(), m.ID, fullCause())))
	h.wantIDs("in the archive", h.search(repository.SearchQuery{Archived: true}), []uuid.UUID{other.ID})
	check.Len(h, h.history(m.ID), 0, "attempts")
	check.Len(h, h.history(other.ID), 2, "attempts of another message")

	var erasures int
	for _, e := range h.trail(repository.TrailQuery{ObjectID: m.ID}) {
		check.Same(h, e.LastError, "", "the error of the entry %s", e.Action)
		if e.Action == entity.ActionErase {
			erasures++
			check.Same(h, e.Cause, cause, "cause")
		}
	}
	check.Same(h, erasures, 1, "entries of the erasure")
	kept := slices.ContainsFunc(h.trail(repository.TrailQuery{ObjectID: other.ID}), func(e entity.AuditEntry) bool { return e.LastError != "" })
	check.True(h, kept, "the errors of another message are erased too")
}

func archivedNothing(h *harness) {
	live, lost := h.put(), uuid.New()
	for _, id := range []uuid.UUID{live.ID, lost} {
		h.wantNotFound("Restore", id, check.Err(h.Repository.Restore(h.Context(), id, fullCause())))
		h.wantNotFound("Erase", id, check.Err(h.Repository.Erase(h.Context(), id, fullCause())))
	}
	h.wantUnchanged(h.get(live.ID))
}

func archivedRace(h *harness) {
	m := h.archived()
	won := make([]bool, 6)
	together(len(won), func(i int) {
		_, err := h.Repository.Restore(h.Context(), m.ID, fullCause())
		won[i] = err == nil
	})
	won = slices.DeleteFunc(won, func(ok bool) bool { return !ok })
	check.Same(h, len(won), 1, "restores that succeeded")
	h.wantStatus(m.ID, entity.Pending)
}

func archivedUnindexed(h *harness) {
	m := h.archived()
	h.hold(indexVersion)
	for range 3 { // moves the indexer's position past the archived message, by messages with later times
		for _, id := range h.puts(3, func(m *entity.Message) { m.Group = someGroup }) {
			h.document(indexVersion, entity.Document{MessageID: id})
		}
		h.clock.Advance(time.Hour)
		h.wantIDs("unindexed", h.unindexed(indexVersion), []uuid.UUID{m.ID})
	}
	h.restore(m.ID)
	h.wantIDs("unindexed after the restore", h.unindexed(indexVersion), []uuid.UUID{m.ID})
}

func archiveRunsPromises() []promise {
	return []promise{
		{"AreNoneAtFirst", archiveRunsNone},
		{"RunUntilTheyAreOver", archiveRunsOver},
		{"StayAsTheyEnded", archiveRunsFinal},
		{"HaveTheLastSuccessBesideTheLastFailure", archiveRunsLastSuccess},
		{"MayBeNotedWhenTheyAreOver", archiveRunsLate},
		{"HaveBoundedErrors", archiveRunsBounded},
	}
}

func (h *harness) keepRun(run repository.ArchiveRun) {
	h.Helper()
	check.NoError(h, h.Repository.KeepArchiveRun(h.Context(), run))
}

// wantRuns checks which runs LatestArchiveRuns returns; nil means no run.
func (h *harness) wantRuns(what string, last, complete *repository.ArchiveRun) {
	h.Helper()
	gotLast, gotComplete, err := h.Repository.LatestArchiveRuns(h.Context())
	check.Require(h, err == nil, "%s: LatestArchiveRuns: %v", what, err)
	check.Same(h, gotLast, last, "%s: the last run", what)
	check.Same(h, gotComplete, complete, "%s: the last complete run", what)
}

func archiveRunsNone(h *harness) { h.wantRuns("at first", nil, nil) }

func archiveRunsOver(h *harness) {
	run := repository.ArchiveRun{ID: entity.NewID(), Result: repository.ArchiveRunning}
	h.keepRun(run)
	run.StartedAt = h.clock.Kept()
	h.wantRuns("while it runs", &run, nil)

	h.clock.Advance(time.Minute)
	over := repository.ArchiveRun{ID: run.ID, Result: repository.ArchiveComplete, Moved: 5, Purged: 4, Bookkept: 3}
	h.keepRun(over)
	over.StartedAt, over.FinishedAt = run.StartedAt, h.clock.Kept()
	h.wantRuns("when it is over", &over, &over)
}

func archiveRunsFinal(h *harness) {
	run := repository.ArchiveRun{ID: entity.NewID(), Result: repository.ArchiveIncomplete, Moved: 5, Error: "step purge: broken"}
	h.keepRun(run)
	run.StartedAt, run.FinishedAt = h.clock.Kept(), h.clock.Kept()
	h.clock.Advance(time.Minute)
	h.keepRun(repository.ArchiveRun{ID: run.ID, Result: repository.ArchiveComplete})
	h.keepRun(repository.ArchiveRun{ID: run.ID, Result: repository.ArchiveRunning})
	h.wantRuns("after it was noted again", &run, nil)
}

func archiveRunsLastSuccess(h *harness) {
	var kept []repository.ArchiveRun
	for _, result := range []repository.ArchiveResult{
		repository.ArchiveComplete, repository.ArchiveComplete, repository.ArchiveIncomplete, repository.ArchiveStopped, repository.ArchiveRunning,
	} {
		h.clock.Advance(time.Hour)
		run := repository.ArchiveRun{ID: entity.NewID(), Result: result, Moved: int64(len(kept))}
		h.keepRun(run)
		run.StartedAt = h.clock.Kept()
		if result != repository.ArchiveRunning {
			run.FinishedAt = h.clock.Kept()
		}
		kept = append(kept, run)
	}
	h.wantRuns("after five", &kept[4], &kept[1])
}

func archiveRunsLate(h *harness) {
	run := repository.ArchiveRun{ID: entity.NewID(), Result: repository.ArchiveComplete, Took: time.Minute}
	h.keepRun(run)
	run.StartedAt, run.FinishedAt, run.Took = h.clock.Kept().Add(-time.Minute), h.clock.Kept(), 0
	h.wantRuns("without a beginning", &run, &run)
}

func archiveRunsBounded(h *harness) {
	run := repository.ArchiveRun{ID: entity.NewID(), Result: repository.ArchiveIncomplete, Error: strings.Repeat("ü", repository.MaxArchiveError)}
	h.keepRun(run)
	run.Error = strings.Repeat("ü", repository.MaxArchiveError/2)
	run.StartedAt, run.FinishedAt = h.clock.Kept(), h.clock.Kept()
	h.wantRuns("with a long error", &run, nil)
}

func recentGroupsPromises() []promise {
	return []promise{
		{"AreThoseThatCameAndCameBackLately", recentGroupsLately},
		{"LeaveOutWhoIsMutedOrNamed", recentGroupsLeftOut},
	}
}

func (h *harness) wantRecent(what string, fresh, regressed int64, except ...uuid.UUID) {
	h.Helper()
	got, err := h.Repository.CountRecentGroups(h.Context(), time.Hour, except)
	want := repository.RecentCount{New: fresh, Regressed: regressed}
	check.True(h, err == nil && got == want, "%s: got %+v, %v, want %+v", what, got, err, want)
}

func recentGroupsLately(h *harness) {
	h.wantRecent("at first", 0, 0)
	f := h.fingerprint("no stock")
	first := h.came(f, 2)
	h.came(h.fingerprint("too late"), 1)
	h.wantRecent("when two came", 2, 0)
	h.clock.Advance(time.Hour - time.Minute)
	h.wantRecent("within the hour", 2, 0)
	for _, id := range first {
		h.attempt(id, entity.Acknowledged)
	}
	h.clock.Advance(time.Minute)
	h.wantRecent("after the hour", 0, 0)
	h.came(f, 1)
	h.wantRecent("when one came back", 0, 1)
	h.clock.Advance(time.Hour)
	h.wantRecent("an hour later", 0, 0)
}

func recentGroupsLeftOut(h *harness) {
	muted, named := h.fingerprint("no stock"), h.fingerprint("too late")
	for _, f := range []entity.Fingerprint{muted, named} {
		h.attempt(h.came(f, 1)[0], entity.Acknowledged)
		h.came(f, 1)
	}
	h.wantRecent("without exceptions", 2, 2)
	h.wantRecent("but the named one", 1, 1, named.ID(), uuid.New())
	yes := true
	check.Must(h.Repository.AnnotateGroup(h.Context(), muted.ID(), repository.Annotation{Muted: &yes}, nil, entity.By("alice")))(h)
	h.wantRecent("but the muted one", 1, 1)
	h.wantRecent("but both", 0, 0, named.ID())
}

func exportPromises() []promise {
	return []promise{
		{"IsEveryMessageWithItsBytes", exportWhole},
		{"IsOneMoment", exportMoment},
		{"StopsAtTheLimit", exportLimit},
		{"StopsWhenTheCallerDoes", exportStops},
		{"LeavesOutValuesOverTheLimit", exportLargeValues},
		{"GoesOnBeyondAStep", exportMany},
		{"LoadsTheRequestedParts", exportParts},
	}
}

// exported returns the ids of the exported messages. It calls the function with for each message, and the export waits
// until that call returns.
func (h *harness) exported(q repository.ExportQuery, with func(*entity.Message)) []uuid.UUID {
	h.Helper()
	var all []uuid.UUID
	check.NoError(h, h.Repository.Export(h.Context(), q, func(m *entity.Message) error {
		all = append(all, m.ID)
		if with != nil {
			with(m)
		}
		return nil
	}))
	return all
}

// export returns the ids of the messages that the query exports. When q.Limit is 0, these are all that match, and
// values of any size are loaded.
func (h *harness) export(q repository.ExportQuery) []uuid.UUID {
	h.Helper()
	if q.Limit == 0 {
		q.Limit, q.MaxValue = everything, whole
	}
	return h.exported(q, nil)
}

func exportWhole(h *harness) {
	h.assorted()
	h.put(func(m *entity.Message) {
		m.Record.Key, m.Record.Value = []byte{0, 255}, bytes.Repeat([]byte("x"), 100_000)
		m.Record.Headers = []entity.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "b", Value: bytes.Repeat([]byte("h"), 50_000)}}
	})
	h.put(func(m *entity.Message) { m.Record.Value = nil })
	h.put(func(m *entity.Message) { m.Source, m.Record.Value = entity.Source{}, bytes.Repeat([]byte("1"), 50_000) })
	h.put(func(m *entity.Message) { m.Source, m.Record.Value = entity.Source{}, nil })
	seen := 0
	h.exported(repository.ExportQuery{Limit: everything, MaxValue: whole}, func(m *entity.Message) {
		seen++
		check.Same(h, *m, h.get(m.ID), "exported")
	})
	check.Same(h, seen, 11, "messages")
}

func exportMoment(h *harness) {
	// Each of these messages is so large that an export reads it with a separate query.
	want := h.puts(30, func(m *entity.Message) { m.Record.Value = bytes.Repeat([]byte("v"), 40_000) })
	slices.Reverse(want)
	changed := false
	got := h.exported(repository.ExportQuery{Limit: everything, MaxValue: whole}, func(m *entity.Message) {
		check.True(h, m.Status == entity.Pending && len(m.Record.Value) != 0,
			"message %s is %s with %d bytes, want it as it was", m.ID, m.Status, len(m.Record.Value))
		if changed {
			return
		}
		changed = true
		h.put()
		for _, id := range want[1:10] {
			check.NoError(h, h.Repository.Delete(h.Context(), id, entity.By("alice")))
		}
		h.claimAll(intents(want[10:20]...)...)
	})
	h.wantIDs("exported", got, want)
}

func exportLimit(h *harness) {
	want := h.puts(5)
	slices.Reverse(want)
	for limit := range 7 {
		if limit > 0 {
			h.wantIDs("exported", h.export(repository.ExportQuery{Limit: limit}), want[:min(limit, 5)])
		}
	}
}

func exportStops(h *harness) {
	h.puts(5)
	enough := errors.New("enough")
	seen := 0
	err := h.Repository.Export(h.Context(), repository.ExportQuery{Limit: everything}, func(*entity.Message) error {
		if seen++; seen == 3 {
			return enough
		}
		return nil
	})
	if err != enough || seen != 3 { //nolint:errorlint // the error of the caller must be returned without a wrapper
		h.Errorf("Export = %v after %d messages, want the caller's error after 3", err, seen)
	}
	h.put() // fails if the export blocks the store
}

func exportLargeValues(h *harness) {
	for _, size := range []int{100, 101, 20_000, 40_000, 40_001, 200_000} {
		h.put(func(m *entity.Message) { m.Record.Value = bytes.Repeat([]byte("v"), size) })
	}
	for _, limit := range []int64{0, 100, 20_000, 40_000} {
		h.exported(repository.ExportQuery{Limit: everything, MaxValue: limit}, func(m *entity.Message) {
			r := m.Record
			loaded := r.Size <= limit
			check.True(h, loaded == (r.State == entity.ValueStored) && loaded == (int64(len(r.Value)) == r.Size),
				"up to %d bytes: a value of %d is in state %d with %d bytes", limit, r.Size, r.State, len(r.Value))
		})
	}
}

// exportParts checks an export that loads only parts of each message. These parts, and the fields that every export
// loads (see ExportQuery.Parts), must be equal to those of the whole message. This must hold even for a part that is so
// long that the store reads it separately.
func exportParts(h *harness) {
	h.assorted()
	h.put(func(m *entity.Message) {
		m.Record.Key, m.Record.Value = bytes.Repeat([]byte("k"), 20_000), bytes.Repeat([]byte("v"), 100_000)
		m.Record.Headers = []entity.Header{{Key: "a", Value: bytes.Repeat([]byte("h"), 50_000)}}
	})
	h.put(func(m *entity.Message) { m.Record.Value = nil })
	type described struct {
		id, group                                    uuid.UUID
		created                                      time.Time
		topic, source, class, consumerGroup, dialect string
		status                                       entity.Status
	}
	describe := func(m *entity.Message) described {
		f := m.Failure
		return described{m.ID, m.Group, m.CreatedAt, m.OriginalTopic, m.Source.Topic, f.Class, f.ConsumerGroup, f.Dialect, m.Status}
	}
	for n := range 8 {
		parts := repository.RecordParts{Key: n&1 > 0, Value: n&2 > 0, Headers: n&4 > 0}
		seen := 0
		h.exported(repository.ExportQuery{Limit: everything, MaxValue: whole, Parts: &parts}, func(m *entity.Message) {
			seen++
			want := h.get(m.ID)
			check.Same(h, describe(m), describe(&want), "%+v: fields", parts)
			if parts.Key {
				check.Same(h, m.Record.Key, want.Record.Key, "%+v: key", parts)
			}
			if parts.Value {
				check.Same(h, m.Record.Value, want.Record.Value, "%+v: value", parts)
				check.Same(h, m.Record.State, want.Record.State, "%+v: state of the value", parts)
			}
			if parts.Headers {
				check.Same(h, m.Record.Headers, want.Record.Headers, "%+v: headers", parts)
			}
		})
		check.Same(h, seen, 9, "messages with %+v", parts)
	}
}

func exportMany(h *harness) {
	var want []uuid.UUID
	for range 2100 {
		m := h.message()
		h.Insert(h.T, m)
		want = append(want, m.ID)
	}
	got := h.exported(repository.ExportQuery{Limit: 5000}, nil)
	h.wantSameIDs("exported", got, want)
}
