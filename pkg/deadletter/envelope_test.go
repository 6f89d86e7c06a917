package deadletter

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// envelopes are values that describe a failed record, by the names of the members that show it.
var envelopes = []struct{ value, members string }{
	// spellings
	{`{"original_topic":"orders","original_value":"{}","error":"timeout"}`, "original_topic original_value error"},
	{`{"originalTopic":"orders","originalMessage":"{\"a\":1}","error":{"message":"card declined","stack":"at f"},"retryCount":3}`, "originalTopic originalMessage error"},
	{`{"OriginalTopic":"orders","OriginalValue":"e30=","ErrorMessage":"x"}`, "OriginalTopic OriginalValue ErrorMessage"},
	{`{"original-topic":"orders","original-payload":{},"error-message":"x"}`, "original-topic original-payload error-message"},
	{`{"original.topic":"orders","original.value":null,"error.message":"x"}`, "original.topic original.value error.message"},
	{`{"ORIGINAL_TOPIC":"orders","PAYLOAD":"x","EXCEPTION":"java.lang.RuntimeException"}`, "ORIGINAL_TOPIC PAYLOAD EXCEPTION"},
	{`{"_original_topic":"orders","_value":"x","_error":"boom"}`, "_original_topic _value _error"},
	{`{"x-original-topic":"orders","x-exception-message":"boom","body":"x"}`, "x-original-topic body x-exception-message"},
	{`{"dlq_original_topic":"orders","dlq_error":"x","message":"{}"}`, "dlq_original_topic message dlq_error"},
	{`{"dlqOriginalTopic":"orders","dlqReason":"x","payload":"{}"}`, "dlqOriginalTopic payload dlqReason"},
	{`{"kafkaTopic":"orders","kafkaPartition":1,"kafkaOffset":9,"rawMessage":"x","errorMessage":"y"}`, "kafkaTopic rawMessage errorMessage"},
	{`{"original\u005ftopic":"orders","original_value":"x","err\u006fr":"boom"}`, "original_topic original_value error"},
	{` { "original_topic" : "orders" , "original_value" : [ 1 ] , "errors" : [ "a" ] } `, "original_topic original_value errors"},
	// names
	{`{"source_topic":"orders","payload":{"id":1},"reason":"schema mismatch"}`, "source_topic payload reason"},
	{`{"sourceTopic":"orders","sourceOffset":4,"value":"x","exceptionType":"E"}`, "sourceTopic value exceptionType"},
	{`{"origin_topic":"orders","data":{},"failure_reason":"x"}`, "origin_topic data failure_reason"},
	{`{"src_topic":"orders","event":{},"traceback":"Traceback (most recent call last)"}`, "src_topic event traceback"},
	{`{"failedTopic":"orders","failedMessage":"x","lastError":"y"}`, "failedTopic failedMessage lastError"},
	{`{"orig_topic":"orders","orig_value_b64":"e30=","stack_trace":"at f"}`, "orig_topic orig_value_b64 stack_trace"},
	{`{"original_topic":"orders","original_message_base64":"e30=","error_code":500}`, "original_topic original_message_base64 error_code"},
	{`{"original_topic":"orders","original":{"id":1},"failure":{"kind":"timeout"}}`, "original_topic original failure"},
	{`{"original_topic":"orders","original_event":{"id":1},"message":"could not save"}`, "original_topic original_event message"},
	{`{"original_topic":"orders","message":{"id":1},"error_details":["a"]}`, "original_topic message error_details"},
	{`{"original_topic":"orders","original_value":"x","error":null,"failed_at":"2026-01-01"}`, "original_topic original_value error"},
	{`{"original_topic":"orders","original_value":"x","retry_count":3}`, "original_topic original_value retry_count"},
	{`{"original_topic":null,"original_value":"x","error":"boom"}`, "original_topic original_value error"},
	{`{"original_topic":"orders","raw_event":"x","validation_errors":[{"path":"a"}]}`, "original_topic raw_event validation_errors"},
	{`{"original_topic":"a","original_topic":"b","original_value":1,"error":"","error":"x"}`, "original_topic original_value error"},
	{`{"topic":"orders","partition":0,"offset":41,"original_value":"x","error":"boom"}`, "topic original_value error"},
	{`{"original_topic":"orders","message":"hello","error":"boom","error_type":"E"}`, "original_topic message error"},
	{`{"original_topic":"orders","message":"{\"id\":1}","exception":"E"}`, "original_topic message exception"},
	{`{"originalTopic":"orders","originalMessage":"x","errorReason":"","errors":["wrong"]}`, "originalTopic originalMessage errors"},
	{`{"original_topic":"orders","original_value":"x","error_time":"2026-01-01"}`, "original_topic original_value error_time"},
	{`{"original_topic":"orders","dlq":{"error":"boom","stack_trace":"at f"},"message":"hello"}`, "original_topic message dlq.error"},
	{`{"originalKafkaTopic":"orders","badRecord":"x","parse_error":"y"}`, "originalKafkaTopic badRecord parse_error"},
	{`{"original_topic":"orders","original_message_value":"x","exc_info":"ValueError: y"}`, "original_topic original_message_value exc_info"},
	// wrappers
	{`{"originalEvent":{"id":1},"error":{"message":"m"},"metadata":{"originalTopic":"orders","partition":1,"offset":2}}`, "metadata.originalTopic originalEvent error"},
	{`{"meta":{"original_topic":"orders","error":"x"},"payload":{"id":1}}`, "meta.original_topic payload meta.error"},
	{`{"dlq":{"original_topic":"orders","original_value":"x","error":"y"}}`, "dlq.original_topic dlq.original_value dlq.error"},
	{`{"dlq_metadata":{"source_topic":"orders","exception_message":"y"},"original_payload":"x"}`, "dlq_metadata.source_topic original_payload dlq_metadata.exception_message"},
	{`{"original":{"topic":"orders","partition":0,"value":"x"},"error":{"type":"E"}}`, "original.topic original.value error"},
	{`{"Original":{"Topic":"orders","Value":"x"},"Failure":{"Reason":"r"}}`, "Original.Topic Original.Value Failure"},
	{`{"source":{"topic":"orders","offset":3},"payload":"x","failure_reason":"y"}`, "source.topic payload failure_reason"},
	{`{"meta.original_topic":"orders","meta.error":"x","payload":{}}`, "meta.original_topic payload meta.error"},
	{`{"headers":{"kafka_dlt-original-topic":"orders","kafka_dlt-exception-message":"y"},"value":"x"}`, "headers.kafka_dlt-original-topic value headers.kafka_dlt-exception-message"},
	{`{"schema":{"type":"struct"},"payload":{"original_topic":"orders","original_value":"x","error":"y"}}`, "payload.original_topic payload.original_value payload.error"},
	// products: Flink and Tableflow on Confluent, ClickHouse (table and stream mode), Lambda
	{
		`{"error_timestamp":1,"error_code":1001,"error_reason":"DESERIALIZATION","error_message":"bad magic","error_details":{},"processor":"flink",` +
			`"source_record":{"topic":"orders","partition":1,"offset":5,"headers":null,"key":null,"value":"AAE="}}`,
		"source_record.topic source_record.value error_code",
	},
	{
		`{"table_engine":"Kafka","database":"d","table":"t","error":"Cannot parse","raw_message":"x","kafka_topic_name":"orders","kafka_partition":0,"kafka_offset":1,"kafka_key":""}`,
		"kafka_topic_name raw_message error",
	},
	{`{"_topic":"orders","_partition":0,"_offset":1,"_raw_message":"x","_error":"Cannot parse"}`, "_topic _raw_message _error"},
	{
		`{"requestContext":{"requestId":"1","functionArn":"arn:aws:lambda:f","condition":"RetryAttemptsExhausted","approximateInvokeCount":1},` +
			`"responseContext":{"statusCode":200,"functionError":"Unhandled"},"KafkaBatchInfo":{"batchSize":500},"payload":{}}`,
		"requestContext.functionArn requestContext.condition",
	},
	{"\x00\x00\x00\x00\x07" + `{"original_topic":"orders","original_value":"{}","error":"timeout"}`, "original_topic original_value error"},
}

