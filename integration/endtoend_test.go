package integration_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

const partitions = 4 // number of partitions of each original and dead-letter topic

var (
	records = pick(5_000, 10_000)
	kills   = pick(6, 12)
	names   = []string{"orders", "payments", "users"}
)

// TestEndToEnd follows thousands of dead letters, some with hostile content, from the producer
// through an ingester that is killed repeatedly, through the API, and back to their original
// topics.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	e := &endToEnd{system: s, random: rand.New(rand.NewPCG(seed, 0)), sent: map[string]*kgo.Record{}}
	for _, name := range names {
		s.kafka.create(s.topic(name+".events.v1"), partitions)
		s.kafka.create(s.topic(name+".dlq.v1"), partitions, anyTimestamp)
	}

	if !t.Run("KilledIngesterLosesAndDoublesNothing", e.ingestUnderKills) {
		return
	}
	e.api = s.startReady("api")
	e.ingester = s.startReady("ingester")
	t.Run("EveryRecordIsListedOnce", e.list)
	t.Run("PoisonIsShownAndRetried", e.poison)
	t.Run("RetryAllSendsTheRest", e.retryAll)
	t.Run("EveryReplayIsByteForByte", e.replays)
	t.Run("GroupResetAddsNothing", e.groupReset)
}

type endToEnd struct {
	*system
	random        *rand.Rand
	api, ingester *process
	sent          map[string]*kgo.Record // records that the test sent, by the value of their header x-seq
	poisoned      []*kgo.Record
	ids           map[string]string // message id by "topic/partition/offset"
}

// as makes the methods of e report failures to the subtest t until t ends.
func (e *endToEnd) as(t *testing.T) {
	whole := e.t
	set := func(t *testing.T) {
		e.t, e.kafka.t = t, t
		for _, p := range []*process{e.api, e.ingester} {
			if p != nil {
				p.t = t
			}
		}
	}
	set(t)
	t.Cleanup(func() { set(whole) })
}

// letter returns a dead letter of Spring's recoverer, with application headers that a replay must
// keep.
func (e *endToEnd) letter(n int) *kgo.Record {
	name := names[n%len(names)]
	r := &kgo.Record{
		Topic:     e.topic(name + ".dlq.v1"),
		Partition: int32(e.random.IntN(partitions)),
		Key:       fmt.Appendf(nil, "%s-%d", name, n%500),
		Value:     fmt.Appendf(nil, `{"id": %d, "name": %q, "amount": 12.50, "note": "grüße"}`, n, name),
		Headers: []kgo.RecordHeader{
			{Key: "x-seq", Value: fmt.Append(nil, n)},
			{Key: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")},
			{Key: "content-type", Value: []byte("application/json")},
		},
	}
	// Every 100th dead letter is hostile; the hostile one of 10 MB is sent only once.
	if set := poisons(); n%100 == 99 && !(n/100%len(set) == len(set)-1 && n > 3000) {
		p := set[n/100%len(set)]
		r.Key, r.Value, r.Timestamp = p.key, p.value, p.at
		r.Headers = append(r.Headers, p.headers...)
		e.poisoned = append(e.poisoned, r)
	}
	r.Headers = append(r.Headers,
		kgo.RecordHeader{Key: "kafka_dlt-original-topic", Value: []byte(e.topic(name + ".events.v1"))},
		kgo.RecordHeader{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, uint32(n%partitions))},
		kgo.RecordHeader{Key: "kafka_dlt-original-offset", Value: binary.BigEndian.AppendUint64(nil, uint64(n))},
		kgo.RecordHeader{Key: "kafka_dlt-exception-fqcn", Value: []byte("java.lang.IllegalStateException")},
		kgo.RecordHeader{Key: "kafka_dlt-exception-message", Value: []byte("stock service is down")},
	)
	e.sent[string(r.Headers[0].Value)] = r
	return r
}

