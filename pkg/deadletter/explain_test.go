package deadletter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// TestExplainAgreesWithDecode: for each case in testdata, Explain names a source exactly for the values that Decode
// returns, and the value of a header that Explain names can be read as Decode's value.
func TestExplainAgreesWithDecode(t *testing.T) {
	t.Parallel()
	files := check.Must(filepath.Glob("testdata/*/*.json"))(t)
	told := map[entity.DerivedFrom]int{}
	for _, file := range files {
		g := readGolden(t, file)
		d := g.decoder(t)
		rec := entity.Record{Key: g.Key, Value: g.Value, Headers: asHeaders(g.Headers)}
		exists := func(topic string) bool { return slices.Contains(g.Exists, topic) }
		r := d.Decode(g.Topic, rec, g.Timestamp, exists)
		e := d.Explain(g.Topic, rec, g.Timestamp, exists)
		for name, derived := range e.Fields() {
			told[derived.Source]++
			problem := disagrees(g, r, rec, name, derived)
			check.True(t, problem == "", "%s: %s %+v: %s", file, name, derived, problem)
		}
		check.True(t, sameSource(e.OriginalTopic.Source, r.Origin.Confidence),
			"%s: original topic by %s, want %s", file, e.OriginalTopic.Source, r.Origin.Confidence)
	}
	for _, from := range []entity.DerivedFrom{entity.ByMapping, entity.ByHeader, entity.ByCompanion, entity.ByName, entity.ByRecord, entity.ByNothing} {
		check.True(t, told[from] != 0, "no case derives anything by %s", from)
	}
}

func disagrees(g golden, r Reading, rec entity.Record, name string, derived entity.Derived) string {
	want := valuesOf(r)[name]
	known := want != "" && !(name == "error_message" && derived.Source == entity.ByNothing && want == entity.UnknownError)
	switch {
	case known != (derived.Source != entity.ByNothing):
		return fmt.Sprintf("value %q", want)
	case (derived.Source == entity.ByNothing) != (derived.Confidence == entity.CertaintyNone):
		return "the confidence does not fit"
	case derived.Header == "":
		if derived.Source == entity.ByHeader || derived.Source == entity.ByCompanion {
			return "no header is named"
		}
		return ""
	}
	i := headers(rec.Headers).nthIndex(derived.Header, derived.Occurrence)
	if i < 0 {
		return "the record has no such header"
	}
	if name == "consumer_attempts" {
		n, _ := strconv.Atoi(want)
		want = strconv.Itoa(n + countedFrom[derived.Header])
	}
	if strings.HasSuffix(derived.Header, "exception-stacktrace") && name != "stack_trace" {
		if !strings.Contains(r.Failure.StackTrace, "\nCaused by: ") || !strings.Contains(r.Failure.StackTrace, want) {
			return fmt.Sprintf("the stack trace has no cause %q", want)
		}
		return ""
	}
	if got := decodedAs(name, derived, rec.Headers[i].Value); !slices.Contains(got, want) {
		return fmt.Sprintf("the header says %q, Decode %q", got, want)
	}
	return ""
}

// countedFrom contains, for each header whose number is not the number of deliveries, the header's number minus the
// number of deliveries.
var countedFrom = map[string]int{"retry_topic-attempts": 1, "delayed-retry-count": -1, "asyncRetry": -1}

func valuesOf(r Reading) map[string]string {
	text := func(v any) string {
		if reflect.ValueOf(v).IsNil() {
			return ""
		}
		return fmt.Sprint(reflect.ValueOf(v).Elem())
	}
	values := map[string]string{
		"original_topic":     r.OriginalTopic,
		"original_partition": text(r.Origin.Partition),
		"original_offset":    text(r.Origin.Offset),
		"error_message":      r.ErrorMessage,
		"error_class":        r.Failure.Class,
		"stack_trace":        r.Failure.StackTrace,
		"consumer_group":     r.Failure.ConsumerGroup,
		"consumer_attempts":  text(r.Failure.Attempts),
	}
	if !r.Origin.Timestamp.IsZero() {
		values["original_timestamp"] = r.Origin.Timestamp.Format(time.RFC3339Nano)
	}
	return values
}

