package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Texts in records and in operators' edits that must appear in no log.
const (
	secretKey    = "key-7f3a9c"
	secretValue  = "value-51be20"
	secretHeader = "header-c4d811"
	secretEdit   = "edited-90aa3e"
)

// dialect returns a dead-letter topic and the headers of a dead letter; n chooses the dialect of the headers.
func (s *soak) dialect(n int) (source string, headers []kgo.RecordHeader) {
	header := func(name, value string) kgo.RecordHeader {
		return kgo.RecordHeader{Key: name, Value: []byte(value)}
	}
	orders, payments := s.targets[0], s.targets[1]
	switch n % 6 {
	case 0:
		return s.sources[0], spring(orders, "stock service is down")
	case 1:
		return s.sources[0], []kgo.RecordHeader{header("original_topic", orders), header("error", "no such article")}
	case 2:
		return s.sources[1], []kgo.RecordHeader{
			header("__connect.errors.topic", payments), header("__connect.errors.partition", "1"), header("__connect.errors.offset", "7"),
			header("__connect.errors.exception.class.name", "java.lang.IllegalStateException"), header("__connect.errors.exception.message", "the sink is full"),
		}
	case 3:
		return s.sources[1], []kgo.RecordHeader{
			header("dead-letter-reason", "limit reached"), header("dead-letter-topic", payments),
			header("dead-letter-partition", "0"), header("dead-letter-offset", "12"),
		}
	case 4:
		return s.sources[1], []kgo.RecordHeader{
			header("source_topic", payments), header("source_partition", "2"), header("source_offset", "3"), header("source_attempts", "2"),
		}
	default: // without headers; the original topic follows from the name of the dead-letter topic
		return s.sources[0], nil
	}
}

func spring(topic, message string) []kgo.RecordHeader {
	return []kgo.RecordHeader{
		{Key: "kafka_dlt-original-topic", Value: []byte(topic)},
		{Key: "kafka_dlt-original-partition", Value: []byte{0, 0, 0, 1}},
		{Key: "kafka_dlt-exception-message", Value: []byte(message)},
	}
}

// produce writes dead letters until ctx ends.
func (s *soak) produce(ctx context.Context, random *rand.Rand) {
	for n := 0; ; {
		var batch []*kgo.Record
		for range 1 + random.IntN(10) {
			source, headers := s.dialect(random.IntN(6))
			batch = append(batch, &kgo.Record{
				Topic: source, Partition: int32(random.IntN(partitions)),
				Key:   fmt.Appendf(nil, "%s-%d", secretKey, random.IntN(200)),
				Value: fmt.Appendf(nil, `{"n": %d, "secret": %q}`, n, secretValue),
				Headers: append([]kgo.RecordHeader{
					{Key: "x-seq", Value: fmt.Append(nil, n)}, {Key: "x-secret", Value: []byte(secretHeader)},
				}, headers...),
			})
			n++
		}
		if !s.write(ctx, batch...) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(pick(50, 20)+random.IntN(pick(250, 160))) * time.Millisecond):
		}
	}
}

// write writes records to Kafka. It returns false when ctx has ended. Kafka may or may not have appended the records
// that it has not acknowledged by then, so the test reads the topic at its end to find out.
func (s *soak) write(ctx context.Context, batch ...*kgo.Record) bool {
	for _, result := range s.kafka.client.ProduceSync(ctx, batch...) {
		if result.Err == nil {
			s.took(result.Record)
			s.records.Add(1)
		} else if ctx.Err() == nil {
			s.t.Errorf("produce: %v", result.Err)
		}
	}
	return ctx.Err() == nil
}

// consume consumes the original topics. It fails on about one record in four and sends this record to the first
// dead-letter topic as Spring does, with all headers of the record.
func (s *soak) consume(ctx context.Context, random *rand.Rand) {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumeTopics(s.targets...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		s.t.Errorf("consumer: %v", err)
		return
	}
	defer client.Close()
	for ctx.Err() == nil {
		for _, r := range client.PollFetches(ctx).Records() {
			if random.IntN(4) > 0 {
				continue
			}
			again := &kgo.Record{
				Topic: s.sources[0], Partition: int32(random.IntN(partitions)), Key: r.Key, Value: r.Value,
				Headers: append(append([]kgo.RecordHeader{}, r.Headers...), spring(r.Topic, "still down")...),
			}
			if !s.write(ctx, again) {
				return
			}
			s.comebacks.Add(1)
		}
	}
}