// ingestUnderKills produces records while the ingester is killed at random moments: after a number of rows and, every
// second time, a further pause.
func (e *endToEnd) ingestUnderKills(t *testing.T) {
	e.as(t)
	all := make([]*kgo.Record, records)
	for n := range all {
		all[n] = e.letter(n)
	}
	points := make([]int, kills)
	for n := range points {
		points[n] = e.random.IntN(records / kills)
	}
	for n, point := range points {
		slice := all[n*records/kills : (n+1)*records/kills]
		before := e.rows()
		p := e.start("ingester")
		var producing sync.WaitGroup
		producing.Go(func() {
			for i := 0; i < len(slice); i += 20 {
				e.kafka.produce(slice[i:min(i+20, len(slice))]...)
			}
		})
		eventually(t, fmt.Sprintf("row %d of slice %d is stored", point, n), func() bool {
			return e.rows() >= min(before+point, (n+1)*records/kills-1)
		})
		if n%2 == 1 {
			<-time.After(time.Duration(e.random.IntN(40)) * time.Millisecond) // the kill must come at a random moment
		}
		p.kill()
		producing.Wait()
	}
	p := e.startReady("ingester")
	eventually(t, "every record is stored", func() bool { return e.rows() >= records })
	p.stop()
	if got := e.rows(); got != records {
		t.Errorf("%d rows after %d kills, want %d", got, kills, records)
	}
	var distinct int
	check.NoError(t, e.db.Get(&distinct, `SELECT count(DISTINCT (dlq_incarnation_id, dlq_partition, dlq_offset)) FROM dlq.dlq_messages`))
	check.True(t, distinct == records, "%d distinct positions, want %d", distinct, records)
}

func (e *endToEnd) rows() (n int) {
	e.t.Helper()
	check.NoError(e.t, e.db.Get(&n, `SELECT count(*) FROM dlq.dlq_messages`))
	return n
}

type listed struct {
	Messages []struct {
		ID            string `json:"id"`
		OriginalTopic string `json:"original_topic"`
		ErrorMessage  string `json:"error_message"`
		Status        string `json:"status"`
		Dialect       string `json:"dialect"`
		DLQTopic      string `json:"dlq_topic"`
		DLQPartition  int32  `json:"dlq_partition"`
		DLQOffset     int64  `json:"dlq_offset"`
	} `json:"messages"`
	Pagination struct {
		Total   int  `json:"total_count"`
		HasNext bool `json:"has_next"`
	} `json:"pagination"`
}

// list reads the API's list of each dead-letter topic, page by page. Each record must be in it once, with the right
// fields.
func (e *endToEnd) list(t *testing.T) {
	e.as(t)
	e.ids = map[string]string{}
	for _, name := range names {
		for page, more := 1, true; more; page++ {
			var got listed
			e.api.call(http.MethodGet, fmt.Sprintf("/api/v1/dlq/%s?page=%d&page_size=500", e.topic(name+".dlq.v1"), page), 200, &got)
			for _, m := range got.Messages {
				at := fmt.Sprintf("%s/%d/%d", m.DLQTopic, m.DLQPartition, m.DLQOffset)
				check.Require(t, e.ids[at] == "", "%s is listed twice", at)
				e.ids[at] = m.ID
				if m.OriginalTopic != e.topic(name+".events.v1") || m.Status != "PENDING" || m.Dialect != "spring-dlt" {
					t.Fatalf("listed %+v, want PENDING, spring-dlt, of %s", m, e.topic(name+".events.v1"))
				}
			}
			more = got.Pagination.HasNext
			if page > records/500+1 {
				t.Fatal("pages do not end")
			}
		}
	}
	for _, r := range e.sent {
		if e.ids[position(r)] == "" {
			t.Errorf("%s is not listed", position(r))
		}
	}
	if len(e.ids) != records {
		t.Errorf("%d messages are listed, want %d", len(e.ids), records)
	}
}

func position(r *kgo.Record) string { return fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset) }

// poison reads each hostile message from the API and retries it, one message at a time.
func (e *endToEnd) poison(t *testing.T) {
	e.as(t)
	if len(e.poisoned) < len(poisons()) {
		t.Fatalf("%d poisonous records were sent, want at least %d", len(e.poisoned), len(poisons()))
	}
	for _, r := range e.poisoned {
		path := "/api/v1/dlq/messages/" + e.ids[position(r)]
		var shown struct {
			At  *time.Time `json:"dlq_timestamp"`
			Raw *int64     `json:"dlq_timestamp_ms"`
		}
		e.api.call(http.MethodGet, path, 200, &shown)
		if year := r.Timestamp.UTC().Year(); year >= 1970 && year <= 9999 {
			if shown.At == nil || !shown.At.Equal(r.Timestamp) || shown.Raw != nil {
				t.Errorf("%s has the timestamp %v, and as a number %t, want %v alone", position(r), shown.At, shown.Raw != nil, r.Timestamp)
			}
		} else if shown.At != nil || shown.Raw == nil || *shown.Raw != r.Timestamp.UnixMilli() {
			t.Errorf("%s has the timestamp %v, and as a number %t, want %d ms alone", position(r), shown.At, shown.Raw != nil, r.Timestamp.UnixMilli())
		}
		want := 200
		if r.Value == nil {
			want = 204
		}
		if got := e.api.call(http.MethodGet, path+"/payload", want, nil); !bytes.Equal(got, r.Value) {
			t.Errorf("payload of %s: %d bytes, want %d", position(r), len(got), len(r.Value))
		}
		var answer struct{ Status, Message string }
		e.api.call(http.MethodPost, path+"/retry", 200, &answer)
		if answer.Status != "RESOLVED" || answer.Message != "message retry initiated" {
			t.Errorf("retry of %s answered %+v", position(r), answer)
		}
	}
}

