package repositorytest

import (
	"reflect"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

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
	if err := h.Repository.KeepArchiveRun(h.Context(), run); err != nil {
		h.Fatalf("KeepArchiveRun(%+v): %v", run, err)
	}
}

// wantRuns compares what LatestArchiveRuns answers; nil for none.
func (h *harness) wantRuns(what string, last, complete *repository.ArchiveRun) {
	h.Helper()
	gotLast, gotComplete, err := h.Repository.LatestArchiveRuns(h.Context())
	if err != nil {
		h.Fatalf("%s: LatestArchiveRuns: %v", what, err)
	}
	if !reflect.DeepEqual(gotLast, last) {
		h.Errorf("%s: the last run is %+v, want %+v", what, gotLast, last)
	}
	if !reflect.DeepEqual(gotComplete, complete) {
		h.Errorf("%s: the last complete run is %+v, want %+v", what, gotComplete, complete)
	}
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
	if want := (repository.RecentCount{New: fresh, Regressed: regressed}); err != nil || got != want {
		h.Errorf("%s: got %+v, %v, want %+v", what, got, err, want)
	}
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
	h.wantRecent("of nobody", 2, 2)
	h.wantRecent("but the named one", 1, 1, named.ID(), uuid.New())
	yes := true
	if _, err := h.Repository.AnnotateGroup(h.Context(), muted.ID(), repository.Annotation{Muted: &yes}, nil, entity.By("alice")); err != nil {
		h.Fatalf("AnnotateGroup: %v", err)
	}
	h.wantRecent("but the muted one", 1, 1)
	h.wantRecent("but both", 0, 0, named.ID())
}
