package integration_test

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	client "github.com/dlq-manager/dlq-manager/clients/go"
	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/sharegroup"
	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// shared is a system under test with a share group, its original topic and its dead-letter topic. No configured pattern
// matches the name of the dead-letter topic.
type shared struct {
	*operators
	group, topic, dlq string
	sources           []*kgo.Record
}

func newShared(t *testing.T, copies bool, environ ...string) *shared {
	t.Helper()
	return newSharedOn(newSystem(t), copies, environ)
}

// newSharedOn creates a share group and its dead-letter topic on a running system. If copies is set, the dead letters
// contain the keys and values of their records. The parameter settings holds settings of the dead-letter topic.
func newSharedOn(of *system, copies bool, environ []string, settings ...kafka.ConfigEntry) *shared {
	of.t.Helper()
	s := &shared{operators: newOperatorsOn(of, environ...)}
	s.topic, s.group = s.system.topic("shared.events.v1"), s.prefix+"-shared"
	s.dlq = programs.ShareGroupTopic(s.prefix, "shared")
	s.kafka.create(s.topic, 2)
	s.kafka.create(s.dlq, 2, append(settings, sharegroup.DeadLetterTopic)...)
	s.kafka.configureShareGroup(s.group, map[string]string{
		"errors.deadletterqueue.topic.name":         s.dlq,
		"errors.deadletterqueue.copy.record.enable": fmt.Sprint(copies),
		"share.delivery.count.limit":                "2",
	})
	return s
}

// fail writes n records to the group's original topic. The parameter decisions goes into a header that says how the
// consumer acknowledges each delivery of such a record.
func (s *shared) fail(n int, decisions string) {
	s.t.Helper()
	var records []*kgo.Record
	for range n {
		i := len(s.sources) + len(records)
		records = append(records, &kgo.Record{
			Topic: s.topic, Partition: int32(i % 2), Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, `{"n": %d}`, i),
			Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("t")}, {Key: sharegroup.DecisionsHeader, Value: []byte(decisions)}},
		})
	}
	s.kafka.produce(records...)
	s.sources = append(s.sources, records...)
}

// completed waits until the database says of exactly n messages that they are complete.
func (s *shared) completed(n int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%d messages are complete", n), func() bool {
		return s.count(`EXISTS (SELECT FROM dlq.share_records s WHERE s.message_id = dlq_messages.id AND s.state = 'completed')`) == n
	})
}

// messages returns all messages of the dead-letter topic by their key.
func (s *shared) messages() map[string]client.Message {
	s.t.Helper()
	found, limit := map[string]client.Message{}, 1000
	params := client.SearchMessagesParams{Topic: &s.dlq, Limit: &limit}
	for {
		page := s.search(params)
		for _, m := range page.Messages {
			if m.Key == nil {
				s.t.Fatalf("message %+v has no key, want that of its record", m)
			}
			found[m.Key.Data] = m
		}
		if page.NextCursor == nil {
			return found
		}
		params.Cursor = page.NextCursor
	}
}

// wantSources checks that each message has the key, value, topic, offset and timestamp of its record, the share group,
// and "trace" as the name of its first header.
func (s *shared) wantSources() {
	s.t.Helper()
	got := s.messages()
	check.Len(s.t, got, len(s.sources), "messages")
	for _, r := range s.sources {
		m, found := got[string(r.Key)]
		check.Require(s.t, found, "record %s is not listed", r.Key)
		raw, err := s.GetPayloadWithResponse(s.t.Context(), m.Id)
		wantStatus(s.t, raw, err, http.StatusOK)
		if !bytes.Equal(raw.Body, r.Value) || m.OriginalTopic != s.topic || *m.ConsumerGroup != s.group ||
			*m.OriginalOffset != r.Offset || !m.OriginalTimestamp.Equal(r.Timestamp) || (*m.Headers)[0].Key != "trace" {
			s.t.Fatalf("message %+v with value %q, want record %+v", m, raw.Body, r)
		}
	}
}

