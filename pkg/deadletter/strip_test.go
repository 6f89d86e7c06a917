package deadletter

import (
	"errors"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// stripAs strips the headers of a message that was stored with this dialect.
func stripAs(dialect string, list []entity.Header) []entity.Header {
	d, err := New(Config{}, Patterns{})
	if err != nil {
		panic(err)
	}
	m := entity.Message{Failure: entity.Failure{Dialect: dialect}}
	return d.Strip(&m, "", list)
}

func TestStripKeepsOrderRepeatsAndNulls(t *testing.T) {
	t.Parallel()
	in := []entity.Header{
		{Key: "b", Value: []byte("1")},
		{Key: "kafka_dlt-exception-message", Value: []byte("x")},
		{Key: "a"},
		{Key: "b", Value: []byte{}},
		{Key: ""},
		{Key: "\xff", Value: []byte{0}},
		{Key: HeaderRedriveID, Value: []byte(idA)},
	}
	before := append([]entity.Header{}, in...)
	want := []entity.Header{in[0], in[2], in[3], in[4], in[5]}
	got := stripAs("spring-dlt", in)
	check.Equal(t, got, want, "Strip")
	got[0].Key = "changed"
	check.True(t, reflect.DeepEqual(in, before), "Strip's result shares its list with the record")
}

func TestStripOfNothing(t *testing.T) {
	t.Parallel()
	check.Equal(t, stripAs("", nil), nil, "Strip(nil)")
}

// Headers with names that applications use must be kept for every dialect.
func TestStripKeepsWhatIsNotTheProducers(t *testing.T) {
	t.Parallel()
	keep := []string{
		"traceparent", "tracestate", "baggage", "b3", "ce_id", "ce_type", "content-type", "correlation_id", "type",
		"spring_json_header_types", "__TypeId__", "kafka_correlationId", "kafka_replyTopic", "kafka_replyPartition",
		"kafka_nativeHeaders", "kafka_messageKey", "_watermill_message_uuid", "x-chunk-index", "x-chunk-count",
		"NServiceBus.MessageId", "MT-Activity-Id", "dlq-reason", "x-request-id", "original-uri",
	}
	for _, dialect := range append(Dialects(), "", "nobody") {
		for _, key := range keep {
			got := stripAs(dialect, []entity.Header{{Key: key}})
			check.True(t, len(got) == 1, "Strip(%q) drops %s", dialect, key)
		}
	}
}

func TestStripTakesPlainWordsOnlyForTheirDialect(t *testing.T) {
	t.Parallel()
	tests := []struct{ key, dialect string }{
		{"error", "k1s0"},
		{"original_topic", "k1s0"},
		{"original_topic", "hexkit"},
		{"original_key", "karafka-legacy"},
		{"source_topic", "karafka"},
		{"submitTimestamp", "greyhound"},
		{"failed-at", "wolverine"},
		{"__topic", "dapr"},
		{"pubsubName", "dapr"},
		{"X-OriginalTopic", "quafka"},
		{"X-ForwardingTopic", "quafka"},
	}
	for _, tt := range tests {
		h := []entity.Header{{Key: tt.key}}
		got := stripAs(tt.dialect, h)
		check.True(t, len(got) == 0, "Strip(%q) keeps %s", tt.dialect, tt.key)
		for _, other := range []string{"", "generic", "connect"} {
			got := stripAs(other, h)
			check.True(t, len(got) == 1, "Strip(%q) drops %s", other, tt.key)
		}
	}
}

// A replay must contain no header that its dialect reads, because its consumer would treat the replay as a failure.
func TestStripTakesEveryWordThatTheDialectReads(t *testing.T) {
	t.Parallel()
	for i := range dialects {
		for _, word := range dialects[i].words() {
			got := stripAs(dialects[i].name, []entity.Header{{Key: word}})
			check.True(t, len(got) == 0, "Strip(%q) keeps %s", dialects[i].name, word)
		}
	}
}

// handWritten returns headers in the given order, each given as name=value.
func handWritten(pairs ...string) []entity.Header {
	var out []entity.Header
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		out = append(out, entity.Header{Key: name, Value: []byte(value)})
	}
	return out
}

