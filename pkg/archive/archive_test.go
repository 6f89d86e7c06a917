package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

var errStore = errors.New("store is broken")

// fakeStore records its calls and returns configured answers.
type fakeStore struct {
	mu      sync.Mutex
	calls   []string
	taken   bool // whether an archiver has the lock
	lockErr error
	fail    map[string]error
	runs    []repository.ArchiveRun
	away    int                       // number of calls of KeepArchiveRun that fail
	during  func(ctx context.Context) // called by ArchiveOld
}

func (f *fakeStore) note(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

func (f *fakeStore) TryLock(context.Context) (func(), bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lockErr != nil || f.taken {
		return nil, false, f.lockErr
	}
	f.taken = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.taken = false
		f.calls = append(f.calls, "unlock")
	}, true, nil
}

func (f *fakeStore) ArchiveOld(ctx context.Context, days, batch int) (int64, error) {
	f.note(fmt.Sprintf("archive %d %d", days, batch))
	if f.during != nil {
		f.during(ctx)
	}
	return 10, f.fail["archive"]
}

func (f *fakeStore) CreatePartitions(_ context.Context, ahead int) (int64, error) {
	f.note(fmt.Sprintf("partitions %d", ahead))
	return 1, f.fail["partitions"]
}

func (f *fakeStore) PurgePartitions(_ context.Context, days, batch int) (int64, error) {
	f.note(fmt.Sprintf("quarters %d %d", days, batch))
	return 5, f.fail["quarters"]
}

func (f *fakeStore) PurgeArchive(_ context.Context, days, batch int) (int64, error) {
	f.note(fmt.Sprintf("purge %d %d", days, batch))
	return 20, f.fail["purge"]
}

func (f *fakeStore) PurgeBookkeeping(_ context.Context, redriveDays, auditDays, batch int) (int64, error) {
	f.note(fmt.Sprintf("bookkeeping %d %d %d", redriveDays, auditDays, batch))
	return 30, f.fail["bookkeeping"]
}

func (f *fakeStore) KeepArchiveRun(ctx context.Context, run repository.ArchiveRun) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away > 0 {
		f.away--
		return errStore
	}
	f.runs = append(f.runs, run)
	return errors.Join(ctx.Err(), f.fail["note"])
}

// fakeTier is a Tier that records its calls in its store's list of calls.
type fakeTier struct{ *fakeStore }

func (f fakeTier) Move(context.Context) (int64, error) {
	f.note("move")
	return 7, f.fail["move"]
}

func (f fakeTier) Purge(_ context.Context, days, batch int) (int64, error) {
	f.note(fmt.Sprintf("purge objects %d %d", days, batch))
	return 100, f.fail["purge objects"]
}

func (f fakeTier) Clean(context.Context) (int64, error) {
	f.note("clean")
	return 3, f.fail["clean"]
}

func (f *fakeStore) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

type fixture struct {
	*Archiver
	store *fakeStore
	lines *observer.ObservedLogs
}

func newFixture(store *fakeStore, opts ...Option) fixture {
	core, lines := observer.New(zap.DebugLevel)
	f := fixture{New(DefaultConfig(), store, zap.New(core), opts...), store, lines}
	f.pause = 0
	return f
}

