package integration_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	client "github.com/dlq-manager/dlq-manager/clients/go"
)

// followPointers is a setting that makes dlq-manager read the records to which the pointers in the test's dead-letter
// topics point.
const followPointers = "DLQ_KAFKA_POINTER_TOPICS=*.dlq.v1"

// pointer produces the record that a broker writes for a share group that copies no data: without
// key and value, with the position of the failed record in headers.
func (o *operators) pointer(to *kgo.Record) {
	r := &kgo.Record{Topic: o.source, Headers: []kgo.RecordHeader{
		{Key: "__dlq.errors.topic", Value: []byte(to.Topic)},
		{Key: "__dlq.errors.partition", Value: fmt.Append(nil, to.Partition)},
		{Key: "__dlq.errors.offset", Value: fmt.Append(nil, to.Offset)},
		{Key: "__dlq.errors.group", Value: []byte("share-1")},
		{Key: "__dlq.errors.delivery.count", Value: []byte("5")},
		{Key: "__dlq.errors.message", Value: []byte("delivery count exceeded")},
	}}
	o.sent = append(o.sent, r)
	o.kafka.produce(r)
}

// A broker with KIP-1191 can write pointers: dead letters without a value that name the failed record by its position.
// A retry of a pointer must not publish the missing value, which would be a tombstone. It must publish the record that
// the pointer names.
func TestOperators_APointerSendsTheRecordItPointsTo(t *testing.T) {
	t.Parallel()
	o := newOperators(t, followPointers)
	source := &kgo.Record{
		Topic: o.target, Partition: 1, Key: []byte("order-7"), Value: []byte("{\"id\":  7}\xff"),
		Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("t-7")}, {Key: "trace", Value: nil}},
	}
	o.kafka.produce(&kgo.Record{Topic: o.target, Partition: 1, Value: []byte("another")}, source)
	o.pointer(source)
	o.takenIn()
	m := o.only()
	if m.PayloadOmitted == nil || *m.PayloadOmitted != "pointer" || m.OriginalTopic != o.target || *m.Dialect != "sharegroup" {
		t.Errorf("message %+v, want a pointer to %s", m, o.target)
	}
	raw, err := o.GetPayloadWithResponse(t.Context(), m.Id)
	wantStatus(t, raw, err, http.StatusOK)
	if !bytes.Equal(raw.Body, source.Value) {
		t.Errorf("the value is %q, want %q", raw.Body, source.Value)
	}
	o.retry(m.Id, client.RetryMessageJSONRequestBody{})
	sent := o.kafka.readAll(o.target)
	if len(sent) != 3 {
		t.Fatalf("%d records in the topic, want the two and one that was sent", len(sent))
	}
	for _, r := range sent {
		if header(r, "dlq-message-id") != m.Id.String() {
			continue
		}
		if !bytes.Equal(r.Value, source.Value) || string(r.Key) != "order-7" || r.Partition != 1 || !slices.EqualFunc(r.Headers[:2], source.Headers, sameHeader) {
			t.Errorf("sent %+v, want the source's record unchanged", r)
		}
		return
	}
	t.Error("the message's record was not sent")
}

func sameHeader(a, b kgo.RecordHeader) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }

// When the topic to which a pointer points was deleted, the message shows this reason, and a retry sends nothing.
func TestOperators_APointerToWhatIsGoneSaysSo(t *testing.T) {
	t.Parallel()
	o := newOperators(t, followPointers)
	source := &kgo.Record{Topic: o.target, Key: []byte("order-7"), Value: []byte(`{"id": 7}`)}
	o.kafka.produce(source)
	o.pointer(source)
	o.takenIn()
	id := o.only().Id
	o.kafka.delete(o.target)
	eventually(t, "the broker has deleted the topic", func() bool {
		res, err := o.GetPayloadWithResponse(t.Context(), id)
		return err == nil && res.StatusCode() == http.StatusNotFound
	})
	res, err := o.RetryMessageWithResponse(t.Context(), id, nil, client.RetryMessageJSONRequestBody{})
	wantStatus(t, res, err, http.StatusConflict)
	if !bytes.Contains(res.Body, []byte("SYS_DLQ_CONFLICT")) || !bytes.Contains(res.Body, []byte(o.target)) {
		t.Errorf("retry = %s, want the reason with the topic", res.Body)
	}
	if m := o.only(); m.Status != "PENDING" || m.RetryCount != 0 {
		t.Errorf("afterwards %s with %d attempts, want PENDING as before", m.Status, m.RetryCount)
	}
}

// A forged pointer can name any record of the cluster. dlq-manager follows a pointer only where the configuration
// allows it, and never into Kafka's internal topics. Each record that it reads is in the audit trail.
func TestOperators_AForgedPointerReadsNothing(t *testing.T) {
	t.Parallel()
	t.Run("of a dead-letter topic that is not listed", func(t *testing.T) {
		t.Parallel()
		o := newOperators(t)
		secret := &kgo.Record{Topic: o.target, Value: []byte("never dead-lettered")}
		o.kafka.produce(secret)
		o.pointer(secret)
		o.takenIn()
		o.wantNotFollowed("kafka.pointer_topics")
	})
	t.Run("to an internal topic", func(t *testing.T) {
		t.Parallel()
		o := newOperators(t, followPointers)
		o.pointer(&kgo.Record{Topic: "__consumer_offsets"})
		o.takenIn()
		o.wantNotFollowed("internal")
	})
	t.Run("the read of an allowed pointer is in the audit trail", func(t *testing.T) {
		t.Parallel()
		o := newOperators(t, followPointers)
		source := &kgo.Record{Topic: o.target, Partition: 1, Value: []byte("it")}
		o.kafka.produce(source)
		o.pointer(source)
		o.takenIn()
		id := o.only().Id
		raw, err := o.GetPayloadWithResponse(t.Context(), id)
		wantStatus(t, raw, err, http.StatusOK)
		reads := o.pointerReads(id)
		if len(reads) != 1 || reads[0].To == nil || *reads[0].To != o.target+", partition 1, offset 0" || *reads[0].From != o.source {
			t.Errorf("the trail has %+v, want the read of %s", reads, o.target)
		}
	})
}

func (o *operators) wantNotFollowed(reason string) {
	o.t.Helper()
	id := o.only().Id
	raw, err := o.GetPayloadWithResponse(o.t.Context(), id)
	wantStatus(o.t, raw, err, http.StatusConflict)
	if !bytes.Contains(raw.Body, []byte(reason)) {
		o.t.Errorf("the answer is %s, want the reason with %s", raw.Body, reason)
	}
	if reads := o.pointerReads(id); len(reads) != 0 {
		o.t.Errorf("the trail has %+v of a record that was not read", reads)
	}
	res, err := o.RetryMessageWithResponse(o.t.Context(), id, nil, client.RetryMessageJSONRequestBody{})
	wantStatus(o.t, res, err, http.StatusConflict)
	done := o.redrive(client.RedriveOrder{Ids: &[]uuid.UUID{id}})
	if done.Skipped != 1 || done.Succeeded != 0 {
		o.t.Errorf("a redrive sent %d and skipped %d, want it skipped", done.Succeeded, done.Skipped)
	}
}

func (o *operators) pointerReads(id uuid.UUID) []client.Change {
	o.t.Helper()
	res, err := o.ListChangesWithResponse(o.t.Context(), &client.ListChangesParams{ObjectId: &id, Action: new(client.Action("read_pointer"))})
	wantStatus(o.t, res, err, http.StatusOK)
	return res.JSON200.Changes
}