// replayed returns the names of the headers that a replay keeps of a record which the decoder has read and stored.
func replayed(d *Decoder, list []entity.Header) string {
	var names []string
	for _, h := range d.Strip(new(storedWith(d, list)), "orders", list) {
		names = append(names, h.Key)
	}
	return strings.Join(names, " ")
}

func storedWith(d *Decoder, list []entity.Header) entity.Message {
	rec := entity.Record{Headers: list}
	return messageOf("orders.dlq.v1", rec, d.Decode("orders.dlq.v1", rec, time.Time{}, nil))
}

// A consumer that counts in a header of its own and gives up at a limit would dead-letter a replay untried if the replay
// had this header.
func TestStripTakesHandWrittenHeadersOfAFailure(t *testing.T) {
	t.Parallel()
	d := decoder(t, []string{"*.dlq.v1"})
	for name, tt := range map[string]struct {
		headers []string
		want    string
	}{
		"CamelCase":             {[]string{"originalTopic=orders", "originalOffset=5", "originalPartition=0", "errorMessage=boom", "retryCount=5", "tenant=a"}, "tenant"},
		"Hyphens":               {[]string{"x-original-topic=orders", "x-error=boom", "x-attempts=5", "tenant=a"}, "tenant"},
		"MixedSpellings":        {[]string{"SOURCE.TOPIC=orders", "Last_Error=boom", "KAFKA-RETRIES=5", "GroupId=billing", "tenant=a"}, "tenant"},
		"TopicAlone":            {[]string{"origin_topic=orders", "tenant=a"}, "tenant"},
		"TopicAndAttempts":      {[]string{"attempts=5", "sourceTopic=orders", "tenant=a"}, "tenant"},
		"MessageAndAttempts":    {[]string{"reason=boom", "attempts=5", "original-offset=7"}, ""},
		"ClassAndStack":         {[]string{"errorType=E", "stack=at X"}, ""},
		"AttemptsAlone":         {[]string{"x-attempts=5", "tenant=a"}, "x-attempts tenant"},
		"TwiceTheMessage":       {[]string{"reason=a", "error-message=b"}, "reason error-message"},
		"MessageAndPosition":    {[]string{"reason=a", "original_partition=1", "original_offset=7"}, "reason original_partition original_offset"},
		"MessageAndGroup":       {[]string{"reason=a", "group-id=billing"}, "reason group-id"},
		"EmptyTopic":            {[]string{"original_topic=", "attempts=5"}, "original_topic attempts"},
		"NoTopic":               {[]string{"original_topic=a b", "attempts=5"}, "original_topic attempts"},
		"EmptyMessage":          {[]string{"reason=", "attempts=5"}, "reason attempts"},
		"ErrorAlone":            {[]string{"error=boom", "tenant=a"}, "error tenant"},
		"TraceAndSchemas":       {[]string{"originalTopic=orders", "traceparent=00-a", "tracestate=b", "Content-Type=json", "__key_schema_id=1", "__value_schema_id=2", "ce_type=t"}, "traceparent tracestate Content-Type __key_schema_id __value_schema_id ce_type"},
		"FrameworkBorrowed":     {[]string{"source_topic=orders", "source_attempts=3", "x-error=boom", "tenant=a"}, "tenant"},
		"FrameworkAndEarlier":   {[]string{"originalTopic=orders", "errorMessage=boom", "retryCount=5", "__connect.errors.topic=orders", "tenant=a"}, "tenant"},
		"FrameworkAndApps":      {[]string{"source_topic=shop", "reason=gift", "__connect.errors.topic=orders", "__connect.errors.exception.message=boom"}, "source_topic reason"},
		"TwoFrameworks":         {[]string{"__topic=a", "__partition=1", "__offset=2", "original_topic=orders", "error=x", "__connect.errors.topic=b.dlq.v1"}, ""},
		"KnativeInACloudEvent":  {[]string{"ce_id=1", "ce_knativeerrorcode=500", "ce_knativeerrordata=x", "ce_knativeerrordest=y"}, "ce_id"},
		"OursInEveryCase":       {[]string{"dlq-message-id=1", "dlq-retry-count=2", "tenant=a"}, "tenant"},
		"SpringAndApps":         {[]string{"kafka_dlt-original-topic=orders", "kafka_dlt-exception-fqcn=E", "kafka_dlt-exception-message=boom", "reason=customer cancelled", "stack=production", "tenant=a"}, "reason stack tenant"},
		"SpringAndAttempts":     {[]string{"kafka_dlt-original-topic=orders", "kafka_dlt-exception-fqcn=E", "kafka_dlt-exception-message=boom", "reason=x", "attempts=2"}, "reason attempts"},
		"SpringAndGroup":        {[]string{"kafka_dlt-original-topic=orders", "kafka_dlt-exception-fqcn=E", "kafka_dlt-exception-message=boom", "reason=x", "retries=2", "groupId=vip", "origin-timestamp=1"}, "reason retries groupId origin-timestamp"},
		"ConnectAndClass":       {[]string{"__connect.errors.topic=orders", "__connect.errors.exception.message=boom", "reason=x", "errorType=E", "attempt=2", "failed-at=x"}, "reason errorType attempt failed-at"},
		"SmallRyeAndApps":       {[]string{"dead-letter-topic=orders", "dead-letter-reason=boom", "dead-letter-offset=1", "source-topic=shop", "error-message=x", "stack=prod", "attempts=1"}, "source-topic error-message stack attempts"},
		"KarafkaAndApps":        {[]string{"original_topic=orders", "original_offset=1", "original_key=k", "reason=x", "errorType=E", "attempts=2", "stack=prod", "attempt=1"}, "attempts attempt"},
		"FrameworkWithoutTopic": {[]string{"exc_class=E", "exc_msg=x", "originalTopic=orders", "attempts=2", "failedAt=x", "tenant=a"}, "tenant"},
		"FailureNames":          {[]string{"OriginalTopic=orders", "failedAt=1", "failed-at=1", "errorTimestamp=1", "errorCode=1", "x-error-code=1", "lastException=1", "dlqReason=1", "x-dlq-reason=1", "attempt=1", "tenant=a"}, "tenant"},
		"MoreFailureNames":      {[]string{"source-topic=orders", "ErrorAt=1", "error_details=1", "dlqErrorMessage=1", "x-attempt=1", "attempt_count=1", "exception.trace=1", "FailureTime=1", "parse_error=1", "traceback=1", "deadLetteredAt=1"}, ""},
		"NamesOfOthers":         {[]string{"OriginalTopic=orders", "errorHandler=x", "exceptionAllowed=yes", "onError=stop", "message=x", "topic=x", "value=x", "payload=x", "createdAt=1", "code=1"}, "errorHandler exceptionAllowed onError message topic value payload createdAt code"},
		"FailureNamesNoTopic":   {[]string{"reason=a", "attempts=5", "failedAt=1", "errorCode=1", "attempt=1"}, "failedAt errorCode attempt"},
		"PlainWords":            {[]string{"original_topic=orders", "error=boom", "failed_at=1", "attempt=5", "retry_count=5", "error_code=1", "tenant=a"}, "tenant"},
		"PlainWordsAndPosition": {[]string{"original_topic=orders", "original_offset=1", "error_message=boom", "failed_at=1", "attempt=5", "tenant=a"}, "tenant"},
		"ApplicationsEventID":   {[]string{"original_topic=orders", "exc_class=E", "exc_msg=x", "service=billing", "event_id=orig"}, "event_id"},
		"EventIDNotOfFourParts": {[]string{"original_topic=orders", "exc_class=E", "event_id=a,b,c,d", "event_id=billing,orders,3,17", "event_id=a,orders,1"}, "event_id event_id"},
		"NullEventID":           {[]string{"original_topic=orders", "exc_class=E", "event_id="}, "event_id"},
		"SavedEventID":          {[]string{"original_topic=orders", "exc_class=E", "event_id=new", "original_event_id=orig"}, "event_id"},
		"ReservedNamesAreAlone": {[]string{"x-retry-count=5", "tenant=a"}, "tenant"},
	} {
		check.Equal(t, replayed(d, handWritten(tt.headers...)), tt.want, "%s: headers of the replay", name)
	}
}

