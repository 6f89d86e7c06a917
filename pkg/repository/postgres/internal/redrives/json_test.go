package redrives

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// fullSelection returns a selection in which every field of the filter is set.
func fullSelection(t *testing.T) entity.Selection {
	t.Helper()
	patterns := func(texts ...string) entity.TopicPatterns {
		p := check.Must(entity.ParseTopicPatterns("topics", texts...))(t)
		return p
	}
	at := entity.TruncateTime(time.Now())
	visible := patterns("orders", "*.dlq").And(patterns("^.*dlq$")).And(entity.TopicPatterns{})
	return entity.Selection{Filter: entity.Filter{
		MessageIDs: []uuid.UUID{uuid.New(), uuid.New()}, Topic: "orders", Topics: patterns("orders*", "^pay(ments)?$"), Statuses: []entity.Status{entity.Pending, entity.Dead},
		ErrorClass: "Timeout", ConsumerGroup: "billing", Dialect: "spring-dlt", Group: uuid.New(), UnknownOrigin: true, HiddenKeys: true,
		CreatedAfter: at, CreatedBefore: at.Add(1), RetriedAfter: at.Add(time.Second), RetriedBefore: at.Add(time.Hour),
		Key:     []byte{0, 0xff},
		Headers: []entity.HeaderMatch{{Name: "a"}, {Name: "b", Value: []byte{0xfe}}, {Name: "c", Value: []byte{}}},
		Fields:  []entity.FieldMatch{{Path: "$.a"}, {Path: "$.b[*]", Values: []string{"1", `"x"`}}},
		Words:   []string{"timeout", "two words"}, Visible: &visible,
	}}
}

// TestRedriveJSON: the filter and the options of a redrive are read back from JSON as they were stored, with every
// field.
func TestRedriveJSON(t *testing.T) {
	t.Parallel()

	postgrestest.Parallel(t, "KeepsEveryFieldOfASelection", func(t *testing.T) {
		want := fullSelection(t)
		want.CreatedBefore = entity.TruncateTime(want.CreatedBefore)
		filter := reflect.ValueOf(want.Filter)
		for i := range filter.NumField() {
			check.True(t, !filter.Field(i).IsZero(), "the test sets no %s, want every field", filter.Type().Field(i).Name)
		}
		wantSelectionKept(t, want)
	})

	postgrestest.Parallel(t, "KeepsNothingAndEmptyApart", func(t *testing.T) {
		wantSelectionKept(t, entity.Selection{})
		wantSelectionKept(t, entity.Selection{Filter: entity.Filter{Key: []byte{}}})
		wantSelectionKept(t, entity.Selection{Filter: entity.Filter{Visible: &entity.TopicPatterns{}}})
	})

	postgrestest.Parallel(t, "ReadsWhatEarlierReleasesKept", func(t *testing.T) {
		got, err := unpackSelection([]byte(`{"ids": 3, "topic": "orders", "statuses": ["DEAD"], "error_class": "Timeout",
			"consumer_group": "billing", "created_after": "2026-01-02T03:04:05.000006Z"}`))
		want := entity.Selection{Filter: entity.Filter{
			Topic: "orders", Statuses: []entity.Status{entity.Dead}, ErrorClass: "Timeout", ConsumerGroup: "billing",
			CreatedAfter: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
		}}
		check.True(t, err == nil && reflect.DeepEqual(got, want), "got %+v, %v, want %+v", got, err, want)
	})

	postgrestest.Parallel(t, "KeepsEveryOption", func(t *testing.T) {
		want := entity.RedriveOptions{
			Canary: 1, CanaryWait: time.Second, Rate: 0.5, MaxFailureShare: 0.1, MaxReturnShare: 0.2, MinSample: 3,
			KeepKeyOrder: true, Requeue: true, AcceptEnvelope: true, KeepsMasked: true, OriginalTopic: "orders", Patch: []byte(`[{"op":"remove","path":"/a"}]`), Schema: entity.LatestSchema,
		}
		options := reflect.ValueOf(want)
		for i := range options.NumField() {
			check.True(t, !options.Field(i).IsZero(), "the test sets no %s, want every option", options.Type().Field(i).Name)
		}
		text := check.Must(packOptions(want))(t)
		got, err := unpackOptions([]byte(text))
		check.True(t, err == nil && reflect.DeepEqual(got, want), "got %+v, %v, want %+v", got, err, want)
	})
}

func wantSelectionKept(t *testing.T, want entity.Selection) {
	t.Helper()
	text := check.Must(packSelection(want))(t)
	got, err := unpackSelection([]byte(text))
	check.True(t, err == nil && reflect.DeepEqual(got, want), "got %+v, %v, want %+v as kept in %s", got, err, want, text)
}