// ask sends an operator's request to one of the APIs. Status 0 means no answer.
func (s *soak) ask(at *place, method, path, body string, header ...string) (int, []byte) {
	return at.process.Load().try(method, path, []byte(body), append(header, "Authorization", "Bearer "+s.token)...)
}

// operator is a client that performs random actions through the APIs.
type operator struct {
	*soak
	random *rand.Rand
	ctx    context.Context
	n      int
}

func (s *soak) operate(ctx context.Context, random *rand.Rand) {
	o := &operator{soak: s, random: random, ctx: ctx}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(10+random.IntN(150)) * time.Millisecond):
		}
		o.n++
		o.something()
	}
}

func (o *operator) something() {
	switch o.random.IntN(20) {
	case 0, 1, 2:
		o.request("list", http.MethodGet, o.one(
			"/api/v1/dlq/"+o.sources[0], "/api/v1/topics", "/api/v1/groups", "/api/v1/audit?limit=20", "/api/v1/redrives",
			"/api/v1/messages?q=down&limit=20", "/api/v1/messages?status=DEAD&count=exact", "/api/v1/archive?limit=10",
		), "")
	case 3, 4, 5, 6, 7, 8:
		o.retry("retry", "")
	case 9:
		o.retry("edit", fmt.Sprintf(`{"edit": {"payload": {"secret": %q, "n": %d}}, "reason": "the number was wrong"}`, secretEdit, o.n))
	case 10, 11:
		o.request("retry-all", http.MethodPost, "/api/v1/dlq/"+o.one(o.sources...)+"/retry-all", "", "Prefer", "respond-async")
	case 12, 13:
		o.redrive()
	case 14:
		o.onOne("dead", "PENDING", "/dead")
	case 15, 16:
		o.onOne("requeue", "DEAD", "/requeue")
	case 17:
		o.deleteOne()
	case 18:
		o.deleteSome()
	default:
		o.restore()
	}
}

func (o *operator) one(of ...string) string { return of[o.random.IntN(len(of))] }

// fine lists the HTTP statuses that the API may answer during faults. Any other status, such as 500 or the status for
// an invalid request, fails the test.
var fine = map[int]bool{0: true, 200: true, 202: true, 404: true, 409: true, 502: true, 503: true}

func (o *operator) request(what, method, path, body string, header ...string) (int, []byte) {
	at := o.apis[o.random.IntN(len(o.apis))]
	status, answer := o.ask(at, method, path, body, header...)
	o.luck.count(fmt.Sprintf("%s %d", what, status))
	if !fine[status] {
		o.t.Errorf("%s: %s %s = %d %.500s", what, method, path, status, answer)
	}
	return status, answer
}

// found holds those fields of a message in the API's lists that the operators use.
type found struct {
	ID        string
	Topic     string `json:"dlq_topic"`
	Partition int32  `json:"dlq_partition"`
	Offset    int64  `json:"dlq_offset"`
}

// some returns up to n random messages that have the given status and are among the newest messages.
func (o *operator) some(status string, n int) []found {
	var got struct{ Messages []found }
	code, body := o.request("list", http.MethodGet, "/api/v1/messages?omit=payload&limit=50&status="+status, "")
	if code != http.StatusOK || json.Unmarshal(body, &got) != nil {
		return nil
	}
	list := got.Messages
	o.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(n, len(list))]
}

// retry retries one PENDING message with the given request body. When it gets no clear answer, it sends the same
// request again. After an answer of success, the test checks at its end that the record is in its original topic.
func (o *operator) retry(what, body string) {
	for _, m := range o.some("PENDING", 1) {
		key := fmt.Sprintf("soak-%d-%d", o.random.Uint64(), o.n)
		for range 3 {
			status, _ := o.request(what, http.MethodPost, "/api/v1/dlq/messages/"+m.ID+"/retry", body, "Idempotency-Key", key)
			if status == http.StatusOK {
				o.resolved(m.ID)
			}
			if status != 0 && status != http.StatusServiceUnavailable || o.ctx.Err() != nil {
				return
			}
		}
	}
}

