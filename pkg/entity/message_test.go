package entity_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// kolkata is a zone whose offset from UTC is not a whole hour.
var kolkata = time.FixedZone("IST", 5*3600+1800)

// begin has nanoseconds and a time zone, both of which a message must drop.
var begin = time.Date(2026, 3, 4, 10, 36, 7, 123456789, kolkata)

var beginKept = time.Date(2026, 3, 4, 5, 6, 7, 123456000, time.UTC)

func message(status entity.Status, retryCount, maxRetries int) entity.Message {
	m := entity.NewMessage("orders", "boom", begin)
	m.Status, m.RetryCount, m.MaxRetries = status, retryCount, maxRetries
	return m
}

func TestNewMessage(t *testing.T) {
	t.Parallel()

	t.Run("IsPendingWithoutAttempts", func(t *testing.T) {
		t.Parallel()
		got := entity.NewMessage("orders.events.v1", "schema mismatch", begin)
		want := entity.Message{
			ID: got.ID, OriginalTopic: "orders.events.v1", ErrorMessage: "schema mismatch",
			RetryCount: 0, MaxRetries: 3, Status: entity.Pending,
			CreatedAt: beginKept, UpdatedAt: beginKept,
			Origin: entity.Origin{Confidence: entity.FromNothing},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("NewMessage = %+v, want %+v", got, want)
		}
		if got.ID == uuid.Nil {
			t.Error("NewMessage has no id")
		}
	})

	t.Run("IdsAreUniqueAndSortByAge", func(t *testing.T) {
		t.Parallel()
		last := entity.NewMessage("orders", "boom", begin).ID
		for range 1000 {
			id := entity.NewMessage("orders", "boom", begin).ID
			if bytes.Compare(id[:], last[:]) <= 0 {
				t.Fatalf("id %s came after %s and does not sort after it", id, last)
			}
			last = id
		}
	})
}

func TestMoment(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ in, want time.Time }{
		"IsUTCTruncatedToMicroseconds":  {begin, beginKept},
		"NeverRoundsUp":                 {time.Date(2026, 1, 1, 0, 0, 0, 999999999, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 999999000, time.UTC)},
		"ZeroStaysZero":                 {time.Time{}, time.Time{}},
		"ZeroInAnotherZoneIsStillZero":  {time.Time{}.In(kolkata), time.Time{}},
		"BeforeTheEpochIsTruncatedDown": {time.Unix(-1, 999999999), time.Unix(-1, 999999000).UTC()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := entity.TruncateTime(c.in); got != c.want {
				t.Errorf("Moment(%v) = %#v, want %#v", c.in, got, c.want)
			}
		})
	}
}

// moves maps each status to the method that changes a message to this status.
var moves = map[entity.Status]func(*entity.Message, time.Time) error{
	entity.Retrying: (*entity.Message).MarkRetrying,
	entity.Resolved: (*entity.Message).MarkResolved,
	entity.Pending:  (*entity.Message).MarkPending,
	entity.Dead:     (*entity.Message).MarkDead,
}

