package integration_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestNewTopicIsRead: a topic that is created while the ingester runs is read within 30 seconds.
func TestNewTopicIsRead(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	api := s.startReady("api")
	s.startReady("ingester")
	topic := s.topic("late.dlq.v1")
	s.kafka.create(topic, 3)
	for p := range int32(3) {
		s.kafka.produce(&kgo.Record{Topic: topic, Partition: p, Value: []byte(`{}`)})
	}
	eventuallyAs(t, newTopicIsRead, "all three records are listed", func() bool { return total(api, topic) == 3 })
}

// TestTopicMadeAgainLosesNothing: a topic that is deleted and created again starts at offset 0, and
// all of its new records are stored.
func TestTopicMadeAgainLosesNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	api := s.startReady("api")
	s.startReady("ingester")
	topic := s.topic("reborn.dlq.v1")
	for life := 1; life <= 3; life++ {
		s.kafka = newCluster(t, s.brokers) // a new client, because the old one remembers the id of the deleted topic
		s.kafka.create(topic, 2)
		for n := range 20 {
			s.kafka.produce(&kgo.Record{Topic: topic, Partition: int32(n % 2), Value: fmt.Appendf(nil, `{"life": %d}`, life)})
		}
		eventually(t, fmt.Sprintf("the records of incarnation %d are listed", life), func() bool {
			return total(api, topic) == 20*life
		})
		s.kafka.delete(topic)
	}
}

// total returns how many messages the API lists for a dead-letter topic; -1 when the status is not 200.
func total(api *process, topic string) int {
	var got listed
	status, _ := api.try(http.MethodGet, "/api/v1/dlq/"+topic, nil)
	if status != http.StatusOK {
		return -1
	}
	api.call(http.MethodGet, "/api/v1/dlq/"+topic, 200, &got)
	return got.Pagination.Total
}

// TestFiftyRetriesPublishOnce: fifty operators retry the same message at the same moment, on two replicas. One of the
// retries publishes the record; all other retries are refused.
func TestFiftyRetriesPublishOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	apis := []*process{s.startReady("api"), s.startReady("api")}
	ingester := s.startReady("ingester")
	source, target := s.topic("orders.dlq.v1"), s.topic("orders.v1")
	s.kafka.create(target, 3) // first, so that the ingester, when it finds the source, also knows this topic
	s.kafka.create(source, 1)
	s.kafka.produce(&kgo.Record{Topic: source, Value: []byte(`{"order": 1}`)})
	eventually(t, "the message is listed", func() bool { return total(apis[0], source) == 1 })
	ingester.stop()
	var got listed
	apis[0].call(http.MethodGet, "/api/v1/dlq/"+source, 200, &got)
	if m := got.Messages[0]; m.OriginalTopic != target {
		t.Fatalf("original topic %q, want %q, by name", m.OriginalTopic, target)
	}

	statuses := make(chan int, 50)
	start := make(chan struct{})
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			<-start
			status, _ := apis[n%2].try(http.MethodPost, "/api/v1/dlq/messages/"+got.Messages[0].ID+"/retry", nil)
			statuses <- status
		})
	}
	close(start)
	all.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	if count[200] != 1 || count[409] != 49 {
		t.Errorf("answers %v, want 200 once and 409 forty-nine times", count)
	}
	if sent := s.kafka.readAll(target); len(sent) != 1 {
		t.Errorf("%d records were published, want 1", len(sent))
	}
}