// TestShareGroupsAreCompleted: a share group rejects some records, and others run out of deliveries. The ingester
// stores a message with the complete record for each of them, although no configured pattern matches the dead-letter
// topic. After the records have been deleted from the original topic, a message can still be retried. The API refuses a
// redirect and a mapping to the dead-letter topic.
func TestShareGroupsAreCompleted(t *testing.T) {
	t.Parallel()
	rejections, exhaustions := 100, 20
	if pick(0, 1) == 1 {
		rejections, exhaustions = 1000, 200
	}
	for _, copies := range []bool{false, true} {
		t.Run(fmt.Sprintf("Copies=%t", copies), func(t *testing.T) {
			t.Parallel()
			s := newShared(t, copies)
			ingester := s.startReady("ingester")
			consumer := s.kafka.startShareConsumer(s.group, s.topic)
			s.fail(rejections, "reject")
			s.fail(exhaustions, "release")
			s.completed(rejections + exhaustions)
			s.wantSources()
			check.NoError(t, consumer.Stop())

			s.deleteSources()
			s.wantSources()
			m := s.messages()["k0"]
			before := s.kafka.ends([]string{s.topic})
			s.retry(m.Id, client.RetryMessageJSONRequestBody{})
			check.Equal(t, s.kafka.ends([]string{s.topic})-before, 1, "records that were sent")
			ingester.stop()

			s.refusesTheTopicAsATarget()
		})
	}
}

// deleteSources deletes all records of the group's original topic, as the topic's retention would.
func (s *shared) deleteSources() {
	s.t.Helper()
	ends := map[int]int64{}
	for p := range 2 {
		ends[p] = -1 // -1 means the high watermark of the partition
	}
	s.kafka.deleteBefore(s.topic, ends)
}

// refusesTheTopicAsATarget checks that the API refuses a redirect and a mapping to the dead-letter topic of a share
// group.
func (s *shared) refusesTheTopicAsATarget() {
	s.t.Helper()
	res, err := s.ReplaceRedirectWithResponse(s.t.Context(), s.topic, nil, client.ReplaceRedirectJSONRequestBody{Target: s.dlq})
	if err != nil || res.StatusCode() < 400 || !bytes.Contains(res.Body, []byte("dead-letter topic")) {
		s.t.Errorf("a redirect to the dead-letter topic = %d %s, %v, want it refused", res.StatusCode(), res.Body, err)
	}
	rules := fmt.Sprintf(`{"version": 0, "rules": [{"pattern": %q, "original": %q}]}`, s.source, s.dlq)
	status, answer := s.api.try(http.MethodPut, "/api/v1/mappings", []byte(rules))
	if status != http.StatusBadRequest || !bytes.Contains(answer, []byte("rules[0].original")) {
		s.t.Errorf("a mapping to the dead-letter topic = %d %s, want it refused", status, answer)
	}
}

// TestShareGroupsRecordIsGone: ten records are deleted before the ingester reads their dead letters. The database and
// the metric say that the records are gone, a message has no payload, and its retry is refused.
func TestShareGroupsRecordIsGone(t *testing.T) {
	t.Parallel()
	s := newShared(t, false)
	consumer := s.kafka.startShareConsumer(s.group, s.topic)
	s.fail(10, "reject")
	eventually(t, "the dead letters are written", func() bool { return s.kafka.ends([]string{s.dlq}) == 10 })
	check.NoError(t, consumer.Stop())
	s.deleteSources()
	ingester := s.startReady("ingester")
	eventually(t, "the records are gone", func() bool {
		return s.count(`EXISTS (SELECT FROM dlq.share_records s WHERE s.message_id = dlq_messages.id AND s.state = 'gone')`) == 10
	})
	eventually(t, "the ingester's metric counts the ten records that are gone", func() bool { // after they are stored
		_, metrics := ingester.try(http.MethodGet, "/metrics", nil)
		return bytes.Contains(metrics, []byte(`dlq_completions_total{result="gone"} 10`))
	})
	m := s.search(client.SearchMessagesParams{Topic: &s.dlq}).Messages[0]
	check.Equal(t, string(*m.PayloadOmitted), "pointer", "payload_omitted")
	res, err := s.RetryMessageWithResponse(t.Context(), m.Id, nil, client.RetryMessageJSONRequestBody{})
	wantStatus(t, res, err, http.StatusConflict)
}

