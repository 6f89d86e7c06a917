package fake

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Redirects implements repository.Redirects.
func (s *Store) Redirects(ctx context.Context) ([]entity.Redirect, error) {
	redirects := []entity.Redirect{}
	err := s.Step(ctx, "list redirects", func(time.Time) error {
		for _, r := range s.redirects {
			redirects = append(redirects, r)
		}
		slices.SortFunc(redirects, func(a, b entity.Redirect) int { return strings.Compare(a.Topic, b.Topic) })
		return nil
	})
	return redirects, err
}

// RedirectTargets implements repository.Redirects.
func (s *Store) RedirectTargets(ctx context.Context, topics []string) (map[string]string, error) {
	targets := map[string]string{}
	err := s.Step(ctx, "find redirects", func(time.Time) error {
		for _, topic := range topics {
			if r, known := s.redirects[topic]; known {
				targets[topic] = r.Target
			}
		}
		return nil
	})
	return targets, err
}

// SaveRedirect implements repository.Redirects.
func (s *Store) SaveRedirect(ctx context.Context, topic, target string, expected *int64, cause entity.AuditInfo) (entity.Redirect, error) {
	return s.changeRedirect(ctx, topic, expected, entity.ActionRedirect, cause, func(now time.Time, old entity.Redirect) entity.Redirect {
		s.redirectVersion++
		r := entity.Redirect{
			Topic: topic, Target: target, Version: s.redirectVersion, Reason: cause.Reason, UpdatedAt: now, UpdatedBy: cause.Actor,
		}
		s.redirects[topic] = r
		return r
	})
}

// DeleteRedirect implements repository.Redirects.
func (s *Store) DeleteRedirect(ctx context.Context, topic string, expected *int64, cause entity.AuditInfo) (entity.Redirect, error) {
	return s.changeRedirect(ctx, topic, expected, entity.ActionDelete, cause, func(_ time.Time, old entity.Redirect) entity.Redirect {
		delete(s.redirects, topic)
		return old
	})
}

func (s *Store) changeRedirect(
	ctx context.Context, topic string, expected *int64, action entity.Action, cause entity.AuditInfo,
	change func(now time.Time, old entity.Redirect) entity.Redirect,
) (changed entity.Redirect, err error) {
	err = s.Step(ctx, "change a redirect", func(now time.Time) error {
		old, id := s.redirects[topic], entity.RedirectID(topic)
		switch {
		case s.Did(cause.Operation, action)[id]:
			old.Topic = topic
			changed = old
			return nil
		case old.Version == 0 && action == entity.ActionDelete:
			return &entity.RedirectNotFoundError{Topic: topic}
		case expected != nil && *expected != old.Version:
			return &entity.ChangedError{What: "the redirect of " + topic, Version: old.Version}
		}
		changed = change(now, old)
		s.record(entity.AuditEntry{
			At: now, Action: action, Kind: entity.KindRedirect, ObjectID: id, From: old.Target, To: s.redirects[topic].Target,
			Topics: topic, Cause: cause,
		})
		return nil
	})
	return changed, err
}