// After Strip, no header is left from which a value of the failure was read, and the rest shows no dialect: for every
// golden record, and for every spelling of hand-written headers.
func TestWhatWasReadIsNotReplayed(t *testing.T) {
	t.Parallel()
	files := check.Must(filepath.Glob("testdata/*/*.json"))(t)
	for _, file := range files {
		g := readGolden(t, file)
		rec := entity.Record{Key: g.Key, Value: g.Value, Headers: asHeaders(g.Headers)}
		checkReplay(t, file, g.decoder(t), g.Topic, rec, func(topic string) bool { return slices.Contains(g.Exists, topic) })
	}
	d := decoder(t, []string{"*.dlq.v1"})
	for name := range aliases {
		for _, spelled := range spellings(name) {
			list := handWritten(spelled+"=3", "Exception_Class=E", "source-topic=orders", "tenant=a")
			checkReplay(t, spelled, d, "x", entity.Record{Headers: list}, nil)
			check.Equal(t, replayed(d, list), "tenant", "%s: headers of the replay", spelled)
		}
	}
}

// spellings returns ways to write a name that the generic dialect reads.
func spellings(name string) []string {
	parts := regexp.MustCompile(`original|origin|source|error|exception|retry|consumer|stack|failure|last|group|class|`).FindAllString(name, 2)
	split := []string{name}
	if first := parts[0]; first != "" && first != name {
		split = []string{first, strings.TrimPrefix(name, first)}
	}
	var out []string
	for _, by := range []string{"", "-", "_", "."} {
		for _, prefix := range []string{"", "x-", "DLQ.", "x_dlt_", "kafka-", "__krafka.", "_"} {
			plain := prefix + strings.Join(split, by)
			out = append(out, plain, strings.ToUpper(plain))
		}
	}
	if len(split) == 2 {
		out = append(out, split[0]+strings.ToUpper(split[1][:1])+split[1][1:])
	}
	return out
}