// ordinary are values that are not envelopes.
var ordinary = []string{
	// business objects
	`{"id":1,"topic":"billing","error":"none"}`,
	`{"topic":"How do I return an item?","message":"It is broken","error":"E17"}`,
	`{"topic":"orders","value":12.5,"error":"rounded"}`,
	`{"topic":"orders","partition":3,"lag":100,"message":"consumer is behind","severity":"warning"}`,
	`{"topic":"orders","partition":3,"offset":17,"value":{"error":"card declined"}}`,
	`{"topic":"orders","partition":0,"offset":1,"value":5,"error_count":0,"error":null}`,
	`{"error":"card declined","order_id":1,"payload":{"amount":3}}`,
	`{"error":{"code":404,"message":"not found"},"data":null}`,
	`{"status":"failed","reason":"no stock","payload":{"sku":"a"},"source":"shop"}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid"}}`,
	`{"original_topic":"orders","payload":{"id":1}}`,
	`{"original_topic":"orders","error":"x"}`,
	`{"original_topic":"orders","payload":{"error":"inside"},"error":null}`,
	`{"original_topic":"orders","payload":{},"error":""}`,
	`{"original_topic":"orders","payload":{},"errors":[],"error":{}}`,
	`{"original_topic":"orders","payload":{},"error":false}`,
	`{"original_topic":17,"original_value":"x","error":"y"}`,
	`{"original_topic":"no topic has blanks","original_value":"x","error":"y"}`,
	`{"original_topic":"","original_value":"x","error":"y"}`,
	`{"original_value":"x","error":"y","offset":3}`,
	`{"conversation":{"topic":"refund","messages":[{"body":"hi"}]},"error":null}`,
	`{"source":{"topic":"news"},"body":"text","title":"Error in the tax law"}`,
	`{"level":"ERROR","logger":"a.b","message":"boom","stack_trace":"at f","topic":"orders"}`,
	`{"source_topic":"orders","payload":{},"trace":"4bf92f35","cause":"order-1"}`,
	`{"metric":"errors","source_topic":"orders","value":3}`,
	`{"errorRate":0.1,"errors":4,"source_topic":"orders","value":3}`,
	`{"subject":"a","topicName":"weather","content":"rain","failureProbability":0.2}`,
	`{}`, `{"a":{}}`, `{"":""}`,
	// logs, alerts, pages, rows and measurements that speak of topics and errors
	`{"level":"error","ts":1.5,"msg":"publish failed","topic":"orders","partition":3,"error":"timeout"}`,
	`{"level":"error","ts":1.5,"msg":"publish failed","topic":"orders","partition":3,"offset":7,"error":"timeout","stacktrace":"at f"}`,
	`{"level":"ERROR","message":"could not process","kafka_topic":"orders","kafka_partition":0,"kafka_offset":12,"stack_trace":"x"}`,
	`{"level":"ERROR","message":"could not process","kafka.topic":"orders","kafka.partition":0,"kafka.offset":12,"error":{"type":"E"},"stack_trace":"x","payload":"p"}`,
	`{"msg":"a","kafka":{"topic":"orders","offset":1},"error":"x"}`,
	`{"topic":"science","offset":20,"data":[1],"error":"none found"}`,
	`{"topic":"fractions","offset":1,"body":"2/3","errors":["wrong"]}`,
	`{"sourceTopic":"orders","message":"consumer lags","errorCode":5}`,
	`{"source_topic":"orders","payload":{"id":1},"msg":"forwarded"}`,
	`{"id":1,"topic":"orders","partition":0,"payload":{},"attempts":2,"last_error":"x"}`,
	`{"id":1,"topic":"orders","partition":0,"offset":7,"payload":{},"attempts":2,"last_error":"x"}`,
	`{"topic":"orders","partition":0,"raw_payload":{},"last_error":"x"}`,
	`{"source_topic":"sensors.temp","raw_value":17,"errorMargin":{}}`,
	`{"source_topic":"sensors.temp","raw_value":17,"error":null,"attempts":1}`,
	`{"source_topic":"sensors.temp","raw_value":17,"message":"calibrated"}`,
	`{"source_topic":"sensors.temp","value":17,"marginOfError":"0.1","standard_error":"0.2"}`,
	`{"source_topic":"orders","payload":{},"exceptionAllowed":"yes"}`,
	`{"source_topic":"orders","payload":{},"errorHandler":"skip","onError":"stop","failureMode":"none","errorRate":"5%"}`,
	// what only luck tells from them
	`{"topic":"orders","partition":0,"offset":41,"value":"x","error":"boom"}`,
	`{"topic":"orders","offset":41,"key":"k","message":"x","exception":"E","timestamp":1}`,
	`{"messageTopic":"orders","messagePartition":0,"offset":3,"messageValue":"x","DeserializationException":{"a":1}}`,
	`{"context":{"topic":"orders","partition":3},"value":"x","error":"y"}`,
	// events of other systems
	`{"specversion":"1.0","id":"1","source":"/shop","type":"order.failed","datacontenttype":"application/json","data":{"error":"x"}}`,
	`{"specversion":"1.0","id":"1","source":"/shop","type":"t","topic":"orders","pubsubname":"kafka","data":{"id":1},"traceid":""}`,
	`{"specversion":"1.0","id":"1","source":"/dlq","type":"t","data":{"original_topic":"orders","original_value":"x","error":"y"}}`,
	`{"Type":"Notification","MessageId":"1","TopicArn":"arn:aws:sns:eu:1:orders","Message":"{\"error\":\"x\"}","Timestamp":"t"}`,
	`{"Records":[{"messageId":"1","body":"x","attributes":{"ApproximateReceiveCount":"3"}}]}`,
	`{"before":null,"after":{"id":1,"error":"x"},"source":{"connector":"postgresql","db":"d","table":"t","lsn":1},"op":"c","ts_ms":1}`,
	`{"schema":{"type":"struct"},"payload":{"before":null,"after":{"topic":"a"},"source":{"name":"s"},"op":"u"}}`,
	`{"id":"1","aggregate_type":"order","aggregate_id":"2","type":"created","topic":"orders","payload":"{}","attempts":2,"last_error":"timeout"}`,
	`{"requestContext":{"functionArn":"arn","condition":"Success"},"responsePayload":{}}`,
	`{"requestContext":{"httpMethod":"POST","path":"/error"},"body":"x","headers":{"topic":"a"}}`,
	// what is not a JSON object, or not JSON
	`[{"original_topic":"orders","original_value":"x","error":"y"}]`,
	`"{\"original_topic\":\"orders\",\"original_value\":\"x\",\"error\":\"y\"}"`,
	`null`, `1`, ``, ` `, `{`, `{"`, "\x00\x00\x00\x00\x07{", "\xff\xfe",
	`original_topic=orders original_value=x error=y`,
	`{"original_topic":"orders","original_value":"x","error":"y"`,
	`{"original_topic":"orders","original_value":"x","error":"y"} x`,
	`{"original_topic":"orders","original_value":"x","error":"y`,
	`{original_topic:"orders",original_value:"x",error:"y"}`,
	// nested more deeply than one wrapper
	`{"a":{"original_topic":"orders","original_value":"x","error":"y"}}`,
	`{"meta":{"dlq":{"original_topic":"orders","original_value":"x","error":"y"}}}`,
	`{"payload":{"meta":{"original_topic":"orders"},"error":"x"},"error":"y"}`,
	`{"payload":{"original_topic":"orders","error":"y"}}`,
	`{"meta":` + strings.Repeat(`{"meta":`, 700) + `1` + strings.Repeat(`}`, 701),
}

