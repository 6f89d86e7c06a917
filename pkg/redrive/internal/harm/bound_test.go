package harm

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestNextBound(t *testing.T) {
	t.Parallel()
	const wait = time.Minute
	sent := time.Now()
	full := entity.TopicBound{Bound: 20, Admitted: 20, AdmittedAt: sent}
	with := func(change func(*entity.TopicBound)) entity.TopicBound {
		b := full
		change(&b)
		return b
	}
	for _, c := range []struct {
		name   string
		b      entity.TopicBound
		hidden bool
		after  time.Duration
		want   entity.TopicBound
	}{
		{"NothingKnown", full, false, time.Hour, full},
		{"OneTooFewIsKnown", with(func(b *entity.TopicBound) { b.Known = 19 }), false, 0, with(func(b *entity.TopicBound) { b.Known = 19 })},
		{
			"AsManyAsTheBoundAreKnown", with(func(b *entity.TopicBound) { b.Known = 20 }), false, 0,
			with(func(b *entity.TopicBound) { b.Known, b.Counted, b.Bound = 20, 20, 40 }),
		},
		{
			"CountsFromTheLastChange", with(func(b *entity.TopicBound) { b.Bound, b.Counted, b.Known, b.Admitted = 40, 20, 59, 90 }), false, 0,
			with(func(b *entity.TopicBound) { b.Bound, b.Counted, b.Known, b.Admitted = 40, 20, 59, 90 }),
		},
		{"HiddenBeforeTheWaitIsOver", full, true, wait - 1, full},
		{
			"HiddenAndNoneCameBack", full, true, wait,
			with(func(b *entity.TopicBound) { b.Presumed, b.Counted, b.Bound, b.Looks = 20, 20, 40, 1 }),
		},
		{
			"HiddenAndNotFull", with(func(b *entity.TopicBound) { b.Admitted = 19 }), true, time.Hour,
			with(func(b *entity.TopicBound) { b.Admitted = 19 }),
		},
		{
			"ThirdLookLiftsTheBound", with(func(b *entity.TopicBound) { b.Looks, b.Bound, b.Admitted, b.Presumed = 2, 80, 140, 60 }), true, wait,
			with(func(b *entity.TopicBound) {
				b.Looks, b.Bound, b.Admitted, b.Presumed, b.Lifted = 3, 80, 140, 140, entity.BoundUnknown
			}),
		},
		{
			"PresumedThatBecameKnownCountOnce", with(func(b *entity.TopicBound) {
				b.Bound, b.Admitted, b.Known, b.Presumed, b.Counted, b.Looks = 80, 140, 110, 60, 60, 2
			}), false, 0,
			with(func(b *entity.TopicBound) {
				b.Bound, b.Admitted, b.Known, b.Presumed, b.Counted, b.Looks = 160, 140, 110, 30, 140, 2
			}),
		},
		{
			"LiftedStaysLifted", with(func(b *entity.TopicBound) { b.Lifted, b.Known = entity.BoundContinued, 20 }), true, time.Hour,
			with(func(b *entity.TopicBound) { b.Lifted, b.Known = entity.BoundContinued, 20 }),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			check.Equal(t, NextBound(c.b, c.hidden, wait, sent.Add(c.after)), c.want, "bound")
		})
	}
}