func checkReplay(t *testing.T, name string, d *Decoder, topic string, rec entity.Record, exists func(string) bool) {
	t.Helper()
	r := d.Decode(topic, rec, time.Time{}, exists)
	m := messageOf(topic, rec, r)
	kept := headers(d.Strip(&m, r.OriginalTopic, rec.Headers))
	if r.Failure.Dialect == "" {
		return
	}
	for field, from := range d.Explain(topic, rec, time.Time{}, exists).Fields() {
		stays := from.Header == nserviceBusSent || from.Header == hexkitEvent && headers(rec.Headers).has(hexkitFirstEvent)
		check.True(t, from.Header == "" || stays || !kept.has(from.Header), "%s: the replay has %s, from which %s was read", name, from.Header, field)
	}
	again := d.Decode(topic, entity.Record{Key: ReplayKey(r.Failure.Dialect, rec), Headers: kept}, time.Time{}, exists)
	check.Equal(t, again.Failure.Dialect, "", "%s: dialect of the replay", name)
}

func TestKeptHeadersStay(t *testing.T) {
	t.Parallel()
	patterns := check.Must(ParsePatterns("*.dlq.v1"))(t)
	d := check.Must(New(Config{KeepHeaders: []string{"x-attempts", "kafka_dlt-*offset", "*_id"}}, patterns))(t)
	list := handWritten("x-original-topic=orders", "x-error=boom", "x-attempts=5", "X-Attempts=5", "kafka_dlt-original-offset=5", "kafka_dlt-original-topic=orders", "dlq_id=1")
	check.Equal(t, replayed(d, list), "x-attempts kafka_dlt-original-offset dlq_id", "headers of the replay")
	m := storedWith(d, list)
	told := d.ReplayHeaders(&m, "orders", d.ExplainMessage(m))
	check.Equal(t, told.Removes, []string{"x-original-topic", "x-error", "X-Attempts", "kafka_dlt-original-topic"}, "Removes")
	check.Equal(t, told.Keeps, []string{"kafka_dlt-original-offset"}, "Keeps")
}