// decodedAs returns every text that the field called name may have when it was read from a header with this value.
func decodedAs(name string, derived entity.Derived, value []byte) []string {
	parts := [][]byte{value, jsonString(0, value)}
	switch derived.Header {
	case "event_id":
		parts = bytes.Split(value, []byte(","))
	case "asyncRetry":
		var v map[string]any
		_ = json.Unmarshal(value, &v)
		parts = append(parts, fmt.Append(nil, v["top"]), fmt.Append(nil, v["att"]))
	case "__connect.errors.connector.name":
		parts = append(parts, append([]byte("connect-"), value...))
	case knativeBody:
		parts = append(parts, decodeBase64(value))
	case "x-failure-reason":
		class, _, _ := strings.Cut(string(value), " in ")
		parts = append(parts, []byte(class))
	case "X-Exception":
		line, _, _ := strings.Cut(string(value), "\n")
		class, detail, _ := strings.Cut(line, ":")
		parts = append(parts, []byte(class), []byte(strings.TrimSpace(detail)))
	}
	var out []string
	for _, part := range parts {
		n, _ := headervalue.Number(part)
		switch name {
		case "original_partition", "original_offset":
			out = append(out, fmt.Sprint(n))
		case "consumer_attempts":
			if len(value) == 1 && derived.Header == retryTopicAttempts {
				n = int64(value[0])
			}
			out = append(out, fmt.Sprint(n))
		case "original_timestamp":
			t := headervalue.Timestamp(part)
			if big, ok := headervalue.BigInteger(part); ok && derived.Header == retryTopicFirstTime {
				t = headervalue.Epoch(big)
			}
			out = append(out, t.Format(time.RFC3339Nano))
		default:
			out = append(out, headervalue.Text(part, MaxStackTrace))
		}
	}
	return out
}

func TestExplain(t *testing.T) {
	t.Parallel()
	text := func(pairs ...string) []entity.Header {
		var out []entity.Header
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, entity.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return out
	}
	header := func(source entity.DerivedFrom, sure entity.Certainty, dialect, name string, n int) entity.Derived {
		return entity.Derived{Source: source, Dialect: dialect, Header: name, Occurrence: n, Confidence: sure}
	}
	connectAt := func(name string, n int) entity.Derived {
		return header(entity.ByHeader, entity.CertaintyHigh, "connect", "__connect.errors."+name, n)
	}
	twice := text(
		"__connect.errors.topic", "orders", "__connect.errors.partition", "3", "__connect.errors.exception.message", "first",
		"__connect.errors.topic", "orders-sink", "__connect.errors.partition", "0", "__connect.errors.exception.message", "second")
	tests := []struct {
		name    string
		topic   string
		rules   []MapRule
		headers []entity.Header
		field   string
		want    entity.Derived
	}{
		{"TheOriginIsTheFirst", "x", nil, twice, "original_topic", connectAt("topic", 0)},
		{"AndItsPartition", "x", nil, twice, "original_partition", connectAt("partition", 0)},
		{"TheErrorIsTheLast", "x", nil, twice, "error_message", connectAt("exception.message", 1)},
		{"TheTimeIsTheRecords", "x", nil, twice[:3], "original_timestamp", entity.Derived{Source: entity.ByRecord, Dialect: "connect", Confidence: entity.CertaintyHigh}},
		{"Mapping", "x", []MapRule{{"x", "elsewhere"}}, twice, "original_topic", entity.Derived{Source: entity.ByMapping, Confidence: entity.CertaintyHigh}},
		{"NoPositionInAnotherTopic", "x", []MapRule{{"x", "elsewhere"}}, twice, "original_partition", entity.NotDerived()},
		{"MappingToTheHeadersTopic", "x", []MapRule{{"x", "orders"}}, twice, "original_partition", connectAt("partition", 0)},
		{"Name", "error.known.billing", nil, nil, "original_topic", entity.Derived{Source: entity.ByName, Confidence: entity.CertaintyLow}},
		{"GroupInTheName", "error.known.billing", nil, nil, "consumer_group", entity.Derived{Source: entity.ByName, Confidence: entity.CertaintyLow}},
		{"Companion", "x", nil, text("original_topic", "orders", "error", "boom"), "original_topic", header(entity.ByCompanion, entity.CertaintyMedium, "k1s0", "original_topic", 0)},
		{"Alias", "x", nil, text("x-origin-topic", "orders"), "original_topic", header(entity.ByHeader, entity.CertaintyMedium, "generic", "x-origin-topic", 0)},
		{"PlainError", "x", nil, text("error", "a", "error", "b"), "error_message", header(entity.ByHeader, entity.CertaintyMedium, "", "error", 1)},
		{"UnknownError", "x", nil, nil, "error_message", entity.NotDerived()},
		{"AliasBesideADialect", "x", nil, text("GH_OriginalTopic", "orders", "x-error-message", "boom"), "error_message", header(entity.ByHeader, entity.CertaintyMedium, "generic", "x-error-message", 0)},
		{"RootCause", "x", nil, text("kafka_dlt-exception-fqcn", "Wrapper", "kafka_dlt-exception-cause-fqcn", "Cause"), "error_class", header(entity.ByHeader, entity.CertaintyHigh, "spring-dlt", "kafka_dlt-exception-cause-fqcn", 0)},
		{"GroupOfAConnector", "x", nil, text("__connect.errors.connector.name", "sink"), "consumer_group", header(entity.ByHeader, entity.CertaintyMedium, "connect", "__connect.errors.connector.name", 0)},
		{"Nothing", "x", nil, nil, "consumer_attempts", entity.NotDerived()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := decoder(t, []string{"*.dlq.v1"}, tt.rules...).Explain(tt.topic, entity.Record{Headers: tt.headers},
				time.Date(2024, 5, 1, 9, 0, 0, 0, time.UTC), func(topic string) bool { return topic == "known" })
			check.Equal(t, e.Fields()[tt.field], tt.want, "%s", tt.field)
		})
	}
}