// ticking returns a clock that advances by two seconds each time it is read.
func ticking() Option {
	at := time.Unix(1_000_000_000, 0)
	return WithClock(func() time.Time { at = at.Add(2 * time.Second); return at })
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("DoesEveryStepUnderTheLock", func(t *testing.T) {
		t.Parallel()
		f := newFixture(&fakeStore{}, ticking())
		got, err := f.Run(t.Context())
		want := (Report{Partitions: 1, Archived: 10, Purged: 25, Bookkept: 30, Duration: 2 * time.Second})
		check.True(t, err == nil && got == want, "got %+v and %v, want %+v", got, err, want)
		wantCalls(t, f.store, "partitions 2", "archive 30 1000", "quarters 365 1000", "purge 365 1000", "bookkeeping 365 730 1000", "unlock")
	})

	t.Run("LeavesWhatIsDueAloneUntilItsQuarterIs", func(t *testing.T) {
		t.Parallel()
		f := newFixture(&fakeStore{})
		f.cfg.PurgeWholeQuarters = true
		got, err := f.Run(t.Context())
		check.True(t, err == nil && got.Purged == 5, "got %+v and %v, want the 5 of whole quarters", got, err)
		wantCalls(t, f.store, "partitions 2", "archive 30 1000", "quarters 365 1000", "bookkeeping 365 730 1000", "unlock")
	})

	t.Run("LogsOneLineWithItsCounts", func(t *testing.T) {
		t.Parallel()
		f := newFixture(&fakeStore{}, ticking())
		_, _ = f.Run(t.Context())
		check.Require(t, f.lines.Len() == 1, "got %d lines, want 1", f.lines.Len())
		got := f.lines.All()[0].ContextMap()
		for key, want := range map[string]any{"partitions": int64(1), "archived": int64(10), "purged": int64(25), "bookkeeping": int64(30), "duration": 2 * time.Second} {
			check.Same(t, got[key], want, "%s", key)
		}
	})

	t.Run("LeavesWhatBecameOfItInTheStore", func(t *testing.T) {
		t.Parallel()
		f := newFixture(&fakeStore{}, ticking())
		_, _ = f.Run(t.Context())
		f.wantNoted(t, repository.ArchiveRun{Result: repository.ArchiveComplete, Took: 2 * time.Second, Moved: 10, Purged: 25, Bookkept: 30})
	})

	t.Run("IsNotedWhenTheStoreIsBackSoon", func(t *testing.T) {
		t.Parallel()
		f := newFixture(&fakeStore{away: 3}, ticking()) // the only try to store the start fails, and so do the first two tries to store the end
		_, _ = f.Run(t.Context())
		if len(f.store.runs) != 1 || f.store.runs[0].Result != repository.ArchiveComplete || f.store.runs[0].Took != 2*time.Second {
			t.Errorf("noted %+v, want one that is complete and took 2s", f.store.runs)
		}
	})

	t.Run("IsIncompleteInTheStoreWhenAStepFailed", func(t *testing.T) {
		t.Parallel()
		f := newFixture(&fakeStore{fail: map[string]error{"quarters": errStore}}, ticking())
		_, err := f.Run(t.Context())
		f.wantNoted(t, repository.ArchiveRun{
			Result: repository.ArchiveIncomplete, Took: 2 * time.Second, Moved: 10, Purged: 25, Bookkept: 30, Error: err.Error(),
		})
	})

	t.Run("IsStoppedInTheStoreWhenItWasToldToEnd", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		f := newFixture(&fakeStore{during: func(context.Context) { cancel() }}, ticking())
		_, err := f.Run(ctx)
		f.wantNoted(t, repository.ArchiveRun{Result: repository.ArchiveStopped, Took: 2 * time.Second, Moved: 10, Error: err.Error()})
	})

	t.Run("DoesItsWorkWhereItCannotBeNoted", func(t *testing.T) {
		t.Parallel()
		f := newFixture(&fakeStore{fail: map[string]error{"note": errStore}})
		got := check.Must(f.Run(t.Context()))(t)
		check.True(t, got.Archived == 10 && got.Bookkept == 30, "got %+v, want all of it and no error", got)
		check.Same(t, f.lines.FilterMessage("the archive run could not be recorded").Len(), 2, "lines about it")
	})

	t.Run("MovesClosedDaysToObjects", func(t *testing.T) {
		t.Parallel()
		for _, failing := range []string{"", "move", "purge objects", "clean"} {
			store := &fakeStore{fail: map[string]error{failing: errStore}}
			f := newFixture(store, WithTier(fakeTier{store}))
			got, err := f.Run(t.Context())
			check.Same(t, errors.Is(err, errStore), failing != "", "an error when %q fails", failing)
			check.Same(t, []int64{got.Archived, got.Stored, got.Purged, got.Cleaned, got.Bookkept}, []int64{10, 7, 125, 3, 30}, "counts")
			wantCalls(t, f.store, "partitions 2", "archive 30 1000", "move", "purge objects 365 1000", "quarters 365 1000", "purge 365 1000", "clean",
				"bookkeeping 365 730 1000", "unlock")
		}
	})

	t.Run("LeavesTheWorkToAnotherArchiver", func(t *testing.T) {
		t.Parallel()
		f := newFixture(&fakeStore{taken: true})
		got, err := f.Run(t.Context())
		check.True(t, err == nil && got.OtherRuns, "got %+v and %v, want OtherRuns and no error", got, err)
		wantCalls(t, f.store)
		check.True(t, f.lines.FilterMessageSnippet("another archiver is running").Len() == 1,
			"got %v, want a line about the other archiver", f.lines.All())
	})

	t.Run("FailsWithoutTheLock", func(t *testing.T) {
		t.Parallel()
		f := newFixture(&fakeStore{lockErr: errStore})
		check.Is(t, check.Err(f.Run(t.Context())), errStore, "the error")
	})

	for step, of := range map[string]string{
		"partitions": "partitions", "archive": "archive", "purge": "purge", "quarters": "purge", "bookkeeping": "bookkeeping",
	} {
		t.Run("GoesOnAfterAFailedStep/"+step, func(t *testing.T) {
			t.Parallel()
			f := newFixture(&fakeStore{fail: map[string]error{step: errStore}})
			got, err := f.Run(t.Context())
			check.True(t, errors.Is(err, errStore) && strings.Contains(err.Error(), "step "+of),
				"got %v, want %v of step %s", err, errStore, of)
			check.True(t, got.Archived == 10 && got.Purged == 25 && got.Bookkept == 30, "got %+v, want every count", got)
			wantCalls(t, f.store, "partitions 2", "archive 30 1000", "quarters 365 1000", "purge 365 1000", "bookkeeping 365 730 1000", "unlock")
			check.Same(t, f.lines.Len(), 1, "lines")
		})
	}

	t.Run("StopsBetweenStepsWhenCancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		f := newFixture(&fakeStore{during: func(context.Context) { cancel() }})
		got, err := f.Run(ctx)
		check.True(t, errors.Is(err, context.Canceled) && got.Archived == 10,
			"got %+v and %v, want what was done and %v", got, err, context.Canceled)
		wantCalls(t, f.store, "partitions 2", "archive 30 1000", "unlock")
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()

	t.Run("AcceptsItsDefaultsAndZeroDays", func(t *testing.T) {
		t.Parallel()
		for _, c := range []Config{DefaultConfig(), {BatchSize: 1, AuditDays: 365}, {BatchSize: 1, AuditDays: 365, Schedule: "0 3 * * *"}} {
			check.NoError(t, c.Validate())
		}
	})

	t.Run("KeepsTheAuditTrailForAYear", func(t *testing.T) {
		t.Parallel()
		for _, days := range []int{-1, 0, 364, maxDays + 1} {
			c := DefaultConfig()
			c.AuditDays = days
			check.Says(t, c.Validate(), "audit_days must be 365 to", "audit_days %d, want a refusal", days)
		}
	})

	t.Run("ChecksTheBucketOnlyWhenItIsUsed", func(t *testing.T) {
		t.Parallel()
		c := DefaultConfig()
		c.S3.Bucket = "?"
		check.NoError(t, c.Validate())
		c.Store = InS3
		check.Says(t, c.Validate(), "s3.bucket", "a wrong bucket")
	})

	t.Run("ReportsEveryProblem", func(t *testing.T) {
		t.Parallel()
		err := Config{RetentionDays: -1, PurgeDays: -1, AuditDays: maxDays + 1, Schedule: "daily", Store: "disk"}.Validate()
		for _, want := range []string{"retention_days", "purge_days", "audit_days", "batch_size", `schedule "daily"`, "store must be"} {
			check.True(t, err != nil && strings.Contains(err.Error(), want), "got %v, want %s in it", err, want)
		}
	})
}

// wantNoted checks that a run was stored when it started and when it ended.
func (f fixture) wantNoted(t *testing.T, want repository.ArchiveRun) {
	t.Helper()
	check.Require(t, len(f.store.runs) == 2 && f.store.runs[0].ID != uuid.Nil, "noted %+v, want a run and its end", f.store.runs)
	want.ID = f.store.runs[0].ID
	began := repository.ArchiveRun{ID: want.ID, Result: repository.ArchiveRunning}
	check.Same(t, f.store.runs, []repository.ArchiveRun{began, want}, "noted")
}

func wantCalls(t *testing.T, store *fakeStore, want ...string) {
	t.Helper()
	check.Same(t, store.asked(), want, "store was asked")
}
