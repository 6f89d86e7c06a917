package wire

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// A redrive shows its progress, its rate and the time that it still needs. Values that are unknown are null.
func TestRedrive_Progress(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
	base := entity.Redrive{State: entity.RedriveRunning, CreatedAt: noon, Selected: 10, Counts: entity.RedriveCounts{Waiting: 4}}
	change := func(f func(*entity.Redrive)) entity.Redrive { r := base; f(&r); return r }
	for _, c := range []struct {
		name     string
		redrive  entity.Redrive
		after    time.Duration
		progress float64
		rate     float64
		left     string
	}{
		{"Running", base, 4 * time.Second, 0.6, 1.5, "3"},
		{"AtOnce", base, 0, 0.6, 0, "null"},
		{"ClockBehind", base, -time.Hour, 0.6, 0, "null"},
		{"LeftOutTakesNoTime", change(func(r *entity.Redrive) { r.LeftOut = 6 }), 4 * time.Second, 0.6, 0, "null"},
		{"Paused", change(func(r *entity.Redrive) {
			r.State, r.UpdatedAt = entity.RedrivePaused, noon.Add(4*time.Second)
		}), time.Hour, 0.6, 1.5, "null"},
		{"Stopped", change(func(r *entity.Redrive) {
			r.State, r.UpdatedAt = entity.RedriveStopped, noon.Add(2*time.Second)
		}), time.Hour, 0.6, 3, "null"},
		{"Canary", change(func(r *entity.Redrive) { r.State = entity.RedriveCanary }), 4 * time.Second, 0.6, 1.5, "null"},
		{"Waiting", change(func(r *entity.Redrive) { r.WaitingSince = noon }), 4 * time.Second, 0.6, 1.5, "null"},
		{"Cancelled", change(func(r *entity.Redrive) {
			r.State, r.EndedAt = entity.RedriveCancelled, noon.Add(2*time.Second)
		}), time.Hour, 0.6, 3, "0"},
		{"Finished", change(func(r *entity.Redrive) {
			r.State, r.EndedAt, r.Counts.Waiting = entity.RedriveFinished, noon.Add(3*time.Second), 0
		}), time.Hour, 1, 3.333, "0"},
		{"Nothing", entity.Redrive{State: entity.RedriveFinished, CreatedAt: noon, EndedAt: noon}, time.Hour, 1, 0, "0"},
		{"NearlyAll", change(func(r *entity.Redrive) { r.Selected, r.Counts.Waiting = 1_000_000, 1 }), 1000 * time.Second, 0.9999, 999.999, "1"},
	} {
		got := NewRedrive(c.redrive, noon.Add(c.after), plain.Masking)
		if left := string(Encode(got.SecondsLeft)); got.Progress != c.progress || got.Rate != c.rate || left != c.left || (got.WaitingSince == nil) != c.redrive.WaitingSince.IsZero() {
			t.Errorf("%s: progress %v, rate %v, left %s; want %v, %v, %s", c.name, got.Progress, got.Rate, left, c.progress, c.rate, c.left)
		}
	}
}
