package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// report is the API's answer to a request that retries all messages of a topic.
type report struct {
	Selected, Retried, Failed, Dead, Skipped int
	InDoubt                                  int `json:"in_doubt"`
	Reasons                                  map[string]int
}

func (l *letters) wantReport(p *process, want report) {
	l.t.Helper()
	var got report
	body := p.call(http.MethodPost, "/api/v1/dlq/"+l.source+"/retry-all", 200, &got)
	reasons := maps.Equal(got.Reasons, want.Reasons)
	got.Reasons, want.Reasons = nil, nil
	if fmt.Sprint(got) != fmt.Sprint(want) || !reasons {
		l.t.Errorf("retry-all = %s, want %+v", body, want)
	}
}

// dead returns the n-th dead letter of an original topic other than l.target. It is not among the records that l checks
// at the end.
func (l *letters) dead(topic string, n int) *kgo.Record {
	return &kgo.Record{
		Topic: l.source, Partition: int32(n % partitions), Value: fmt.Appendf(nil, `{"n": %d}`, n),
		Headers: []kgo.RecordHeader{{Key: "kafka_dlt-original-topic", Value: []byte(topic)}},
	}
}

// taken runs an ingester until the database contains at least the given number of messages.
func (l *letters) taken(want int) {
	l.t.Helper()
	p := l.startReady("ingester")
	eventually(l.t, "every record is stored", func() bool { return l.count("true") >= want })
	p.stop()
}

// some returns the id of any message that satisfies the SQL condition.
func (l *letters) some(where string) (id string) {
	l.t.Helper()
	if err := l.db.Get(&id, `SELECT id::text FROM dlq.dlq_messages WHERE `+where+` LIMIT 1`); err != nil {
		l.t.Fatalf("a message with %s: %v", where, err)
	}
	return id
}

// errorClass returns the error class that the details of the API's error response contain; "" if there is none.
func errorClass(body []byte) string {
	var got struct {
		Error struct {
			Details []struct{ Field, Reason string }
		}
	}
	_ = json.Unmarshal(body, &got) // a body that is not JSON gives the class ""
	for _, d := range got.Error.Details {
		if d.Field == "class" {
			return d.Reason
		}
	}
	return ""
}

// wantUntouched checks that n messages of the original topic are PENDING and that no attempt was counted for them.
func (l *letters) wantUntouched(topic string, n int) {
	l.t.Helper()
	if got := l.count(fmt.Sprintf("original_topic = '%s' AND status = 'PENDING' AND retry_count = 0", topic)); got != n {
		l.t.Errorf("%d messages of %s are PENDING without an attempt, want %d", got, topic, n)
	}
}