func TestEnvelopesAreRecognisedByTheirMembers(t *testing.T) {
	t.Parallel()
	for _, c := range envelopes {
		check.Equal(t, strings.Join(envelopeMembers([]byte(c.value)), " "), c.members, "members of %s", c.value)
	}
}

func TestOrdinaryValuesAreNoEnvelopes(t *testing.T) {
	t.Parallel()
	for _, value := range ordinary {
		if got := envelopeMembers([]byte(value)); got != nil {
			t.Errorf("%.200s looks like an envelope by %q", value, got)
		}
	}
}

// TestEnvelopeIsOnlyLookedForWithoutATopicInTheHeaders: whatever decides the original topic, headers that name one mean
// that the value is the record's own.
func TestEnvelopeIsOnlyLookedForWithoutATopicInTheHeaders(t *testing.T) {
	t.Parallel()
	value := []byte(envelopes[0].value)
	header := func(key, value string) entity.Header { return entity.Header{Key: key, Value: []byte(value)} }
	cases := []struct {
		name       string
		confidence entity.Confidence
		headers    []entity.Header
		value      []byte
		looked     bool
	}{
		{"NoHeaders", entity.FromName, nil, value, true},
		{"Mapped", entity.FromMapping, nil, value, true},
		{"SetByAnOperator", entity.FromOperator, nil, value, true},
		{"HeadersWithoutATopic", entity.FromName, []entity.Header{header("errorMessage", "x"), header("retryCount", "2")}, value, true},
		{"OtherHeaders", entity.FromMapping, []entity.Header{header("traceparent", "00-1"), header("topic", "orders")}, value, true},
		{"ImpossibleTopic", entity.FromMapping, []entity.Header{header("original_topic", "a b"), header("error", "x")}, value, true},
		{"SpringMapped", entity.FromMapping, []entity.Header{header("kafka_dlt-original-topic", "orders"), header("kafka_dlt-exception-fqcn", "E")}, value, false},
		{"HandWrittenMapped", entity.FromMapping, []entity.Header{header("x-original-topic", "orders")}, value, false},
		{"Header", entity.FromHeader, nil, value, false},
		{"AtTheLimit", entity.FromName, nil, padded(value, MaxEnvelope), true},
		{"OverTheLimit", entity.FromName, nil, padded(value, MaxEnvelope+1), false},
	}
	d := decoder(t, []string{"*.dlq"})
	for _, c := range cases {
		m := entity.Message{Origin: entity.Origin{Confidence: c.confidence}, OriginalTopic: "orders"}
		m.Source.Topic, m.Record = "orders.dlq", entity.Record{Headers: c.headers, Value: c.value}
		check.Equal(t, d.Envelope(&m, c.value) != nil, c.looked, "%s: is an envelope", c.name)
	}
}

