package integration_test

import (
	"encoding/binary"
	"net/http"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestConsumerDiedBetweenDeadLetterAndCommit: a consumer that dies between its dead letter and its commit reads the record
// again and writes a second dead letter. The two are one message, and one replay is sent. A third one, which arrives
// after the replay, is left out of bulk retry, and sent by a retry of its own.
func TestConsumerDiedBetweenDeadLetterAndCommit(t *testing.T) {
	t.Parallel()
	l := newLetters(newSystem(t))
	l.must("api", "migrate", "up")
	failed := func(partition int32, text string) *kgo.Record {
		return &kgo.Record{
			Topic: l.source, Partition: partition, Key: []byte("order-1"), Value: []byte(`{"id": 1}`),
			Headers: []kgo.RecordHeader{
				{Key: "kafka_dlt-original-topic", Value: []byte(l.target)},
				{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, 0)},
				{Key: "kafka_dlt-original-offset", Value: binary.BigEndian.AppendUint64(nil, 0)},
				{Key: "kafka_dlt-original-consumer-group", Value: []byte("billing")},
				{Key: "kafka_dlt-exception-message", Value: []byte(text)},
				{Key: "tenant", Value: []byte("a")},
			},
		}
	}
	l.kafka.produce(failed(1, "boom"), failed(2, "boom"), failed(1, "boom again"))
	l.startReady("ingester")
	api := l.startReady("api")
	type message struct {
		ID         string  `json:"id"`
		Duplicates int     `json:"duplicates"`
		RepeatOf   *string `json:"repeat_of"`
		ParentID   *string `json:"parent_id"`
		Repeats    []struct {
			Partition int32 `json:"partition"`
			Offset    int64 `json:"offset"`
		} `json:"repeats"`
	}
	var list struct {
		Messages []message `json:"messages"`
	}
	messages := func() []message {
		list.Messages = nil
		api.call(http.MethodGet, "/api/v1/messages?topic="+l.source, http.StatusOK, &list)
		return list.Messages
	}
	eventually(t, "the repeats are counted", func() bool { m := messages(); return len(m) == 1 && m[0].Duplicates == 2 })
	first := messages()[0]
	check.Len(t, first.Repeats, 2, "positions of the repeats")

	replays := func() int { return len(l.kafka.readAll(l.target)) }
	api.call(http.MethodPost, "/api/v1/dlq/"+l.source+"/retry-all", http.StatusOK, nil)
	eventually(t, "the message is sent", func() bool { return l.with("RESOLVED") == 1 })
	check.Same(t, replays(), 1, "replays")

	l.kafka.produce(failed(2, "boom"))
	eventually(t, "the repeat of the sent message is stored", func() bool { return len(messages()) == 2 })
	repeat := messages()[0]
	check.Require(t, repeat.RepeatOf != nil && *repeat.RepeatOf == first.ID && repeat.ParentID == nil, "the repeat is %+v, want one of %s", repeat, first.ID)
	api.call(http.MethodPost, "/api/v1/dlq/"+l.source+"/retry-all", http.StatusOK, nil)
	check.Same(t, l.with("RESOLVED"), 1, "messages sent by bulk retry")
	api.call(http.MethodPost, "/api/v1/dlq/messages/"+repeat.ID+"/retry", http.StatusOK, nil)
	check.Same(t, replays(), 2, "replays")
}