// TestFaultTargetMissing: messages whose original topic does not exist stay PENDING, and the answer to a retry shows
// the reason, while other messages are published. When the topic is created, its messages are published too.
func TestFaultTargetMissing(t *testing.T) {
	t.Parallel()
	const missing, neighbours = 30, 200
	l := newLetters(newSystem(t))
	gone := l.topic("gone.events.v1")
	for n := range missing {
		l.kafka.produce(l.dead(gone, n))
	}
	l.produce(neighbours, nil)
	l.taken(missing + neighbours)
	api := l.startReady("api")

	l.wantReport(api, report{
		Selected: missing + neighbours, Retried: neighbours, Skipped: missing,
		Reasons: map[string]int{"UNKNOWN_TOPIC": missing},
	})
	id := l.some("original_topic = '" + gone + "'")
	status, body := api.try(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", nil)
	if status != 409 || errorClass(body) != "UNKNOWN_TOPIC" {
		t.Errorf("retry into a deleted topic = %d %s, want 409 with class UNKNOWN_TOPIC", status, body)
	}
	l.wantUntouched(gone, missing)

	l.kafka.create(gone, partitions)
	l.wantReport(api, report{Selected: missing, Retried: missing, Reasons: map[string]int{}})
	if got := len(l.kafka.readAll(gone)); got != missing {
		t.Errorf("%d records are in the recreated topic, want %d", got, missing)
	}
	if got := len(l.kafka.readAll(l.target)); got != neighbours {
		t.Errorf("%d records are in the other topic, want %d", got, neighbours)
	}
}

// TestFaultRecordTooLarge: a message whose record is larger than its original topic allows, also compressed, is refused
// before an attempt: in a retry, in a dry run, in a redrive, and by automatic retry. All others are published, those that
// are only too large uncompressed too. When the topic allows more, the rest is published.
func TestFaultRecordTooLarge(t *testing.T) {
	t.Parallel()
	const limit = 20_000
	n := pick(400, 5000)
	l := newLetters(newSystem(t))
	l.kafka.set(l.target, "max.message.bytes", strconv.Itoa(limit))
	large, compressible := map[int]bool{}, map[int]bool{}
	for range 7 {
		large[l.random.IntN(n)], compressible[l.random.IntN(n)] = true, true
	}
	var records []*kgo.Record
	for i := range n {
		r := l.letter()
		switch {
		case large[i]:
			r.Value = make([]byte, limit+l.random.IntN(limit))
			for at := range r.Value {
				r.Value[at] = byte(l.random.Uint32())
			}
		case compressible[i]:
			r.Value = bytes.Repeat([]byte("x"), limit+l.random.IntN(limit))
		}
		records = append(records, r)
	}
	l.kafka.produce(records...)
	l.taken(n)
	api := l.startReady("api")

	var ids []string
	for id, at := range l.ids() {
		if large[at] {
			ids = append(ids, id)
		}
	}
	status, body := api.try(http.MethodPost, "/api/v1/dlq/messages/"+ids[0]+"/retry", nil)
	if status != 409 || errorClass(body) != "BAD_RECORD" || !bytes.Contains(body, []byte(strconv.Itoa(limit))) {
		t.Errorf("retry of a record that is too large = %d %s, want 409 with class BAD_RECORD and the limit", status, body)
	}
	var preview struct {
		Sendable int
		Reasons  map[string]int
	}
	order := fmt.Sprintf(`{"filter": {"topic": %q, "status": ["PENDING"]}, "dry_run": true}`, l.source)
	status, body = api.try(http.MethodPost, "/api/v1/redrives", []byte(order), "Content-Type", "application/json")
	check.Require(t, status == 200, "dry run = %d %s", status, body)
	check.NoError(t, json.Unmarshal(body, &preview))
	if n <= 500 && (preview.Sendable != n-len(large) || preview.Reasons["BAD_RECORD"] != len(large)) { // of more, one is planned
		t.Errorf("dry run = %+v, want %d of %d refused", preview, len(large), n)
	}
	l.wantReport(api, report{
		Selected: n, Retried: n - len(large), Skipped: len(large), Reasons: map[string]int{"BAD_RECORD": len(large)},
	})
	api.wantRunning()
	api.stop()
	api = l.startReady("api", "DLQ_REDRIVE_AUTO_TOPICS="+l.prefix+"-*", fmt.Sprintf("DLQ_KAFKA_ORIGINS=[{dlq: %q, originals: [%q]}]", l.source, l.target))
	eventually(t, "automatic retry skips the rest", func() bool { return api.metric("dlq_redrive_auto_skipped_total") >= float64(len(large)) })
	if got := api.metric("dlq_redrive_auto_skipped_total"); got > 2*float64(len(large)) {
		t.Errorf("automatic retry tried %v times, want about once a minute for each of %d messages", got, len(large))
	}
	for _, id := range ids {
		if s := l.state(id); s.Status != "PENDING" || s.Count != 0 {
			t.Errorf("message %s, too large, is %+v, want PENDING without an attempt", id, s)
		}
	}
	api.stop()

	l.kafka.set(l.target, "max.message.bytes", "1000000")
	api = l.startReady("api")
	l.wantReport(api, report{Selected: len(large), Retried: len(large), Reasons: map[string]int{}})
	l.wantResolvedOnce()
}

// set changes a setting of a topic; nothing changes it back at the end of the test.
func (c *cluster) set(topic, name, value string) {
	c.t.Helper()
	res, err := c.admin.IncrementalAlterConfigs(c.t.Context(), &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{
				{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet},
			},
		}},
	})
	if err != nil || res.Resources[0].Error != nil {
		c.t.Fatalf("set %s of %s: %v, %+v", name, topic, err, res)
	}
}

// TestFaultTargetRefused: Kafka denies the API access to original topics. No attempt is counted for their messages, and
// the API gives the reason. The messages of other topics are published. When access is granted, the denied messages are
// published too.
func TestFaultTargetRefused(t *testing.T) {
	t.Parallel()
	const refused, neighbours = 30, 200
	own, user := kafkaWithUsers(t)
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.URL(t)))
	closed, hidden := l.topic("closed.events.v1"), l.topic("hidden.events.v1")
	l.kafka.create(closed, partitions)
	l.kafka.create(hidden, partitions)
	l.kafka.allow(kafka.ResourceTypeTopic, "*", kafka.ACLOperationTypeAll)
	l.kafka.allow(kafka.ResourceTypeGroup, "*", kafka.ACLOperationTypeAll)
	l.kafka.acl(kafka.ResourceTypeTopic, closed, kafka.ACLOperationTypeWrite, kafka.ACLPermissionTypeDeny)
	l.kafka.acl(kafka.ResourceTypeTopic, hidden, kafka.ACLOperationTypeDescribe, kafka.ACLPermissionTypeDeny)
	for n := range refused {
		l.kafka.produce(l.dead(closed, n), l.dead(hidden, n))
	}
	l.produce(neighbours, nil)
	l.taken(2*refused + neighbours)
	api := l.startReady("api", user...)

	l.wantReport(api, report{
		Selected: 2*refused + neighbours, Retried: neighbours, Skipped: 2 * refused,
		Reasons: map[string]int{"UNAUTHORIZED": 2 * refused},
	})
	l.wantRefused(api, closed, 502)
	l.wantRefused(api, hidden, 409)
	l.wantUntouched(closed, refused)
	l.wantUntouched(hidden, refused)
	var shown struct {
		Class string `json:"last_publish_error_class"`
	}
	api.call(http.MethodGet, "/api/v1/dlq/messages/"+l.some("original_topic = '"+closed+"' AND last_publish_error IS NOT NULL"), 200, &shown)
	if shown.Class != "UNAUTHORIZED" {
		t.Errorf("the API shows class %q, want UNAUTHORIZED", shown.Class)
	}

	l.kafka.forgetACLs(closed)
	l.kafka.forgetACLs(hidden)
	l.wantReport(api, report{Selected: 2 * refused, Retried: 2 * refused, Reasons: map[string]int{}})
	for topic, want := range map[string]int{closed: refused, hidden: refused, l.target: neighbours} {
		if got := len(l.kafka.readAll(topic)); got != want {
			t.Errorf("%d records are in %s, want %d", got, topic, want)
		}
	}
}

