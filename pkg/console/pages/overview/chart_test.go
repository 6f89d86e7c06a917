package overview

import (
	"testing"
	"time"
)

func TestAxisTop(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]int64{0: 2, 1: 2, 2: 2, 3: 4, 5: 10, 11: 20, 41: 100, 1649: 2000, 4001: 10000} {
		if got := axisTop(n); got != want {
			t.Errorf("axisTop(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestDraw(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	a := activity{StepSeconds: 60, CountedUntil: at(-1), Points: []activityPoint{{at(-2), 0, 0}, {at(-1), 40, 10}, {at(0), 1, 0}}}
	c := a.draw(at(0), "")
	if c.Top != 40 || c.Half() != 20 || c.Bars[0].Tall != 0 || c.Bars[1].Tall != 1000 || c.Bars[1].Low != 250 || c.Bars[2].Tall != 25 {
		t.Errorf("got %+v, want an axis up to 40 and bars of 0, 1000 with 250, and 25", c)
	}
	if b := c.Bars[1]; b.Words != "11:59 UTC: 40 arrived, 10 of them failed again" ||
		b.Link != "/messages?created_after=2026-02-20T11%3A59%3A00.000Z&created_before=2026-02-20T12%3A00%3A00.000Z" || c.Bars[0].Link != "" {
		t.Errorf("got %q to %q, want the minute's messages", b.Words, b.Link)
	}
	if !c.Late || len(c.Latest()) != 2 || c.Latest()[0].Arrived != 1 || c.Labels[0] != "11:58" || c.Labels[6] != "12:01" {
		t.Errorf("got %+v, want late counts, two bars with arrivals, and labels from 11:58 to 12:01", c)
	}
}

// since adds up the minutes that begin in a range. From fifteen minutes before a minute until the end of this minute
// there are sixteen.
func TestSince(t *testing.T) {
	t.Parallel()
	a := activity{StepSeconds: 60}
	for i := range 60 {
		a.Points = append(a.Points, activityPoint{At: noon.Add(time.Duration(i-59) * time.Minute), Arrived: 1, Returned: int64(i % 2)})
	}
	if now, before := a.since(noon.Add(-15*time.Minute), noon.Add(time.Minute)), a.since(noon.Add(-30*time.Minute), noon.Add(-15*time.Minute)); now.Arrived != 16 || before.Arrived != 15 || now.Returned != 8 {
		t.Errorf("got %+v and %+v before, want 16 steps, 8 of them with a return, and 15", now, before)
	}
}
