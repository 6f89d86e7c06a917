package postgres

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// fullSelection sets every field that a filter has.
func fullSelection(t *testing.T) entity.Selection {
	t.Helper()
	patterns := func(texts ...string) entity.TopicPatterns {
		p, err := entity.ParseTopicPatterns("topics", texts...)
		wantNil(t, err)
		return p
	}
	at := entity.Moment(time.Now())
	visible := patterns("orders", "*.dlq").And(patterns("^.*dlq$")).And(entity.TopicPatterns{})
	return entity.Selection{Filter: entity.Filter{
		Topic: "orders", Topics: patterns("orders*", "^pay(ments)?$"), Statuses: []entity.Status{entity.Pending, entity.Dead},
		ErrorClass: "Timeout", ConsumerGroup: "billing", Dialect: "spring-dlt", Group: uuid.New(), UnknownOrigin: true,
		CreatedAfter: at, CreatedBefore: at.Add(1), RetriedAfter: at.Add(time.Second), RetriedBefore: at.Add(time.Hour),
		Key:     []byte{0, 0xff},
		Headers: []entity.HeaderMatch{{Name: "a"}, {Name: "b", Value: []byte{0xfe}}, {Name: "c", Value: []byte{}}},
		Fields:  []entity.FieldMatch{{Path: "$.a"}, {Path: "$.b[*]", Values: []string{"1", `"x"`}}},
		Words:   []string{"timeout", "two words"}, Visible: &visible,
	}}
}

// TestRedriveJSON: what a redrive was asked for is kept whole, so that everybody
// sees what it means.
func TestRedriveJSON(t *testing.T) {
	t.Parallel()

	t.Run("KeepsEveryFieldOfASelection", func(t *testing.T) {
		t.Parallel()
		want := fullSelection(t)
		want.CreatedBefore = entity.Moment(want.CreatedBefore)
		filter := reflect.ValueOf(want.Filter)
		for i := range filter.NumField() {
			if filter.Field(i).IsZero() {
				t.Errorf("the test sets no %s, want every field", filter.Type().Field(i).Name)
			}
		}
		wantSelectionKept(t, want)
	})

	t.Run("KeepsNothingAndEmptyApart", func(t *testing.T) {
		t.Parallel()
		wantSelectionKept(t, entity.Selection{})
		wantSelectionKept(t, entity.Selection{Filter: entity.Filter{Key: []byte{}}})
		wantSelectionKept(t, entity.Selection{Filter: entity.Filter{Visible: &entity.TopicPatterns{}}})
	})

	t.Run("ReadsWhatEarlierReleasesKept", func(t *testing.T) {
		t.Parallel()
		got, err := unpackSelection([]byte(`{"ids": 3, "topic": "orders", "statuses": ["DEAD"], "error_class": "Timeout",
			"consumer_group": "billing", "created_after": "2026-01-02T03:04:05.000006Z"}`))
		want := entity.Selection{Filter: entity.Filter{
			Topic: "orders", Statuses: []entity.Status{entity.Dead}, ErrorClass: "Timeout", ConsumerGroup: "billing",
			CreatedAfter: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
		}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	})

	t.Run("KeepsEveryOption", func(t *testing.T) {
		t.Parallel()
		want := entity.RedriveOptions{
			Canary: 1, CanaryWait: time.Second, Rate: 0.5, MaxFailureShare: 0.1, MaxReturnShare: 0.2, MinSample: 3,
			KeepKeyOrder: true, Requeue: true, OriginalTopic: "orders", Patch: []byte(`[{"op":"remove","path":"/a"}]`),
		}
		options := reflect.ValueOf(want)
		for i := range options.NumField() {
			if options.Field(i).IsZero() {
				t.Errorf("the test sets no %s, want every option", options.Type().Field(i).Name)
			}
		}
		text, err := packOptions(want)
		wantNil(t, err)
		got, err := unpackOptions([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

func wantSelectionKept(t *testing.T, want entity.Selection) {
	t.Helper()
	text, err := packSelection(want)
	wantNil(t, err)
	got, err := unpackSelection([]byte(text))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v as kept in %s", got, err, want, text)
	}
}

// TestPatchedRetry: a program of before, which shares the redrives during a
// roll-out, must not send unpatched what was to be patched.
func TestPatchedRetry(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	store := New(db)
	seedTen(t, db, "PENDING", "2026-01-01 00:00:00+00")
	for _, c := range []struct {
		name   string
		patch  []byte
		stored string
	}{
		{"Plain", nil, "retry"},
		{"Patched", []byte(`[{"op":"remove","path":"/order"}]`), "retry_patched"},
	} {
		made, err := store.CreateRedrive(t.Context(), repository.NewRedrive{
			ID: uuid.New(), Action: entity.RedriveRetry, Cause: entity.By("a"), BatchSize: 10,
			Selection: entity.Selection{Filter: entity.Filter{Topic: "orders"}}, Options: entity.RedriveOptions{Patch: c.patch},
		})
		wantNil(t, err)
		var stored string
		wantNil(t, db.Get(&stored, `SELECT action FROM dlq.redrives WHERE id = $1`, made.ID))
		if stored != c.stored {
			t.Errorf("%s: stored as %q, want %q", c.name, stored, c.stored)
		}
		listed, err := store.Redrives(t.Context(), repository.RedriveQuery{Limit: 1})
		wantNil(t, err)
		for _, got := range append(listed, made) {
			if got.ID != made.ID || got.Action != entity.RedriveRetry || string(got.Options.Patch) != string(c.patch) {
				t.Errorf("%s: got %s of %s with patch %s, want a retry with %s", c.name, got.Action, got.ID, got.Options.Patch, c.patch)
			}
		}
	}
}
