package shop

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The functions of this file return the headers of a dead letter, byte for byte as the framework writes them. No
// function changes the record.

const springWrapper = "org.springframework.kafka.listener.ListenerExecutionFailedException"

// springHeaders returns a function that makes the headers of a dead letter as Spring's DeadLetterPublishingRecoverer
// does. First come the headers of the record and the number of its deliveries. Then come the headers of the record's
// position, which Spring adds to those of earlier failures. Last come the headers of the exception, which replace those
// of an earlier failure. Numbers are binary, big-endian. The parameter listener is the Java method that failed.
func springHeaders(group, listener string) func(*kgo.Record, *failure) []kgo.RecordHeader {
	return func(rec *kgo.Record, f *failure) []kgo.RecordHeader {
		thrown := &throwable{
			class:   springWrapper,
			message: "Listener method 'public void com.example.shop." + listener + "' threw exception",
			at: []string{
				"org.springframework.kafka.listener.adapter.MessagingMessageListenerAdapter.invokeHandler(MessagingMessageListenerAdapter.java:465)",
				"org.springframework.kafka.listener.KafkaMessageListenerContainer$ListenerConsumer.doInvokeOnMessage(KafkaMessageListenerContainer.java:2901)",
				"java.base/java.lang.Thread.run(Thread.java:1583)",
			},
			cause: f.thrown,
		}
		list := replaced(rec.Headers, "kafka_deliveryAttempt", int32Bytes(int32(f.attempts)))
		list = append(list,
			text("kafka_dlt-original-topic", rec.Topic),
			kgo.RecordHeader{Key: "kafka_dlt-original-partition", Value: int32Bytes(rec.Partition)},
			kgo.RecordHeader{Key: "kafka_dlt-original-offset", Value: int64Bytes(rec.Offset)},
			kgo.RecordHeader{Key: "kafka_dlt-original-timestamp", Value: int64Bytes(rec.Timestamp.UnixMilli())},
			text("kafka_dlt-original-timestamp-type", "CreateTime"),
			text("kafka_dlt-original-consumer-group", group),
		)
		list = replaced(list, "kafka_dlt-exception-fqcn", []byte(thrown.class))
		list = replaced(list, "kafka_dlt-exception-cause-fqcn", []byte(thrown.root().class))
		list = replaced(list, "kafka_dlt-exception-message", []byte(thrown.message+"; "+thrown.root().message))
		return replaced(list, "kafka_dlt-exception-stacktrace", []byte(thrown.trace()))
	}
}

// smallryeHeaders returns the headers of a dead letter as SmallRye writes them: first SmallRye's own headers, with
// numbers as text, then the headers of the record.
func smallryeHeaders(rec *kgo.Record, f *failure) []kgo.RecordHeader {
	list := []kgo.RecordHeader{
		text("dead-letter-exception-class-name", f.thrown.class),
		text("dead-letter-topic", rec.Topic),
		text("dead-letter-partition", strconv.Itoa(int(rec.Partition))),
		text("dead-letter-offset", strconv.FormatInt(rec.Offset, 10)),
		text("dead-letter-reason", f.thrown.message),
	}
	if cause := f.thrown.cause; cause != nil {
		list = append(list, text("dead-letter-cause-class-name", cause.class), text("dead-letter-cause", cause.message))
	}
	return append(list, rec.Headers...)
}

// connectHeaders returns a function that makes the headers of a dead letter as a Kafka Connect sink with context
// headers does: first the headers of the record, then Kafka Connect's own headers, all as text.
func connectHeaders(connector string) func(*kgo.Record, *failure) []kgo.RecordHeader {
	return func(rec *kgo.Record, f *failure) []kgo.RecordHeader {
		const prefix = "__connect.errors."
		return append(slices.Clone(rec.Headers),
			text(prefix+"topic", rec.Topic),
			text(prefix+"partition", strconv.Itoa(int(rec.Partition))),
			text(prefix+"offset", strconv.FormatInt(rec.Offset, 10)),
			text(prefix+"connector.name", connector),
			text(prefix+"task.id", "0"),
			text(prefix+"stage", f.stage),
			text(prefix+"class.name", f.executing),
			text(prefix+"exception.class.name", f.thrown.class),
			text(prefix+"exception.message", f.thrown.message),
			text(prefix+"exception.stacktrace", f.thrown.trace()),
		)
	}
}

// plainHeaders adds the two headers that an application without a framework's help writes.
func plainHeaders(rec *kgo.Record, f *failure) []kgo.RecordHeader {
	return append(slices.Clone(rec.Headers), text("original_topic", rec.Topic), text("error", f.plain))
}

func text(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}

// replaced returns a new list in which the header exists once, at the end.
func replaced(headers []kgo.RecordHeader, key string, value []byte) []kgo.RecordHeader {
	list := make([]kgo.RecordHeader, 0, len(headers)+1)
	for _, h := range headers {
		if h.Key != key {
			list = append(list, h)
		}
	}
	return append(list, kgo.RecordHeader{Key: key, Value: value})
}

func int32Bytes(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
func int64Bytes(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