// TestShareGroupsOutcome: when the share group accepts a replay, the outcome of its message is "consumed". When the
// share group rejects the replay again, the outcome is "returned", and the new message is a child of the first. At the
// limit of retries, the new message is DEAD.
func TestShareGroupsOutcome(t *testing.T) {
	t.Parallel()
	s := newShared(t, false, "DLQ_REDRIVE_OUTCOME_INTERVAL=1s")
	s.startReady("ingester", "DLQ_INGEST_MAX_RETRIES=2")
	s.kafka.startShareConsumer(s.group, s.topic)
	s.fail(1, "reject")
	s.completed(1)
	first := s.messages()["k0"]
	s.retry(first.Id, client.RetryMessageJSONRequestBody{})
	s.completed(2)
	var second client.Message
	eventually(t, "the replay came back", func() bool {
		for _, m := range s.search(client.SearchMessagesParams{Topic: &s.dlq}).Messages {
			if m.ParentId != nil && *m.ParentId == first.Id {
				second = m
			}
		}
		return second.RetryCount == 1
	})
	check.Equal(t, string(*s.message(first).Outcome), "returned", "outcome")
	s.retry(second.Id, client.RetryMessageJSONRequestBody{})
	eventually(t, "the third dead letter is dead", func() bool { return s.with("DEAD") == 1 })

	s.kafka.produce(&kgo.Record{
		Topic: s.topic, Key: []byte("later"), Headers: []kgo.RecordHeader{{Key: sharegroup.DecisionsHeader, Value: []byte("reject")}},
	})
	s.completed(4)
	repaired := s.messages()["later"]
	edit := fmt.Sprintf(`{"edit": {"headers": [{"key": %q, "value": "accept"}]}}`, sharegroup.DecisionsHeader)
	status, answer := s.api.try(http.MethodPost, "/api/v1/dlq/messages/"+repaired.Id.String()+"/retry", []byte(edit))
	check.Require(t, status == http.StatusOK, "retry = %d %s", status, answer)
	eventually(t, "the replay is consumed", func() bool {
		m := s.message(repaired)
		return m.Outcome != nil && string(*m.Outcome) == "consumed" && m.OutcomeGroup != nil && *m.OutcomeGroup == s.group
	})
}

// message reads the message m from the API again.
func (s *shared) message(m client.Message) client.MessageDetail {
	s.t.Helper()
	res, err := s.GetMessageWithResponse(s.t.Context(), m.Id, nil)
	wantStatus(s.t, res, err, http.StatusOK)
	return *res.JSON200
}

// TestShareGroupsForgeries: the ingester does not complete a dead letter that names an internal topic, nor one that
// names a partition in which its share group has no state; the database says why. A second dead letter of the same
// record is counted as a repeat; if its value differs, it becomes a message that is not completed.
func TestShareGroupsForgeries(t *testing.T) {
	t.Parallel()
	s := newShared(t, false)
	s.startReady("ingester")
	consumer := s.kafka.startShareConsumer(s.group, s.topic)
	s.fail(2, "reject")
	s.completed(2)
	secret := &kgo.Record{Topic: s.target, Value: []byte("secret")}
	s.kafka.produce(secret)
	letters := s.kafka.readAll(s.dlq)
	slices.SortFunc(letters, func(a, b *kgo.Record) int { return cmp.Compare(a.Partition, b.Partition) })
	again := func(r kgo.Record, value []byte, topic string) *kgo.Record {
		headers := []kgo.RecordHeader{}
		for _, h := range r.Headers {
			if h.Key == "__dlq.errors.topic" {
				h.Value = []byte(topic)
			}
			headers = append(headers, h)
		}
		return &kgo.Record{Topic: s.dlq, Partition: r.Partition, Value: value, Headers: headers}
	}
	s.kafka.produce(
		again(*letters[0], nil, s.topic), again(*letters[0], []byte("forged"), s.topic), again(*letters[1], nil, s.target),
		again(*letters[1], nil, "__consumer_offsets"),
	)
	eventually(t, "the forged records are refused", func() bool {
		return s.count(`EXISTS (SELECT FROM dlq.share_records s WHERE s.message_id = dlq_messages.id AND s.state = 'refused')`) == 3
	})
	var got []string
	check.NoError(t, s.db.Select(&got, `
		SELECT format('%s %s %s', s.state, s.duplicates, coalesce(replace(replace(s.reason, $1, 'G'), $2, 'T'), ''))
		FROM dlq.share_records s`, s.group, s.target))
	slices.Sort(got)
	check.Equal(t, got, []string{
		"completed 0 ", "completed 1 ",
		`refused 0 share group "G" has no state for partition 1 of topic T, or dlq-manager may not describe that topic: not confirmed by the cluster`,
		"refused 0 the dead letter has another key or value than the record that it names",
		"refused 0 topic __consumer_offsets is internal",
	}, "share records")
	check.NoError(t, consumer.Stop())
}

