package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

func TestArchiveCollector(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_000_000_000, 0)
	store := fake.New(func() time.Time { return at })
	keep := func(run repository.ArchiveRun) {
		t.Helper()
		check.NoError(t, store.KeepArchiveRun(t.Context(), run))
	}
	if n := testutil.CollectAndCount(newArchiveCollector(store, zap.NewNop())); n != 0 {
		t.Errorf("got %d metrics before any run, want none", n)
	}
	first := uuid.New()
	keep(repository.ArchiveRun{ID: first, Result: repository.ArchiveRunning})
	at = at.Add(90 * time.Second)
	keep(repository.ArchiveRun{ID: first, Result: repository.ArchiveComplete, Moved: 3, Purged: 2, Bookkept: 1})
	at = at.Add(24 * time.Hour)
	keep(repository.ArchiveRun{ID: uuid.New(), Result: repository.ArchiveIncomplete, Moved: 9, Error: "broken"})
	want := `
# HELP dlq_archive_last_run_result 1 for the result of the archive run that started last. A run that stays running was killed, or could not record its end.
# TYPE dlq_archive_last_run_result gauge
dlq_archive_last_run_result{result="complete"} 0
dlq_archive_last_run_result{result="incomplete"} 1
dlq_archive_last_run_result{result="running"} 0
dlq_archive_last_run_result{result="stopped"} 0
# HELP dlq_archive_last_success_duration_seconds How long the last complete archive run took.
# TYPE dlq_archive_last_success_duration_seconds gauge
dlq_archive_last_success_duration_seconds 90
# HELP dlq_archive_last_success_rows Rows that the last complete archive run moved (archive) or deleted (purge, bookkeeping).
# TYPE dlq_archive_last_success_rows gauge
dlq_archive_last_success_rows{step="archive"} 3
dlq_archive_last_success_rows{step="bookkeeping"} 1
dlq_archive_last_success_rows{step="purge"} 2
# HELP dlq_archive_last_success_timestamp_seconds When the last complete archive run ended, in Unix seconds; absent when there was none.
# TYPE dlq_archive_last_success_timestamp_seconds gauge
dlq_archive_last_success_timestamp_seconds 1.00000009e+09
`
	if err := testutil.CollectAndCompare(newArchiveCollector(store, zap.NewNop()), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// awayRuns is a store without archive runs; it returns the error err, as a database does that is unavailable or has an
// old schema.
type awayRuns struct {
	repository.ArchiveRuns
	err error
}

func (a *awayRuns) LatestArchiveRuns(context.Context) (last, complete *repository.ArchiveRun, err error) {
	return nil, nil, a.err
}

// When the metrics are missing, an operator cannot see whether the archiver never ran or the database does not answer.
// So the log says once that the database does not answer.
func TestArchiveCollector_SaysOnceThatItCannotTell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.DebugLevel)
		store := &awayRuns{}
		c := newArchiveCollector(store, zap.New(core))
		scrape := func(err error, want int) {
			t.Helper()
			store.err = err
			if n := testutil.CollectAndCount(c); n != 0 {
				t.Errorf("got %d metrics, want none", n)
			}
			if lines.Len() != want {
				t.Errorf("got %d lines, want %d: %v", lines.Len(), want, lines.All())
			}
			<-time.After(stateAge)
		}
		scrape(nil, 0)
		scrape(errors.New("no such table"), 1)
		scrape(errors.New("no such host"), 1)
		scrape(nil, 2)
		scrape(nil, 2)
		scrape(errors.New("no such table"), 3)
	})
}

func TestGroupsCollector_LeavesOutHeartbeats(t *testing.T) {
	t.Parallel()
	store := fake.New(time.Now)
	heart, other := entity.Fingerprint{Class: "heart"}, entity.Fingerprint{Class: "other"}
	check.NoError(t, store.SaveFingerprints(t.Context(), []entity.Fingerprint{heart, other}))
	for _, f := range []entity.Fingerprint{heart, other} {
		m := entity.NewMessage("", "boom", time.Now())
		m.Group = f.ID()
		store.Insert(m)
	}
	want := `
# HELP dlq_error_groups_recent Error groups that came first (new) or came back after all of theirs was resolved (regressed) within the last hour, without muted ones.
# TYPE dlq_error_groups_recent gauge
dlq_error_groups_recent{change="new"} 1
dlq_error_groups_recent{change="regressed"} 0
`
	if err := testutil.CollectAndCompare(newGroupsCollector(store, []uuid.UUID{heart.ID()}, zap.NewNop()), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
