package rest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// activityFixture has messages with two original topics and with an unknown one: at each of six times, one of each
// arrived. One message of each topic is a return.
func activityFixture() *fixture {
	f := newFixture()
	for i, ago := range []time.Duration{0, 4 * time.Minute, 59 * time.Minute, 61 * time.Minute, 25 * time.Hour, 6 * 24 * time.Hour} {
		for n, topic := range []string{topicA, topicB, ""} {
			f.memory.Insert(message(entity.NewID(), at(noon.Add(-ago)), func(m *entity.Message) {
				m.OriginalTopic = topic
				if i == n {
					m.Parent, m.Root = uuid.New(), uuid.New()
				}
			}))
		}
	}
	f.index(nil)
	return f
}

type activity struct {
	Span        string
	StepSeconds int64 `json:"step_seconds"`
	Points      []struct {
		At                time.Time
		Arrived, Returned int64
	}
	CountedUntil *time.Time `json:"counted_until"`
}

func (a activity) sums() (arrived, returned int64) {
	for _, p := range a.Points {
		arrived, returned = arrived+p.Arrived, returned+p.Returned
	}
	return arrived, returned
}

func (f *fixture) activity(t *testing.T, who, query string) (a activity) {
	t.Helper()
	w := f.by(who, "GET", "/api/v1/activity"+query, "")
	if err := json.Unmarshal(w.Body.Bytes(), &a); w.Code != 200 || err != nil {
		t.Fatalf("%s: got %d %s, %v, want points", query, w.Code, w.Body, err)
	}
	return a
}

func TestActivity(t *testing.T) {
	t.Parallel()
	f := activityFixture().guarded(person("root", "*", auth.Viewer))
	hour, five := int64(3600), int64(300)
	for _, c := range []struct {
		query, span             string
		points                  int
		step, arrived, returned int64
		last                    int64 // expected number of arrivals in the last time step
	}{
		{"", "day", 24, hour, 12, 3, 6},
		{"?span=day", "day", 24, hour, 12, 3, 6},
		{"?span=hour", "hour", 12, five, 6, 2, 3},
		{"?span=hour&step=minute", "hour", 60, 60, 9, 3, 3},
		{"?span=week", "week", 7 * 24, hour, 18, 3, 6},
		{"?span=week&topic=" + topicA, "week", 7 * 24, hour, 6, 1, 2},
		{"?topic=nobody", "day", 24, hour, 0, 0, 0},
	} {
		a := f.activity(t, "root", c.query)
		arrived, returned := a.sums()
		if a.Span != c.span || len(a.Points) != c.points || a.StepSeconds != c.step || arrived != c.arrived || returned != c.returned {
			t.Errorf("%s: got %s, %d points of %d s, %d arrived, %d returned, want %+v", c.query, a.Span, len(a.Points), a.StepSeconds, arrived,
				returned, c)
		}
		last := a.Points[len(a.Points)-1]
		if want := noon.UTC().Truncate(time.Duration(c.step) * time.Second); !last.At.Equal(want) || last.Arrived != c.last {
			t.Errorf("%s: the last point is %+v, want %d at %v", c.query, last, c.last, want)
		}
		for i := range a.Points[1:] {
			if d := a.Points[i+1].At.Sub(a.Points[i].At); d != time.Duration(c.step)*time.Second {
				t.Errorf("%s: %v between two points, want the step", c.query, d)
			}
		}
		if a.CountedUntil == nil || a.CountedUntil.After(noon) {
			t.Errorf("%s: counted until %v, want a moment ago", c.query, a.CountedUntil)
		}
	}
	if a := newFixture(message(idA)).guarded(person("root", "*", auth.Viewer)).activity(t, "root", ""); a.CountedUntil != nil || len(a.Points) != 24 {
		t.Errorf("before counting starts: %+v, want points and null", a)
	}
}

// Messages that the caller may not see are not counted.
func TestActivity_IsOfVisibleTopics(t *testing.T) {
	t.Parallel()
	f := activityFixture().guarded(person("root", "*", auth.Viewer), person("ana", "orders.*", auth.Viewer),
		person("both", "orders.*,payments.*", auth.Viewer), person("bob", "shared.*", auth.Viewer))
	for _, c := range []struct {
		who, query string
		want       int64
	}{
		{"root", "", 18},
		{"ana", "", 6},
		{"both", "", 12},
		{"bob", "", 0},
		{"ana", "&topic=" + topicA, 6},
		{"ana", "&topic=" + topicB, 0},
		{"root", "&topic=" + topicB, 6},
	} {
		if got, _ := f.activity(t, c.who, "?span=week"+c.query).sums(); got != c.want {
			t.Errorf("%s%s: %d arrived, want %d", c.who, c.query, got, c.want)
		}
	}
}