// TestFaultShareGroupsBrokerIsKilled: the broker is killed while it writes dead letters of a share group. After its
// restart, the broker may write some of them a second time; the test repeats ten of them with another error text. The
// ingester stores one message for each record, and counts the repeats.
func TestFaultShareGroupsBrokerIsKilled(t *testing.T) {
	t.Parallel()
	own := ownStack(t, stack.Options{Kafka: true})
	// The broker cannot put two dead letters into one batch of this size. So it writes them one by one, and the kill
	// comes between two of them.
	s := newSharedOn(newSystemOn(t, own.Brokers(), postgrestest.URL(t)), false, nil,
		kafka.ConfigEntry{ConfigName: "max.message.bytes", ConfigValue: "400"})
	n := pick(600, 1500)
	consumer := s.kafka.startShareConsumer(s.group, s.topic)
	s.fail(n, "reject")
	eventually(t, "some dead letters are written", func() bool { return s.kafka.ends([]string{s.dlq}) >= int64(n/10) })
	check.NoError(t, own.KillKafka())
	check.NoError(t, own.StartKafka(t.Context()))
	kafka.DefaultTransport.(*kafka.Transport).CloseIdleConnections() // drops connections to the killed broker
	written := func() (distinct, all int) {
		seen := map[string]bool{}
		for _, r := range s.kafka.readAll(s.dlq) {
			seen[header(r, "__dlq.errors.partition")+"/"+header(r, "__dlq.errors.offset")] = true
			all++
		}
		return len(seen), all
	}
	eventually(t, "every record has a dead letter", func() bool {
		distinct, _ := written()
		return distinct == n
	})
	check.NoError(t, consumer.Stop())
	_, all := written()
	repeated := s.kafka.readAll(s.dlq)[:10] // the test writes ten dead letters again, so that every run has repeats
	for i, r := range repeated {
		headers := slices.Clone(r.Headers)
		headers[len(headers)-1].Value = []byte("another text")
		repeated[i] = &kgo.Record{Topic: s.dlq, Partition: r.Partition, Headers: headers}
	}
	s.kafka.produce(repeated...)
	t.Logf("%d dead letters of %d records", all, n)

	s.startReady("ingester")
	s.completed(n)
	check.Equal(t, s.count("true"), n, "messages")
	var duplicates int
	check.NoError(t, s.db.Get(&duplicates, `SELECT sum(duplicates) FROM dlq.share_records`))
	check.Equal(t, duplicates, all-n+len(repeated), "repeats")
}