func TestExplainSaysThatTheKeyTold(t *testing.T) {
	t.Parallel()
	g := readGolden(t, "testdata/uber-dlq/whole.json")
	e := g.decoder(t).Explain(g.Topic, entity.Record{Key: g.Key}, g.Timestamp, nil)
	want := entity.Derived{Source: entity.ByRecord, Dialect: "uber-dlq", Confidence: entity.CertaintyHigh}
	for _, field := range []string{"original_topic", "original_partition", "original_offset", "original_timestamp", "consumer_attempts"} {
		check.Equal(t, e.Fields()[field], want, "%s", field)
	}
}

func TestHopsAreOldestFirst(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"spring-dlt/two-hops":                               "spring-dlt orders 3 1234, spring-dlt orders-dlt 0 7",
		"smallrye-dlq/two-hops":                             "smallrye-dlq orders 3 1234, smallrye-dlq dead-letter-topic-orders-in 0 7",
		"mixed/connect-then-spring":                         "connect orders 3 1234, spring-dlt orders-sink-dlq 0 7",
		"mixed/spring-then-connect":                         "spring-dlt orders 3 1234, connect orders-dlt 0 7",
		"mixed/connect-names-no-plain-topic-but-alias-does": "generic orders - -, connect orders.dlq.v1 0 7",
		"configured/goes-before-built-in":                   "spring-dlt orders 3 1234, mine payments - -",
		"laravel-kafka/topic-by-name":                       "laravel-kafka  - -",
		"smallrye-dlq/deserialization":                      "smallrye-dlq orders 3 1234",
		"none/lone-error":                                   "",
	}
	for name, want := range tests {
		g := readGolden(t, "testdata/"+name+".json")
		e := g.decoder(t).Explain(g.Topic, entity.Record{Key: g.Key, Headers: asHeaders(g.Headers)}, g.Timestamp,
			func(topic string) bool { return slices.Contains(g.Exists, topic) })
		check.Equal(t, tellHops(e.Hops), want, "%s: hops", name)
	}
}

func tellHops(hops []entity.Hop) string {
	var out []string
	for _, h := range hops {
		partition, offset := "-", "-"
		if h.Partition != nil {
			partition = fmt.Sprint(*h.Partition)
		}
		if h.Offset != nil {
			offset = fmt.Sprint(*h.Offset)
		}
		out = append(out, fmt.Sprintf("%s %s %s %s", h.Dialect, h.Topic, partition, offset))
	}
	return strings.Join(out, ", ")
}

func TestHopsAreBounded(t *testing.T) {
	t.Parallel()
	h := slices.Repeat([]entity.Header{{Key: "__connect.errors.topic", Value: []byte("orders")}}, 20_000)
	h[0].Value = []byte("first")
	e := decoder(t, []string{"*.dlq.v1"}).Explain("x", entity.Record{Headers: h}, time.Time{}, nil)
	check.True(t, len(e.Hops) == MaxHops && e.Hops[0].Topic == "first",
		"%d hops from %q, want the %d oldest", len(e.Hops), e.Hops[0].Topic, MaxHops)
}

func sameSource(from entity.DerivedFrom, c entity.Confidence) bool {
	if from == entity.ByCompanion || from == entity.ByRecord {
		from = entity.ByHeader
	}
	return string(from) == string(c)
}
