package groups

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
)

var noon = time.Date(2026, 2, 20, 12, 0, 0, 0, time.UTC)

func TestTrendDraw(t *testing.T) {
	t.Parallel()
	at := func(hours int) time.Time { return noon.Add(time.Duration(hours) * time.Hour) }
	got := trendDay.draw(noon, []api.Hour{{Hour: at(0), Messages: 1}, {Hour: at(-23), Messages: 24}, {Hour: at(-24), Messages: 99}, {Hour: at(1), Messages: 99}})
	if got.Total != 25 || got.Most != 24 || len(got.Buckets) != 24 || got.Width != 95 {
		t.Errorf("got %d in %d buckets, at most %d, %d wide, want 25 in 24, at most 24, 95 wide", got.Total, len(got.Buckets), got.Most, got.Width)
	}
	if want := "M0 24h3v-24h-3zM92 24h3v-1h-3z"; got.Path != want {
		t.Errorf("got %s, want the first and the last hour: %s", got.Path, want)
	}
	if week := trendWeek.draw(noon, []api.Hour{{Hour: at(0), Messages: 1}, {Hour: at(-4), Messages: 2}}); week.Most != 3 || len(week.Arrivals()) != 1 {
		t.Errorf("got at most %d in %d buckets, want both in one of six hours", week.Most, len(week.Arrivals()))
	}
	if empty := trendDay.draw(noon, nil); empty.Path != "" || empty.Words != "0 arrivals in 24 hours" {
		t.Errorf("got %+v, want nothing drawn", empty)
	}
}
