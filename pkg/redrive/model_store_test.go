package redrive

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// modelStore is a process's connection to the store. It lets the model check leases and claims, and remembers the
// attempts of messages before it deletes them.
type modelStore struct {
	p     *process
	store repository.Repository
}

// two holds the two results of a store method that returns two values and an error.
type two[A, B any] struct {
	a A
	b B
}

func (s *modelStore) Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	return ask(ctx, s.p, func(ctx context.Context) (entity.Message, error) { return s.store.Get(ctx, id, maxValue) })
}

func (s *modelStore) Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) ([]entity.Message, int, error) {
	got, err := ask(ctx, s.p, func(ctx context.Context) (two[[]entity.Message, int], error) {
		messages, taken, err := s.store.Load(ctx, ids, maxBytes)
		return two[[]entity.Message, int]{messages, taken}, err
	})
	return got.a, got.b, err
}

func (s *modelStore) Due(ctx context.Context, q repository.DueQuery) ([]uuid.UUID, repository.Cursor, error) {
	got, err := look(ctx, s.p, func(ctx context.Context) (two[[]uuid.UUID, repository.Cursor], error) {
		ids, next, err := s.store.Due(ctx, q)
		return two[[]uuid.UUID, repository.Cursor]{ids, next}, err
	})
	return got.a, got.b, err
}

func (s *modelStore) Counts(ctx context.Context) ([]repository.Count, error) {
	return look(ctx, s.p, s.store.Counts)
}

func (s *modelStore) Redirects(ctx context.Context) ([]entity.Redirect, error) {
	return look(ctx, s.p, s.store.Redirects)
}

func (s *modelStore) Stuck(ctx context.Context, age time.Duration) (int64, error) {
	return look(ctx, s.p, func(ctx context.Context) (int64, error) { return s.store.Stuck(ctx, age) })
}

func (s *modelStore) Claim(ctx context.Context, claims []repository.Claim, how repository.Claiming) ([]entity.Message, error) {
	return ask(ctx, s.p, func(ctx context.Context) ([]entity.Message, error) {
		if how.Cause.Actor == entity.ActorAuto {
			s.p.w.watchAuto(claims)
		}
		free := s.p.w.unlocked(claims)
		if how.Wait && len(free) < len(claims) {
			return nil, errAway // the store waits for the lock, and gives up
		}
		taken, err := s.store.Claim(ctx, free, how)
		s.p.w.watchClaims(s.p, taken)
		s.p.w.noteEdits(claims, taken)
		return taken, err
	})
}

func (s *modelStore) Claimable(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error) {
	return ask(ctx, s.p, func(ctx context.Context) ([]uuid.UUID, error) { return s.store.Claimable(ctx, ids) })
}

func (s *modelStore) Finish(ctx context.Context, results []repository.Result, cause entity.AuditInfo) ([]repository.Finished, error) {
	return ask(ctx, s.p, func(ctx context.Context) ([]repository.Finished, error) {
		if cause.Actor == entity.ActorSettler {
			s.p.w.watchSettling(results)
		}
		finished, err := s.store.Finish(ctx, results, cause)
		for _, f := range finished {
			s.p.w.saw(s.p, "ends the attempt on %s: %s", short(f.MessageID), f.Status)
		}
		return finished, err
	})
}

func (s *modelStore) Expired(ctx context.Context, q repository.ExpiredQuery) ([]entity.Message, error) {
	return look(ctx, s.p, func(ctx context.Context) ([]entity.Message, error) { return s.store.Expired(ctx, q) })
}

func (s *modelStore) History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error) {
	return ask(ctx, s.p, func(ctx context.Context) ([]entity.Attempt, error) { return s.store.History(ctx, id) })
}

func (s *modelStore) AttemptsOf(ctx context.Context, redrive uuid.UUID, ids []uuid.UUID) ([]entity.Attempt, error) {
	return ask(ctx, s.p, func(ctx context.Context) ([]entity.Attempt, error) { return s.store.AttemptsOf(ctx, redrive, ids) })
}

func (s *modelStore) MarkDead(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error) {
	return ask(ctx, s.p, func(ctx context.Context) (entity.Message, error) { return s.store.MarkDead(ctx, id, cause) })
}