// TestFaultShareGroupsTopicMayNotBeRead: while Kafka does not let the ingester read a topic, the messages of this topic
// say so. Messages of another topic are completed meanwhile. When Kafka allows the ingester to read the topic, its
// messages are completed too.
func TestFaultShareGroupsTopicMayNotBeRead(t *testing.T) {
	t.Parallel()
	own := ownStack(t, stack.Options{Kafka: true, KafkaSettings: map[string]string{
		"authorizer.class.name":          "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"allow.everyone.if.no.acl.found": "true",
	}})
	s := newSharedOn(newSystemOn(t, own.Brokers(), postgrestest.URL(t)), false, nil)
	open := s.system.topic("open.events.v1")
	s.kafka.create(open, 1)
	consumer := s.kafka.startShareConsumer(s.group, s.topic, open)
	s.fail(3, "reject")
	s.kafka.produce(decided(open, 0, "open", "value", "reject"))
	eventually(t, "the dead letters are written", func() bool { return s.kafka.ends([]string{s.dlq}) == 4 })
	check.NoError(t, consumer.Stop())
	s.kafka.describeOnly(s.topic)

	s.startReady("ingester")
	s.completed(1)
	eventually(t, "the messages of the other topic are refused", func() bool {
		return s.count(`EXISTS (SELECT FROM dlq.share_records s WHERE s.message_id = dlq_messages.id AND s.state = 'refused'
			AND s.reason LIKE '%give the user of dlq-manager READ there')`) == 3
	})
	s.kafka.deleteRules(s.topic)
	s.completed(4)
}

// describeOnly allows everyone to describe a topic, and nothing else.
func (c *cluster) describeOnly(topic string) {
	c.t.Helper()
	rule := kmsg.NewCreateACLsRequestCreation()
	rule.ResourceType, rule.ResourceName, rule.ResourcePatternType = kmsg.ACLResourceTypeTopic, topic, kmsg.ACLResourcePatternTypeLiteral
	rule.Principal, rule.Host, rule.Operation, rule.PermissionType = "User:ANONYMOUS", "*", kmsg.ACLOperationDescribe, kmsg.ACLPermissionTypeAllow
	req := kmsg.NewPtrCreateACLsRequest()
	req.Creations = append(req.Creations, rule)
	res, err := req.RequestWith(c.t.Context(), c.client)
	check.Require(c.t, err == nil && res.Results[0].ErrorCode == 0, "create an ACL: %+v, %v", res, err)
}

// deleteRules deletes the ACLs of a topic.
func (c *cluster) deleteRules(topic string) {
	c.t.Helper()
	filter := kmsg.NewDeleteACLsRequestFilter()
	filter.ResourceType, filter.ResourceName, filter.ResourcePatternType = kmsg.ACLResourceTypeTopic, &topic, kmsg.ACLResourcePatternTypeLiteral
	filter.Operation, filter.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	req := kmsg.NewPtrDeleteACLsRequest()
	req.Filters = append(req.Filters, filter)
	res, err := req.RequestWith(c.t.Context(), c.client)
	check.Require(c.t, err == nil && len(res.Results[0].MatchingACLs) == 1, "delete the ACL: %+v, %v", res, err)
}

func (s *shared) inState(state string) int {
	s.t.Helper()
	return s.count(`EXISTS (SELECT FROM dlq.share_records s WHERE s.message_id = dlq_messages.id AND s.state = '` + state + `')`)
}

// TestShareGroupsForgedBefore: a program that may write to the dead-letter topic writes a dead letter of a record that
// has not failed yet, with an old timestamp. The completion of the message of this forged dead letter is refused. When
// the record fails, its genuine dead letter is stored with the record.
func TestShareGroupsForgedBefore(t *testing.T) {
	t.Parallel()
	s := newShared(t, false)
	s.startReady("ingester")
	consumer := s.kafka.startShareConsumer(s.group, s.topic)
	s.fail(2, "reject")
	s.completed(2)
	check.NoError(t, consumer.Stop())
	s.fail(1, "reject") // the consumer is stopped, so no member of the share group reads this record yet
	victim := s.sources[2]
	s.kafka.produce(&kgo.Record{Topic: s.dlq, Partition: victim.Partition, Timestamp: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), Headers: []kgo.RecordHeader{
		{Key: "__dlq.errors.topic", Value: []byte(s.topic)},
		{Key: "__dlq.errors.partition", Value: []byte(strconv.Itoa(int(victim.Partition)))},
		{Key: "__dlq.errors.offset", Value: []byte(strconv.FormatInt(victim.Offset, 10))},
		{Key: "__dlq.errors.group", Value: []byte(s.group)},
		{Key: "__dlq.errors.delivery.count", Value: []byte("1")},
		{Key: "__dlq.errors.message", Value: []byte("forged")},
	}})
	eventually(t, "the forged dead letter is refused", func() bool { return s.inState("refused") == 1 })
	consumer = s.kafka.startShareConsumer(s.group, s.topic)
	eventually(t, "the genuine dead letter is written", func() bool { return s.kafka.ends([]string{s.dlq}) == 4 })
	check.NoError(t, consumer.Stop())
	eventually(t, "the record of the genuine dead letter is stored", func() bool { return s.inState("completed") == 3 })
}

