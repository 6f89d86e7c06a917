package browser

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
)

// Letter is a dead letter that a flow creates, in Spring's format.
type Letter struct {
	Key, Value          string
	Class, Error, Stack string
	Group               string // name of the consumer group whose member failed
	Headers             []kgo.RecordHeader

	// Original is the original topic that the headers name, when it must differ from the topic in which the record
	// failed. If it is "-", the dead letter has none of Spring's headers.
	Original string
}

// Stored is a message as the API returns it.
type Stored struct {
	ID      string `json:"id"`
	GroupID string `json:"group_id"`
	Status  string `json:"status"`
	Outcome string `json:"outcome"`
	Topic   string `json:"original_topic"`
}

// Topics creates an original topic and its dead-letter topic, and returns their names when both exist.
func (s *Site) Topics(name string) (original, dead string) {
	s.t.Helper()
	original, dead = s.Prefix+name+".events.v1", s.Prefix+name+".dlq.v1"
	s.createTopics(original, dead)
	return original, dead
}

// maxRecord is the maximum record size of the flows' topics.
const maxRecord = 16 << 20

func (s *Site) createTopics(names ...string) {
	s.t.Helper()
	s.withKafka(func(ctx context.Context, client *kgo.Client) error {
		request := kmsg.NewPtrCreateTopicsRequest()
		request.TimeoutMillis = int32(Patience.Milliseconds())
		for _, topic := range names {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = topic, 1, 1
			limit := kmsg.NewCreateTopicsRequestTopicConfig()
			limit.Name, limit.Value = "max.message.bytes", kmsg.StringPtr(strconv.Itoa(maxRecord))
			t.Configs = append(t.Configs, limit)
			request.Topics = append(request.Topics, t)
		}
		answer, err := request.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		for _, topic := range answer.Topics {
			if err := kerr.ErrorForCode(topic.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
				return err
			}
		}
		return nil
	})
}

// Fail dead-letters records of a topic that Topics has created, and waits until searches find all of them. It returns
// the messages of the topic, the latest first, at most 200.
func (s *Site) Fail(name string, letters ...Letter) []Stored {
	s.t.Helper()
	original, dead := s.Prefix+name+".events.v1", s.Prefix+name+".dlq.v1"
	before := len(s.Messages(dead))
	records := make([]*kgo.Record, len(letters))
	for i, letter := range letters {
		records[i] = letter.record(original, dead, before+i)
	}
	s.withKafka(func(ctx context.Context, client *kgo.Client) error {
		return client.ProduceSync(ctx, records...).FirstErr()
	})
	var stored []Stored
	s.await("the dead letters of "+name+" can be searched for", func() bool {
		stored = s.Messages(dead)
		for _, m := range stored {
			if m.GroupID == "" {
				return false
			}
		}
		return len(stored) >= before+len(letters)
	})
	return stored
}

func (l Letter) record(original, dead string, offset int) *kgo.Record {
	r := &kgo.Record{Topic: dead, Value: []byte(l.Value)}
	if l.Key != "" {
		r.Key = []byte(l.Key)
	}
	add := func(name, value string) {
		if value != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
	}
	if l.Original != "" {
		original = l.Original
	}
	if original != "-" {
		add("kafka_dlt-original-topic", original)
		add("kafka_dlt-original-partition", string(binary.BigEndian.AppendUint32(nil, 0)))
		add("kafka_dlt-original-offset", string(binary.BigEndian.AppendUint64(nil, uint64(offset))))
		add("kafka_dlt-original-consumer-group", l.Group)
		add("kafka_dlt-exception-fqcn", l.Class)
		add("kafka_dlt-exception-message", l.Error)
		add("kafka_dlt-exception-stacktrace", l.Stack)
	}
	r.Headers = append(r.Headers, l.Headers...)
	return r
}

// Messages returns the messages of an original or dead-letter topic, the latest first, at most 200.
func (s *Site) Messages(topic string) []Stored {
	s.t.Helper()
	var found struct {
		Messages []Stored `json:"messages"`
	}
	s.Call(http.MethodGet, "/api/v1/messages?limit=200&topic="+url.QueryEscape(topic), nil, &found)
	return found.Messages
}

// AwaitMessages waits until ok accepts the API's messages of a topic.
func (s *Site) AwaitMessages(what, topic string, ok func([]Stored) bool) {
	s.t.Helper()
	s.await(what, func() bool { return ok(s.Messages(topic)) })
}

// withKafka calls do with a Kafka client that it opens and closes.
func (s *Site) withKafka(do func(context.Context, *kgo.Client) error) {
	s.t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(stacktest.Kafka(s.t)...), kgo.ProducerBatchMaxBytes(maxRecord),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.UnknownTopicRetries(50),
	)
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), sitePatience)
	defer cancel()
	if err := do(ctx, client); err != nil {
		s.t.Fatalf("kafka: %v", err)
	}
}

// Sent waits until a topic has at least n records, and returns their values in order.
func (s *Site) Sent(topic string, n int) (values []string) {
	s.t.Helper()
	s.withKafka(func(ctx context.Context, client *kgo.Client) error {
		client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}})
		for len(values) < n {
			fetches := client.PollFetches(ctx)
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("%d records of %s came, want %d: %w", len(values), topic, n, err)
			}
			fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
		}
		return nil
	})
	return values
}
