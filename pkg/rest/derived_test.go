package rest

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// derivedJSON says where a value was learnt, as encoding/json writes it.
type derivedJSON struct {
	Source     entity.DerivedFrom `json:"source"`
	Dialect    *string            `json:"dialect"`
	Header     *string            `json:"header"`
	Occurrence *int               `json:"occurrence"`
	Confidence entity.Certainty   `json:"confidence"`
}

type hopJSON struct {
	Dialect   *string `json:"dialect"`
	Topic     *string `json:"topic"`
	Partition *int32  `json:"partition"`
	Offset    *int64  `json:"offset"`
}

// explanationJSON is what a single message has beside what it has in lists.
type explanationJSON struct {
	Derived map[string]derivedJSON `json:"derived"`
	Hops    []hopJSON              `json:"hops"`
}

func showExplanation(e entity.Explanation) explanationJSON {
	shown := explanationJSON{Derived: map[string]derivedJSON{}, Hops: []hopJSON{}}
	for field, d := range e.Fields() {
		if d.Source == "" {
			d = entity.NotDerived()
		}
		one := derivedJSON{Source: d.Source, Dialect: orNull(d.Dialect), Header: orNull(d.Header), Confidence: d.Confidence}
		if d.Header != "" {
			one.Occurrence = &d.Occurrence
		}
		shown.Derived[field] = one
	}
	for _, h := range e.Hops {
		shown.Hops = append(shown.Hops, hopJSON{orNull(h.Dialect), orNull(h.Topic), h.Partition, h.Offset})
	}
	return shown
}

func TestExplanationIsWrittenAsEncodingJSONDoes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // no secrets
	texts := []string{"", "spring-dlt", "a \"quoted\" header", "\u202eevil\n", "broken \xff\xfe", "<&>\u2028"}
	text := func() string { return texts[random.IntN(len(texts))] }
	derived := func() entity.Derived {
		return entity.Derived{
			Source: entity.DerivedFrom(text()), Dialect: text(), Header: text(), Occurrence: random.IntN(3), Confidence: entity.Certainty(text()),
		}
	}
	for range 2000 {
		e := entity.Explanation{
			OriginalTopic: derived(), OriginalPartition: derived(), OriginalOffset: derived(), OriginalTimestamp: derived(), ErrorMessage: derived(),
			ErrorClass: derived(), StackTrace: derived(), ConsumerGroup: derived(), ConsumerAttempts: derived(),
		}
		for range random.IntN(3) {
			h := entity.Hop{Dialect: text(), Topic: text()}
			if random.IntN(2) == 0 {
				partition, offset := random.Int32(), random.Int64()
				h.Partition, h.Offset = &partition, &offset
			}
			e.Hops = append(e.Hops, h)
		}
		got, want := append(appendExplanation([]byte{'{'}, e), '}'), encode(showExplanation(e))
		if !bytes.Equal(got, want) {
			t.Fatalf("explanation\n got %s\nwant %s", got, want)
		}
	}
}

func TestTimesAreWrittenAsFormatDoes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // no secrets
	check := func(at time.Time) {
		t.Helper()
		got, want := string(appendStamp(nil, at)), `"`+at.UTC().Format(timeLayout)+`"`
		if got != want {
			t.Fatalf("time = %s, want %s", got, want)
		}
	}
	for _, year := range []int{0, 1, 999, 1970, 9999} {
		check(time.Date(year, 2, 28, 23, 59, 59, 999_999_999, time.FixedZone("", 5*3600)))
	}
	for _, year := range []int{-1, 10000, 178137} { // RFC 3339 has none of these
		at := time.Date(year, 2, 28, 23, 59, 59, 0, time.UTC)
		if got := string(appendStamp(nil, at)); got != "null" || stamp(at) != nil || string(cellTime(nil, at)) != "," {
			t.Fatalf("time of the year %d = %s, want null", year, got)
		}
	}
	for range 20_000 {
		check(time.Unix(random.Int64N(253402300800+62135596800)-62135596800, random.Int64N(1e9)))
	}
}

func TestIDsAreWrittenAsTheirTextIs(t *testing.T) {
	t.Parallel()
	for range 100 {
		id := uuid.New()
		if got, want := string(appendID(nil, id)), `"`+id.String()+`"`; got != want {
			t.Fatalf("id = %s, want %s", got, want)
		}
	}
}