func (s *modelStore) Requeue(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error) {
	return ask(ctx, s.p, func(ctx context.Context) (entity.Message, error) { return s.store.Requeue(ctx, id, cause) })
}

func (s *modelStore) Delete(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error {
	return tell(ctx, s.p, func(ctx context.Context) error {
		s.p.w.keepHistories(id)
		return s.store.Delete(ctx, id, cause)
	})
}

func (s *modelStore) Change(ctx context.Context, c repository.Change, cause entity.AuditInfo) ([]uuid.UUID, error) {
	return ask(ctx, s.p, func(ctx context.Context) ([]uuid.UUID, error) {
		if c.Action == entity.RedriveDelete {
			s.p.w.keepHistories(c.IDs...)
		}
		return s.store.Change(ctx, c, cause)
	})
}

func (s *modelStore) PerformedOn(ctx context.Context, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error) {
	return ask(ctx, s.p, func(ctx context.Context) ([]uuid.UUID, error) {
		return s.store.PerformedOn(ctx, operation, action, ids)
	})
}

func (s *modelStore) Record(ctx context.Context, entry entity.AuditEntry) error {
	_, err := ask(ctx, s.p, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.store.Record(ctx, entry) })
	return err
}

func (s *modelStore) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	return ask(ctx, s.p, func(ctx context.Context) (repository.SearchPage, error) { return s.store.Search(ctx, q) })
}

func (s *modelStore) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	_, err := ask(ctx, s.p, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.store.Export(ctx, q, yield) })
	return err
}

// CreateRedrive makes the batches of a redrive small, so that several processes work on it.
func (s *modelStore) CreateRedrive(ctx context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	n.BatchSize = 1 + int(n.ID[15])%5
	return ask(ctx, s.p, func(ctx context.Context) (entity.Redrive, error) { return s.store.CreateRedrive(ctx, n) })
}

func (s *modelStore) PreviewRedrive(ctx context.Context, n repository.NewRedrive) ([]repository.SelectionCount, error) {
	return ask(ctx, s.p, func(ctx context.Context) ([]repository.SelectionCount, error) { return s.store.PreviewRedrive(ctx, n) })
}

func (s *modelStore) Overlaps(ctx context.Context, n repository.NewRedrive) ([]entity.Overlap, error) {
	return ask(ctx, s.p, func(ctx context.Context) ([]entity.Overlap, error) { return s.store.Overlaps(ctx, n) })
}

func (s *modelStore) Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error) {
	return look(ctx, s.p, func(ctx context.Context) (entity.Redrive, error) { return s.store.Redrive(ctx, id) })
}

func (s *modelStore) ActiveRedrives(ctx context.Context) ([]uuid.UUID, error) {
	return look(ctx, s.p, s.store.ActiveRedrives)
}

func (s *modelStore) MoveRedrive(ctx context.Context, id uuid.UUID, m repository.RedriveMove) (entity.Redrive, error) {
	return ask(ctx, s.p, func(ctx context.Context) (entity.Redrive, error) { return s.store.MoveRedrive(ctx, id, m) })
}

func (s *modelStore) SaveWaiting(ctx context.Context, id uuid.UUID, waiting bool, note string) error {
	return tell(ctx, s.p, func(ctx context.Context) error { return s.store.SaveWaiting(ctx, id, waiting, note) })
}

func (s *modelStore) LeaseBatch(ctx context.Context, id, owner uuid.UUID, lease time.Duration, without ...string) (*repository.RedriveBatch, error) {
	return ask(ctx, s.p, func(ctx context.Context) (*repository.RedriveBatch, error) {
		before, err := s.store.Redrive(ctx, id)
		if err != nil {
			return nil, err
		}
		batch, err := s.store.LeaseBatch(ctx, id, owner, lease, without...)
		if batch != nil {
			s.p.w.watchLease(s.p, before, batch)
		}
		return batch, err
	})
}

func (s *modelStore) RenewLeases(ctx context.Context, owner uuid.UUID, lease time.Duration) error {
	return tell(ctx, s.p, func(ctx context.Context) error { return s.store.RenewLeases(ctx, owner, lease) })
}