// Every replay sets the dlq- headers anew, so keep_headers cannot name them.
func TestOurHeadersCannotBeKept(t *testing.T) {
	t.Parallel()
	for _, glob := range []string{"", "*", "**", "d*", "dlq*", "dlq-*", "dlq-retry-count", "dlq-reason", "dlq-x*", "*-id", "*retry*", "*lq-m*"} {
		err := Config{KeepHeaders: []string{"tenant", glob}}.Validate()
		check.True(t, errors.Is(err, entity.ErrInvalid) && strings.Contains(err.Error(), "kafka.keep_headers[1]: "), "keep_headers %q: %v, want an error", glob, err)
	}
	check.NoError(t, Config{KeepHeaders: []string{"x-*", "dlq_*", "*-attempts", "original_*", "a.b[c"}}.Validate())
}

func TestReplayHeadersTellWhatStays(t *testing.T) {
	t.Parallel()
	d := decoder(t, []string{"*.dlq.v1"})
	for name, tt := range map[string]struct {
		headers []string
		want    entity.ReplayHeaders
	}{
		"Certain":   {[]string{"originalTopic=orders", "retryCount=5", "retryCount=6", "tenant=a", "dlq-retry-count=2"}, entity.ReplayHeaders{Removes: []string{"originalTopic", "retryCount"}}},
		"Uncertain": {[]string{"retryCount=5", "tenant=a"}, entity.ReplayHeaders{Keeps: []string{"retryCount"}}},
		"Nothing":   {[]string{"tenant=a"}, entity.ReplayHeaders{}},
		"Restored":  {[]string{"original_topic=orders", "exc_class=E", "exc_msg=x", "event_id=2", "original_event_id=1"}, entity.ReplayHeaders{Removes: []string{"original_topic", "exc_class", "exc_msg", "original_event_id"}}},
	} {
		m := storedWith(d, handWritten(tt.headers...))
		check.Equal(t, d.ReplayHeaders(&m, "orders", d.ExplainMessage(m)), tt.want, "%s: ReplayHeaders", name)
	}
}

// Without any anchor that a replay loses, it would be recognised as a dead letter of the user's dialect again.
func TestStripTakesTheAnchorsThatAloneRemain(t *testing.T) {
	t.Parallel()
	patterns := check.Must(ParsePatterns("*.dlq.v1"))(t)
	d := check.Must(New(Config{Dialects: []DialectConfig{
		{Name: "marked", Anchors: []string{"failed"}, Message: "why", Strip: []string{"c*", "trace*"}},
		{Name: "shared", Anchors: []string{"tenant", "acme-topic"}, Topic: "acme-topic"},
	}}, patterns))(t)
	check.Equal(t, replayed(d, handWritten("failed=1", "why=x", "tenant=a", "content-type=json", "ce_id=1", "cause=y", "traceparent=z")),
		"tenant content-type ce_id traceparent", "headers of the replay")
	check.Equal(t, replayed(d, handWritten("acme-topic=orders", "tenant=a")), "tenant", "headers of the replay")
}