func TestMark(t *testing.T) {
	t.Parallel()
	later := begin.Add(time.Hour)
	laterKept := beginKept.Add(time.Hour)

	t.Run("RetryingStartsAnAttempt", func(t *testing.T) {
		t.Parallel()
		m := message(entity.Pending, 0, 3)
		check.NoError(t, m.MarkRetrying(later))
		if m.Status != entity.Retrying || m.RetryCount != 1 || m.LastRetryAt != laterKept || m.UpdatedAt != laterKept {
			t.Errorf("MarkRetrying: %s, %d attempts, last %v, updated %v, want RETRYING, 1, and %v twice",
				m.Status, m.RetryCount, m.LastRetryAt, m.UpdatedAt, laterKept)
		}
		check.True(t, m.CreatedAt == beginKept, "MarkRetrying moved CreatedAt to %v, want %v", m.CreatedAt, beginKept)
	})

	endings := map[string]struct {
		from, to entity.Status
	}{
		"ResolvedEndsAnAttempt":   {entity.Retrying, entity.Resolved},
		"PendingGivesAnAttemptUp": {entity.Retrying, entity.Pending},
		"PendingRequeuesTheDead":  {entity.Dead, entity.Pending},
		"DeadEndsAnAttempt":       {entity.Retrying, entity.Dead},
		"DeadMayComeFromPending":  {entity.Pending, entity.Dead},
	}
	for name, c := range endings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := message(c.from, 2, 3)
			want := m
			want.Status, want.UpdatedAt = c.to, laterKept
			check.NoError(t, moves[c.to](&m, later))
			if !reflect.DeepEqual(m, want) {
				t.Errorf("%s to %s = %+v, want %+v", c.from, c.to, m, want)
			}
		})
	}

	for _, from := range entity.Statuses() {
		for to, move := range moves {
			if from.CanMoveTo(to) {
				continue
			}
			t.Run(fmt.Sprintf("IllegalIsAnErrorAndChangesNothing/%sTo%s", from, to), func(t *testing.T) {
				t.Parallel()
				m := message(from, 1, 3)
				before := m
				err := move(&m, later)
				if !errors.Is(err, entity.ErrConflict) {
					t.Errorf("%s to %s = %v, want a conflict", from, to, err)
				}
				if !reflect.DeepEqual(m, before) {
					t.Errorf("%s to %s left %+v, want %+v", from, to, m, before)
				}
			})
		}
	}

	t.Run("IllegalNamesBothEnds", func(t *testing.T) {
		t.Parallel()
		m := message(entity.Resolved, 1, 3)
		var got *entity.TransitionError
		if err := m.MarkDead(later); !errors.As(err, &got) || got.From != entity.Resolved || got.To != entity.Dead {
			t.Errorf("MarkDead of RESOLVED = %v, want a TransitionError from RESOLVED to DEAD", err)
		}
	})

	t.Run("RetryingAtTheLimitIsAnErrorAndChangesNothing", func(t *testing.T) {
		t.Parallel()
		m := message(entity.Pending, 3, 3)
		before := m
		var got *entity.NotRetryableError
		if err := m.MarkRetrying(later); !errors.As(err, &got) {
			t.Fatalf("MarkRetrying at 3/3 = %v, want a NotRetryableError", err)
		}
		if want := (entity.NotRetryableError{Status: entity.Pending, RetryCount: 3, MaxRetries: 3}); *got != want {
			t.Errorf("MarkRetrying at 3/3 = %+v, want %+v", *got, want)
		}
		if !reflect.DeepEqual(m, before) {
			t.Errorf("MarkRetrying at 3/3 left %+v, want %+v", m, before)
		}
	})
}

func TestCanClaim(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name       string
		status     entity.Status
		count, max int
		want       bool
	}{
		{"Pending", entity.Pending, 0, 3, true},
		{"PendingWithTheLastAttemptLeft", entity.Pending, 2, 3, true},
		{"PendingAtTheLimit", entity.Pending, 3, 3, false},
		{"PendingBeyondTheLimit", entity.Pending, 4, 3, false},
		{"PendingWithoutAnyAttemptAllowed", entity.Pending, 0, 0, false},
		{"Retrying", entity.Retrying, 1, 3, false},
		{"RetryingAtTheLimit", entity.Retrying, 3, 3, false},
		{"Resolved", entity.Resolved, 1, 3, false},
		{"Dead", entity.Dead, 3, 3, false},
		{"DeadWithAttemptsLeft", entity.Dead, 0, 3, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := message(c.status, c.count, c.max)
			if err := m.CanClaim(); (err == nil) != c.want {
				t.Errorf("CanClaim() = %v, want claimable = %v", err, c.want)
			}
		})
	}
}

func TestIsFinal(t *testing.T) {
	t.Parallel()
	for _, s := range entity.Statuses() {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			m := message(s, 0, 3)
			want := s == entity.Resolved || s == entity.Dead
			if got := m.IsFinal(); got != want {
				t.Errorf("IsFinal() = %v, want %v", got, want)
			}
			if got := !m.FinishedAt().IsZero(); got != want {
				t.Errorf("FinishedAt() = %v, want set: %v", m.FinishedAt(), want)
			}
			if got := m.Claimed(); got != (s == entity.Retrying) {
				t.Errorf("Claimed() = %v, want it in RETRYING only", got)
			}
		})
	}

	t.Run("FinishedAtIsTheLastMove", func(t *testing.T) {
		t.Parallel()
		m := message(entity.Pending, 0, 3)
		check.NoError(t, m.MarkDead(begin.Add(time.Minute)))
		if got, want := m.FinishedAt(), beginKept.Add(time.Minute); got != want {
			t.Errorf("FinishedAt() = %v, want %v", got, want)
		}
	})
}

func TestSourceKnown(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		source entity.Source
		want   bool
	}{
		"ZeroIsNot":        {entity.Source{}, false},
		"ByName":           {entity.Source{Topic: "orders.dlq.v1"}, true},
		"ByNumber":         {entity.Source{TopicID: 1}, true},
		"OffsetAloneIsNot": {entity.Source{Offset: 7, Partition: 1}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.source.Known(); got != c.want {
				t.Errorf("Known() = %v, want %v", got, c.want)
			}
		})
	}
}