// TestShareGroupsTopicIsDeleted: the original topic is deleted before its dead letters are completed, and Kafka deletes
// the share group's state of the topic with it. The messages say that the topic does not exist.
func TestShareGroupsTopicIsDeleted(t *testing.T) {
	t.Parallel()
	s := newShared(t, false)
	consumer := s.kafka.startShareConsumer(s.group, s.topic)
	s.fail(2, "reject")
	eventually(t, "the dead letters are written", func() bool { return s.kafka.ends([]string{s.dlq}) == 2 })
	check.NoError(t, consumer.Stop())
	s.kafka.delete(s.topic)
	s.startReady("ingester")
	eventually(t, "the messages are refused", func() bool { return s.inState("refused") == 2 })
	var reasons []string
	check.NoError(t, s.db.Select(&reasons, `SELECT DISTINCT replace(reason, $1, 'T') FROM dlq.share_records ORDER BY 1`, s.topic))
	check.Equal(t, reasons, []string{"topic T, partition 0, does not exist", "topic T, partition 1, does not exist"}, "reasons")
}

// TestShareGroupsAutomaticRetry: the dead letters of a share group contain copies of keys and values, but not the
// headers of their records. Automatic retry sends all messages, and sends each of them only after its headers were read
// from the original topic.
func TestShareGroupsAutomaticRetry(t *testing.T) {
	t.Parallel()
	s := newShared(t, true, "DLQ_REDRIVE_AUTO_TOPICS=*", "DLQ_REDRIVE_AUTO_IDLE_SLEEP=20ms")
	s.startReady("ingester")
	consumer := s.kafka.startShareConsumer(s.group, s.topic)
	eventually(t, "the API knows the group's topics", func() bool {
		list, err := s.ListShareGroupsWithResponse(t.Context())
		return err == nil && list.JSON200 != nil && len(list.JSON200.ShareGroups) == 1 && list.JSON200.ShareGroups[0].Topics != nil &&
			len(*list.JSON200.ShareGroups[0].Topics) == 1
	})
	const n = 50
	for range n {
		s.fail(1, "reject")
	}
	eventually(t, "all messages were sent", func() bool { return s.kafka.ends([]string{s.topic}) >= 2*n })
	check.NoError(t, consumer.Stop())
	lost := 0
	for _, r := range s.kafka.readAll(s.topic) {
		if header(r, "trace") == "" {
			lost++
		}
	}
	check.Equal(t, lost, 0, "records that were sent without the headers of their record")
}

// TestShareGroupsFormerTopic: while the ingester is stopped, the configuration of a share group is changed to another
// dead-letter topic. The ingester still stores the two dead letters that the former topic contains.
func TestShareGroupsFormerTopic(t *testing.T) {
	t.Parallel()
	s := newShared(t, false)
	consumer := s.kafka.startShareConsumer(s.group, s.topic)
	s.fail(2, "reject")
	eventually(t, "the dead letters are written", func() bool { return s.kafka.ends([]string{s.dlq}) == 2 })
	check.NoError(t, consumer.Stop())
	other := programs.ShareGroupTopic(s.prefix, "other")
	s.kafka.create(other, 1, sharegroup.DeadLetterTopic)
	s.kafka.configureShareGroup(s.group, map[string]string{"errors.deadletterqueue.topic.name": other})
	s.startReady("ingester")
	eventually(t, "the dead letters of the former topic are listed", func() bool { return s.count("true") == 2 })
}