func (o *operator) onOne(what, status, action string) {
	for _, m := range o.some(status, 1) {
		o.request(what, http.MethodPost, "/api/v1/dlq/messages/"+m.ID+action, "")
	}
}

func (o *operator) deleteOne() {
	for _, m := range o.some(o.one("PENDING", "DEAD", "RESOLVED"), 1) {
		o.deletes(m.ID, m.position())
		o.request("delete", http.MethodDelete, "/api/v1/dlq/messages/"+m.ID, "")
	}
}

func (m *found) position() string { return fmt.Sprintf("%s/%d/%d", m.Topic, m.Partition, m.Offset) }

// deleteSome starts a redrive that deletes up to five messages. Either all of them are DEAD or all are RESOLVED.
func (o *operator) deleteSome() {
	list := o.some(o.one("DEAD", "RESOLVED"), 5)
	if len(list) == 0 {
		return
	}
	var ids []string
	for _, m := range list {
		o.deletes(m.ID, m.position())
		ids = append(ids, m.ID)
	}
	body, _ := json.Marshal(map[string]any{"action": "delete", "ids": ids})
	o.request("redrive that deletes", http.MethodPost, "/api/v1/redrives", string(body))
}

// redrive starts a redrive with random options, and sometimes pauses, resumes or cancels it.
func (o *operator) redrive() {
	options := map[string]any{"filter": map[string]any{"topic": o.one(o.sources...)}}
	switch o.random.IntN(5) {
	case 0:
		options["rate"] = 20
	case 1:
		options["canary"], options["canary_wait"] = 2, "1s"
	case 2:
		options["keep_key_order"] = true
	case 3:
		options["requeue"], options["rate"] = true, 50
	default:
		options["action"] = "requeue"
	}
	body, _ := json.Marshal(options)
	status, answer := o.request("redrive", http.MethodPost, "/api/v1/redrives", string(body))
	var made struct{ ID string }
	if status != http.StatusAccepted || json.Unmarshal(answer, &made) != nil {
		return
	}
	path := "/api/v1/redrives/" + made.ID
	switch o.random.IntN(4) {
	case 0:
		o.request("cancel", http.MethodPost, path+"/cancel", "")
	case 1:
		o.request("pause", http.MethodPost, path+"/pause", "")
		o.request("resume", http.MethodPost, path+"/resume", "")
	default:
		o.request("list", http.MethodGet, path, "")
	}
}

func (o *operator) restore() {
	var got struct{ Messages []found }
	code, body := o.request("list", http.MethodGet, "/api/v1/archive?limit=20", "")
	if code != http.StatusOK || json.Unmarshal(body, &got) != nil || len(got.Messages) == 0 {
		return
	}
	m := got.Messages[o.random.IntN(len(got.Messages))]
	o.request("restore", http.MethodPost, "/api/v1/archive/"+m.ID+"/restore", "")
}

// archive repeatedly makes some messages old enough and runs the archiver. A run of the archiver may fail because
// PostgreSQL goes down; the batches that the run has committed stay archived.
func (s *soak) archive(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(3 * time.Second):
		}
		// This statement fails while the database is down, which does not matter here.
		_, _ = s.db.ExecContext(ctx, `UPDATE dlq.dlq_messages SET updated_at = now() - interval '40 days' WHERE id IN (
			SELECT id FROM dlq.dlq_messages WHERE status IN ('RESOLVED', 'DEAD') ORDER BY created_at LIMIT 30)`)
		if s.archiveOnce(ctx) {
			s.luck.count("archived")
		}
	}
}

func (s *soak) archiveOnce(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binaries+"/archiver", "--config", s.config)
	return cmd.Run() == nil
}

// cancelPaused asks the API to cancel the redrives that are paused or stopped, and reports whether there were none.
func (s *soak) cancelPaused() bool {
	var ids []string
	if err := s.db.Select(&ids, `SELECT id::text FROM dlq.redrives WHERE state IN ('paused', 'stopped')`); err != nil {
		return false
	}
	for _, id := range ids {
		s.ask(s.apis[0], http.MethodPost, "/api/v1/redrives/"+id+"/cancel", "")
	}
	return len(ids) == 0
}