func (s *modelStore) SaveBatch(ctx context.Context, r repository.BatchResults) (bool, error) {
	return ask(ctx, s.p, func(ctx context.Context) (bool, error) {
		delete(s.p.w.leases, batchOf{s.p.number, r.RedriveID, r.Number})
		saved, err := s.store.SaveBatch(ctx, r)
		s.p.w.saw(s.p, "saves batch %d of redrive %s: %v", r.Number, short(r.RedriveID), saved)
		for _, item := range r.Items {
			s.p.w.saw(s.p, "  %s: %s %s", short(item.MessageID), item.Result, item.Reason)
			if saved {
				s.p.w.watchTaken(ctx, r.RedriveID, item)
			}
		}
		return saved, err
	})
}

func (s *modelStore) RedriveItems(ctx context.Context, id uuid.UUID, q repository.ItemQuery) ([]entity.RedriveItem, error) {
	return ask(ctx, s.p, func(ctx context.Context) ([]entity.RedriveItem, error) { return s.store.RedriveItems(ctx, id, q) })
}

func (s *modelStore) Admit(ctx context.Context, l repository.Lease, topic string, n, first int) (int, error) {
	return ask(ctx, s.p, func(ctx context.Context) (int, error) { return s.store.Admit(ctx, l, topic, n, first) })
}

func (s *modelStore) RedriveBounds(ctx context.Context, id uuid.UUID, settle time.Duration) ([]entity.TopicBound, error) {
	return look(ctx, s.p, func(ctx context.Context) ([]entity.TopicBound, error) { return s.store.RedriveBounds(ctx, id, settle) })
}

func (s *modelStore) RedriveSources(ctx context.Context, id uuid.UUID) ([]string, error) {
	return ask(ctx, s.p, func(ctx context.Context) ([]string, error) { return s.store.RedriveSources(ctx, id) })
}

func (s *modelStore) SaveBound(ctx context.Context, id uuid.UUID, was, now entity.TopicBound) (bool, error) {
	return ask(ctx, s.p, func(ctx context.Context) (bool, error) { return s.store.SaveBound(ctx, id, was, now) })
}

func (s *modelStore) ContinueRedrive(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error) {
	return ask(ctx, s.p, func(ctx context.Context) (entity.Redrive, error) { return s.store.ContinueRedrive(ctx, id, cause) })
}

func (s *modelStore) WatchedGroups(ctx context.Context) ([]repository.TopicGroup, error) {
	return ask(ctx, s.p, s.store.WatchedGroups)
}

func (s *modelStore) ConfigureGroups(ctx context.Context, groups []repository.TopicGroup) error {
	return tell(ctx, s.p, func(ctx context.Context) error { return s.store.ConfigureGroups(ctx, groups) })
}

func (s *modelStore) SaveCommitted(ctx context.Context, offsets []repository.Committed) error {
	return tell(ctx, s.p, func(ctx context.Context) error { return s.store.SaveCommitted(ctx, offsets) })
}

// unlocked returns the claims of messages that no other session locks now.
func (w *world) unlocked(claims []repository.Claim) []repository.Claim {
	return slices.DeleteFunc(slices.Clone(claims), func(c repository.Claim) bool { return time.Now().Before(w.locked[c.MessageID]) })
}

// watchTaken checks a message that a redrive skips as taken: it must have changed since it was selected. That another
// session locks the row is no reason to skip a message.
func (w *world) watchTaken(ctx context.Context, redrive uuid.UUID, item entity.RedriveItem) {
	if item.Result != entity.ItemSkipped || item.Reason != repository.SkippedTaken {
		return
	}
	r, err := w.store.Redrive(ctx, redrive)
	if err != nil {
		return
	}
	if m, err := w.store.Get(ctx, item.MessageID, 0); err == nil && m.CanClaim() == nil && !m.UpdatedAt.After(r.CreatedAt) {
		w.fail("a lock taken for an attempt", "redrive %s skips message %s as taken, and it is unchanged since it was selected", redrive, item.MessageID)
	}
}