func (e *endToEnd) retryAll(t *testing.T) {
	e.as(t)
	total := 0
	for _, name := range names {
		var got struct {
			Retried int
			Message string
		}
		topic := e.topic(name + ".dlq.v1")
		e.api.call(http.MethodPost, "/api/v1/dlq/"+topic+"/retry-all", 200, &got)
		if want := fmt.Sprintf("%d messages retried in topic %s", got.Retried, topic); got.Message != want {
			t.Errorf("message %q, want %q", got.Message, want)
		}
		total += got.Retried
	}
	if want := records - len(e.poisoned); total != want {
		t.Errorf("retried %d, want %d", total, want)
	}
}

// replays compares the records that were sent to the original topics with their dead letters.
func (e *endToEnd) replays(t *testing.T) {
	e.as(t)
	var topics []string
	for _, name := range names {
		topics = append(topics, e.topic(name+".events.v1"))
	}
	seen := map[string]bool{}
	for _, r := range e.kafka.readAll(topics...) {
		seq := header(r, "x-seq")
		sent := e.sent[seq]
		if sent == nil || seen[seq] {
			t.Fatalf("replay %q of %s is unknown or came twice", seq, position(r))
		}
		seen[seq] = true
		if got, want := digest(r), digest(sent); got != want {
			t.Errorf("replay %s: digest %s, want %s", seq, got, want)
		}
		if want := e.ids[position(sent)]; header(r, "dlq-message-id") != want {
			t.Errorf("replay %s: dlq-message-id %q, want %q", seq, header(r, "dlq-message-id"), want)
		}
		if want := int32(binary.BigEndian.Uint32([]byte(header(sent, "kafka_dlt-original-partition")))); r.Partition != want {
			t.Errorf("replay %s: partition %d, want %d", seq, r.Partition, want)
		}
	}
	if len(seen) != records {
		t.Errorf("%d replays, want %d", len(seen), records)
	}
}

// groupReset deletes the consumer group's offsets after messages were deleted and archived. The ingester then reads the
// logs again from the start, and must store none of the old records again. A new record at the end of each log shows
// when the ingester has read the whole log.
func (e *endToEnd) groupReset(t *testing.T) {
	e.as(t)
	deleted := 0
	for _, r := range e.poisoned[:10] {
		e.api.call(http.MethodDelete, "/api/v1/dlq/messages/"+e.ids[position(r)], 200, nil)
		deleted++
	}
	if _, err := e.db.Exec(`UPDATE dlq.dlq_messages SET updated_at = now() - interval '40 days'
		WHERE id IN (SELECT id FROM dlq.dlq_messages ORDER BY id LIMIT 3000)`); err != nil {
		t.Fatal(err)
	}
	e.must("archiver")
	var archived int
	check.NoError(t, e.db.Get(&archived, `SELECT count(*) FROM dlq.dlq_messages_archive`))
	check.True(t, archived == 3000, "%d rows were archived, want 3000", archived)
	before := e.rows()
	check.True(t, before == records-deleted-archived, "%d rows are left, want %d", before, records-deleted-archived)

	e.ingester.stop()
	e.kafka.deleteGroup(e.prefix)
	e.startReady("ingester")
	fresh := 0
	for _, name := range names {
		for p := range partitions {
			e.kafka.produce(&kgo.Record{Topic: e.topic(name + ".dlq.v1"), Partition: int32(p), Value: []byte("fresh")})
			fresh++
		}
	}
	eventually(t, "the fresh records are stored", func() bool { return e.rows() >= before+fresh })
	if got := e.rows(); got != before+fresh {
		t.Errorf("%d rows after the group was reset, want %d", got, before+fresh)
	}
}