// wantRefused retries one message of a topic to which access is denied. The API must answer 409 when it knows the
// reason before the attempt, and 502 when the broker refuses the record.
func (l *letters) wantRefused(api *process, topic string, want int) {
	l.t.Helper()
	status, body := api.try(http.MethodPost, "/api/v1/dlq/messages/"+l.some("original_topic = '"+topic+"'")+"/retry", nil)
	if status != want || errorClass(body) != "UNAUTHORIZED" {
		l.t.Errorf("retry into %s = %d %s, want %d with class UNAUTHORIZED", topic, status, body, want)
	}
}

const (
	kafkaUser     = "dlq"
	kafkaPassword = "not-a-secret"
)

// kafkaWithUsers starts a Kafka with two listeners. Clients of the first listener may do everything; clients of the
// second listener must sign in, and access rules decide what they may do. It returns the settings that make a program
// sign in as kafkaUser.
func kafkaWithUsers(t *testing.T) (own *stack.Stack, environ []string) {
	t.Helper()
	own, p := proxiedKafka(t, map[string]string{
		"authorizer.class.name":                         "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                                   "User:ANONYMOUS",
		"listener.security.protocol.map":                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:SASL_PLAINTEXT",
		"listener.name.proxied.sasl.enabled.mechanisms": "PLAIN",
		"listener.name.proxied.plain.sasl.jaas.config": fmt.Sprintf(
			"org.apache.kafka.common.security.plain.PlainLoginModule required user_%s=%q;", kafkaUser, kafkaPassword),
	})
	return own, []string{
		kafkaBy(p), "DLQ_KAFKA_SECURITY_PROTOCOL=SASL_PLAINTEXT", "DLQ_KAFKA_SASL_MECHANISM=PLAIN",
		"DLQ_KAFKA_SASL_USERNAME=" + kafkaUser, "DLQ_KAFKA_SASL_PASSWORD=" + kafkaPassword,
	}
}

func (c *cluster) allow(kind kafka.ResourceType, name string, operation kafka.ACLOperationType) {
	c.t.Helper()
	c.acl(kind, name, operation, kafka.ACLPermissionTypeAllow)
}

// acl adds an access rule that allows or denies kafkaUser an operation. Kafka gives precedence to a rule that denies.
func (c *cluster) acl(kind kafka.ResourceType, name string, operation kafka.ACLOperationType, permission kafka.ACLPermissionType) {
	c.t.Helper()
	res, err := c.admin.CreateACLs(c.t.Context(), &kafka.CreateACLsRequest{ACLs: []kafka.ACLEntry{{
		ResourceType: kind, ResourceName: name, ResourcePatternType: kafka.PatternTypeLiteral,
		Principal: "User:" + kafkaUser, Host: "*", Operation: operation, PermissionType: permission,
	}}})
	if err != nil || res.Errors[0] != nil {
		c.t.Fatalf("make an access rule for %s: %v, %+v", name, err, res)
	}
}

// forgetACLs removes the rules of one topic.
func (c *cluster) forgetACLs(topic string) {
	c.t.Helper()
	res, err := c.admin.DeleteACLs(c.t.Context(), &kafka.DeleteACLsRequest{Filters: []kafka.DeleteACLsFilter{{
		ResourceTypeFilter: kafka.ResourceTypeTopic, ResourceNameFilter: topic, ResourcePatternTypeFilter: kafka.PatternTypeLiteral,
		Operation: kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny,
	}}})
	if err != nil || res.Results[0].Error != nil {
		c.t.Fatalf("remove the access rules of %s: %v, %+v", topic, err, res)
	}
}
