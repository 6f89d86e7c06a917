package fake

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// meant matches messages of the store by all that a filter says.
func (s *Store) meant(f entity.Filter) func(*entity.Message) bool {
	isNamed := named(f.Topic)
	return func(m *entity.Message) bool {
		return (f.Topic == "" || isNamed(m)) && hasTopics(f, m) && described(f, m) &&
			within(m.CreatedAt, f.CreatedAfter, f.CreatedBefore) && within(m.LastRetryAt, f.RetriedAfter, f.RetriedBefore) &&
			(!f.Catalogued() || s.documented(f, m.ID))
	}
}

func hasTopics(f entity.Filter, m *entity.Message) bool {
	if f.UnknownOrigin && m.OriginalTopic != "" || f.Visible != nil && !f.Visible.Sees(m) {
		return false
	}
	return len(f.Topics.Texts()) == 0 || f.Topics.Match(m.OriginalTopic) || m.Source.Known() && f.Topics.Match(m.Source.Topic)
}

func described(f entity.Filter, m *entity.Message) bool {
	return (len(f.Statuses) == 0 || slices.Contains(f.Statuses, m.Status)) &&
		(f.ErrorClass == "" || m.Failure.Class == f.ErrorClass) &&
		(f.ConsumerGroup == "" || m.Failure.ConsumerGroup == f.ConsumerGroup) &&
		(f.Dialect == "" || m.Failure.Dialect == f.Dialect) &&
		(f.Group == uuid.Nil || m.Group == f.Group)
}

// within reports whether t is from after to before; zero bounds are none, and what
// never was is within none.
func within(t, after, before time.Time) bool {
	after, before = entity.Moment(after), entity.Moment(before)
	if t.IsZero() {
		return after.IsZero() && before.IsZero()
	}
	return (after.IsZero() || !t.Before(after)) && (before.IsZero() || t.Before(before))
}

// documented reports whether a message has a document of the present version with
// all that the filter names.
func (s *Store) documented(f entity.Filter, id uuid.UUID) bool {
	r, ok := s.rows[id]
	if !ok {
		r = s.archive[id]
	}
	if r == nil || r.document == nil || !s.catalogue.is(r.document.version) || s.answersFrom != nil && *s.answersFrom != r.document.version {
		return false
	}
	for _, any := range f.Terms() {
		if !slices.ContainsFunc(any, func(t int64) bool { return r.document.terms[t] }) {
			return false
		}
	}
	for _, word := range f.Words {
		// What no text can hold is found in none.
		if !utf8.ValidString(word) || strings.ContainsRune(word, 0) || !strings.Contains(r.document.text, word) {
			return false
		}
	}
	return true
}