// padded returns a JSON text with blanks up to a size.
func padded(value []byte, size int) []byte {
	return append(slices.Clone(value), strings.Repeat(" ", size-len(value))...)
}

// TestEnvelopesOfHostileTextAreQuick: neither cut-off text nor a megabyte of members or brackets takes long.
func TestEnvelopesOfHostileTextAreQuick(t *testing.T) {
	t.Parallel()
	fill := func(unit string) []byte {
		return []byte(`{"original_topic":"orders",` + strings.Repeat(unit, (MaxEnvelope-100)/len(unit)) + `"error":"x"}`)
	}
	for _, unit := range []string{`"a":1,`, `"meta":{},`, `"meta":{"meta":{"a":1}},`, `"error":"",`, `"\u0061":0,`, `"":[[[[[]]]]],`, `"__________":0,`, `"payload":{"original_topic":"o"},`} {
		text := fill(unit)
		began := time.Now()
		envelopeMembers(text)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%d bytes of %s took %s", len(text), unit, took)
		}
	}
	for _, open := range []string{`{"meta":`, `[`, `{"a":[`, `{"original_topic":"`} {
		check.True(t, envelopeMembers([]byte(strings.Repeat(open, MaxEnvelope/len(open)))) == nil, "repeated %s is an envelope", open)
	}
	for _, c := range envelopes {
		for cut := range len(c.value) {
			if members := envelopeMembers([]byte(c.value[:cut])); members != nil && strings.TrimSpace(c.value[cut:]) != "" {
				t.Errorf("%s is an envelope by %q", c.value[:cut], members)
			}
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	for _, c := range envelopes {
		f.Add([]byte(c.value))
	}
	for _, value := range ordinary {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, name := range envelopeMembers(value) {
			check.True(t, name != "" && len(name) <= 2*longestAlias+1, "member %q", name)
		}
	})
}

func BenchmarkEnvelope(b *testing.B) {
	row := `{"id":17,"customer":{"id":4,"name":"Customer \"4\""},"items":[1,2.5e3,true,null],"note":"` + strings.Repeat("0123456789abcdef", 60) + `"},`
	order := `{"id":1,"currency":"EUR","total":12.5,"lines":[` + strings.Repeat(row, (64<<10)/len(row)) + `{}]}`
	wide := `{` + strings.Repeat(`"customer_name":"Miller","total":12.5,`, (64<<10)/38) + `"id":1}`
	for name, text := range map[string]string{"Order64KiB": order, "Members64KiB": wide} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				envelopeMembers([]byte(text))
			}
		})
	}
}
