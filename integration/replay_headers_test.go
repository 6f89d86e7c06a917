package integration_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	client "github.com/dlq-manager/dlq-manager/clients/go"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// givingUp is a hand-written consumer. It counts its tries of a record in a header of the record, and gives up at five.
// It writes its dead letter with the headers of the record, and adds those that the record does not have.
type givingUp struct {
	processed int // records that it has tried
	dlq       string
}

// consume tries a record until it gives up; it returns the dead letter.
func (g *givingUp) consume(r *kgo.Record) *kgo.Record {
	tries, _ := strconv.Atoi(header(r, "x-attempts"))
	if tries < 5 {
		g.processed++
	}
	letter := &kgo.Record{Topic: g.dlq, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		if h.Key != "x-attempts" {
			letter.Headers = append(letter.Headers, h)
		}
	}
	for _, h := range []kgo.RecordHeader{
		{Key: "originalTopic", Value: []byte(r.Topic)},
		{Key: "originalPartition", Value: fmt.Append(nil, r.Partition)},
		{Key: "originalOffset", Value: fmt.Append(nil, r.Offset)},
		{Key: "errorMessage", Value: []byte("no stock")},
	} {
		if header(r, h.Key) == "" {
			letter.Headers = append(letter.Headers, h)
		}
	}
	letter.Headers = append(letter.Headers, kgo.RecordHeader{Key: "x-attempts", Value: []byte("5")})
	return letter
}

// A consumer that counts in x-attempts and gives up at 5 must try a replay, so the replay has no such header. When it
// fails again, its dead letter has the position of the replay, not that of the first failure.
func TestOperators_AReplayIsTriedByAConsumerThatCounts(t *testing.T) {
	t.Parallel()
	o := newOperators(t)
	consumer := &givingUp{dlq: o.source}
	o.kafka.produce(
		&kgo.Record{Topic: o.target, Partition: 1, Value: []byte("earlier")},
		&kgo.Record{Topic: o.target, Partition: 1, Key: []byte("k"), Value: []byte("{}"), Headers: []kgo.RecordHeader{
			{Key: "tenant", Value: []byte("a")}, {Key: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")},
		}})
	take := func(offset int64) {
		t.Helper()
		for _, r := range o.kafka.readAll(o.target) {
			if r.Offset == offset && r.Partition == 1 {
				letter := consumer.consume(r)
				o.sent = append(o.sent, letter)
				o.kafka.produce(letter)
			}
		}
		o.takenIn()
	}
	take(1)
	first := o.only()
	detail := check.Must(o.GetMessageWithResponse(t.Context(), first.Id, nil))(t).JSON200
	removed := []string{"originalTopic", "originalPartition", "originalOffset", "errorMessage", "x-attempts"}
	check.Equal(t, detail.ReplayRemoves, removed, "replay_removes")
	check.Equal(t, detail.ReplayKeeps, []string{}, "replay_keeps")
	dry, err := o.CreateRedriveWithResponse(t.Context(), nil, client.RedriveOrder{Ids: &[]uuid.UUID{first.Id}, DryRun: new(true)})
	wantStatus(t, dry, err, http.StatusOK)
	check.Equal(t, dry.JSON200.Groups[0].ReplayRemoves, removed, "replay_removes of the dry run")

	o.retry(first.Id, client.RetryMessageJSONRequestBody{})
	sent := o.kafka.readAll(o.target)
	replay := sent[slices.IndexFunc(sent, func(r *kgo.Record) bool { return header(r, "dlq-message-id") != "" })]
	var names []string
	for _, h := range replay.Headers {
		if !strings.HasPrefix(h.Key, "dlq-") {
			names = append(names, h.Key)
		}
	}
	check.Equal(t, names, []string{"tenant", "traceparent"}, "headers of the replay")
	check.Require(t, replay.Partition == 1 && replay.Offset == 2, "the replay is in partition %d at %d, want 1 at 2", replay.Partition, replay.Offset)

	take(2)
	check.Equal(t, consumer.processed, 2, "tries of the consumer")
	found := o.search(client.SearchMessagesParams{}).Messages
	again := found[slices.IndexFunc(found, func(m client.Message) bool { return m.Id != first.Id })]
	check.True(t, again.OriginalOffset != nil && *again.OriginalOffset == 2, "original offset after the second failure = %v, want 2", again.OriginalOffset)
}

// A producer that writes the position, but not the topic: with the topic of a mapping, of the name or of an operator the
// position is shown, and the replay goes to its partition.
func TestOperators_APositionWithoutATopicIsUsed(t *testing.T) {
	t.Parallel()
	o := &operators{letters: newLetters(newSystem(t))}
	mapped, named, unknown := o.topic("mapped.dlq.v1"), o.topic("named")+"-dlq", o.topic("unknown.dlq.v1")
	for _, topic := range []string{mapped, named, unknown, o.topic("named")} {
		o.kafka.create(topic, partitions)
	}
	environ := []string{
		fmt.Sprintf(`DLQ_KAFKA_TOPIC_MAP=[{pattern: "%s", original: "%s"}]`, mapped, o.target),
		fmt.Sprintf(`DLQ_KAFKA_DLQ_TOPIC_PATTERN=%s-*.dlq.v1,%s`, o.prefix, named),
	}
	o.api = o.startReady("api", environ...)
	o.ClientWithResponses = o.client()
	for _, topic := range []string{mapped, named, unknown} {
		r := &kgo.Record{Topic: topic, Key: []byte("key-of-another-partition"), Value: []byte(topic), Headers: []kgo.RecordHeader{
			{Key: "original_partition", Value: []byte("0")}, {Key: "original_offset", Value: []byte("7")},
		}}
		o.sent = append(o.sent, r)
		o.kafka.produce(r)
	}
	ingester := o.startReady("ingester", environ...)
	o.waitStored()
	ingester.stop()
	for topic, want := range map[string]string{mapped: o.target, named: o.topic("named"), unknown: ""} {
		m := o.search(client.SearchMessagesParams{Topic: &topic}).Messages[0]
		check.Equal(t, m.OriginalTopic, want, "original topic of the dead letter in %s", topic)
		if want == "" {
			want = o.target
			set, err := o.SetOriginWithResponse(t.Context(), m.Id, nil, client.SetOriginJSONRequestBody{OriginalTopic: want})
			wantStatus(t, set, err, http.StatusOK)
			m = o.search(client.SearchMessagesParams{Topic: &topic}).Messages[0]
		}
		check.True(t, m.OriginalPartition != nil && *m.OriginalPartition == 0 && m.OriginalOffset != nil && *m.OriginalOffset == 7,
			"position of the dead letter in %s = %v, %v, want 0 and 7", topic, m.OriginalPartition, m.OriginalOffset)
		o.retry(m.Id, client.RetryMessageJSONRequestBody{})
		sent := o.kafka.readAll(want)
		replay := sent[slices.IndexFunc(sent, func(r *kgo.Record) bool { return string(r.Value) == topic })]
		check.Equal(t, replay.Partition, int32(0), "partition of the replay of %s", topic)
	}
}
