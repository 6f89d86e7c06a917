package wire

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestExplanationIsWrittenAsEncodingJSONDoes(t *testing.T) {
	t.Parallel()
	named := func(text string) entity.Derived {
		return entity.Derived{Source: entity.ByHeader, Dialect: text, Header: text, Confidence: "high"}
	}
	e := entity.Explanation{
		OriginalTopic: named("original_topic"), OriginalPartition: named("original_partition"), OriginalOffset: named("original_offset"),
		OriginalTimestamp: named("original_timestamp"), ErrorMessage: named("error_message"), ErrorClass: named("error_class"),
		StackTrace: named("stack_trace"), ConsumerGroup: named("consumer_group"), ConsumerAttempts: named("consumer_attempts"),
	}
	got := appendExplanation([]byte{'{'}, e)
	for field := range e.Fields() {
		if want := `"` + field + `":{"source":"header","dialect":"` + field + `",`; !strings.Contains(string(got), want) {
			t.Errorf("explanation %s, want in it %s", got, want)
		}
	}
	for _, text := range []string{"", "spring-dlt", "a \"quoted\" header", "\u202eevil\n", "broken \xff\xfe", "<&>\u2028"} {
		e.ErrorClass, e.Hops = entity.Derived{Source: entity.DerivedFrom(text), Dialect: text, Confidence: entity.Certainty(text)},
			[]entity.Hop{{Dialect: text, Topic: text}, {}}
		e.StackTrace.Header = text
		wantEncoded(t, append(appendExplanation([]byte{'{'}, e), '}'))
	}
}

func TestTimesAreWrittenAsFormatDoes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the test needs no secret numbers
	check := func(at time.Time) {
		t.Helper()
		got, want := string(appendStamp(nil, at)), `"`+at.UTC().Format(TimeLayout)+`"`
		if got != want {
			t.Fatalf("time = %s, want %s", got, want)
		}
	}
	for _, year := range []int{0, 1, 999, 1970, 9999} {
		check(time.Date(year, 2, 28, 23, 59, 59, 999_999_999, time.FixedZone("", 5*3600)))
	}
	for _, year := range []int{-1, 10000, 178137} { // none of these is valid in RFC 3339
		at := time.Date(year, 2, 28, 23, 59, 59, 0, time.UTC)
		if got := string(appendStamp(nil, at)); got != "null" || Stamp(at) != nil {
			t.Fatalf("time of the year %d = %s, want null", year, got)
		}
	}
	for range 20_000 {
		check(time.Unix(random.Int64N(253402300800+62135596800)-62135596800, random.Int64N(1e9)))
	}
}
