package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// smallRecord is the size of the largest value that the ingester of permitted stores.
const smallRecord = 20_000

// permitted is a system that has every permission of docs/kafka-sign-in.md, and no other.
type permitted struct {
	*secured
	ingester, api *process
	apiEnviron    []string
	large         string // id of a message whose value was too large to store
}

// TestFaultPermissions: with the permissions of docs/kafka-sign-in.md everything works. When one of them is taken away
// while the programs run, they say which one is missing, nothing is lost or doubled, no message is dead, and they
// recover by themselves when it is given back.
func TestFaultPermissions(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	all := s.permissions()
	for _, p := range all {
		s.kafka.grant(p.acl)
	}
	p := s.startPermitted()
	refused := map[string]func(restore func()){
		"dlq-ingester Read topic DEAD_LETTER_TOPIC":    p.deadLettersUnseen,
		"dlq-ingester Read group INGESTER_GROUP":       p.groupRefused,
		"dlq-ingester Describe topic ORIGINAL_TOPIC":   p.originalUnseen,
		"dlq-api Read topic DEAD_LETTER_TOPIC":         p.largeValueRefused,
		"dlq-api Read topic ORIGINAL_TOPIC":            p.settlingRefused,
		"dlq-api Write topic ORIGINAL_TOPIC":           p.retryRefused,
		"dlq-api DescribeConfigs topic ORIGINAL_TOPIC": p.settingsUnknown,
		"dlq-api Describe group INGESTER_GROUP":        p.ingesterUnknown,
		"dlq-api Describe group GROUP":                 p.outcomeUnknown,
	}
	p.works()
	for _, permission := range all {
		check.Require(t, refused[permission.name] != nil, "no test takes away %s", permission.name)
		began := time.Now()
		s.kafka.revoke(permission.acl)
		refused[permission.name](func() {
			lasting(pick(0, 15*time.Second))
			s.kafka.grant(permission.acl)
		})
		p.works()
		t.Logf("%s: %s", permission.name, time.Since(began))
	}
	p.deadLettersUnreadable(all[0].acl)
	p.wantNothingLost()
}

func (s *secured) startPermitted() *permitted {
	s.t.Helper()
	p := &permitted{secured: s}
	p.apiEnviron = s.environ(s.certify("dlq-api"), impatient("DLQ_REDRIVE_OUTCOME_INTERVAL=1s",
		fmt.Sprintf("DLQ_REDRIVE_CONSUMER_GROUPS=[{topic: %q, group: %q}]", s.target, s.shop))...)
	p.ingester = s.startReady("ingester", s.environ(s.certify("dlq-ingester"), fmt.Sprint("DLQ_INGEST_MAX_RECORD_BYTES=", smallRecord))...)
	p.api = s.startReady("api", p.apiEnviron...)
	large := s.letter()
	large.Value = bytes.Repeat([]byte("x"), 2*smallRecord)
	s.kafka.produce(large)
	s.waitStored()
	p.large = s.some("true")
	return p
}

// works checks that dead letters are stored, a message can be sent back, and its outcome becomes known.
func (p *permitted) works() {
	p.t.Helper()
	p.produce(20, nil)
	p.waitStored()
	id := p.pending()
	p.api.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", 200, nil)
	p.consumed(id)
	eventuallyAs(p.t, readinessFollows, "both programs are ready", func() bool {
		return p.ingester.status("/readyz") == 200 && p.ingesterShown("ok")
	})
}

// pending returns a message that can be sent back.
func (p *permitted) pending() string {
	p.t.Helper()
	return p.some(fmt.Sprintf("status = 'PENDING' AND original_topic = '%s' AND id <> '%s'", p.target, p.large))
}

func (p *permitted) consumed(id string) {
	p.t.Helper()
	eventually(p.t, "the replay is consumed", func() bool {
		var got struct{ Outcome string }
		p.api.call(http.MethodGet, "/api/v1/dlq/messages/"+id, 200, &got)
		return got.Outcome == "consumed"
	})
}

// ingesterShown reports whether the API shows this state of the ingester.
func (p *permitted) ingesterShown(want string) bool {
	var got struct{ Checks map[string]string }
	status, body := p.api.try(http.MethodGet, "/readyz", nil)
	return status == 200 && json.Unmarshal(body, &got) == nil && got.Checks["ingester"] == want
}

func (p *permitted) deadLettersUnseen(restore func()) {
	ear := p.ingester.listen()
	p.produce(20, nil)
	ear.says("dead-letter topics may not be described", p.source, "Topic Authorization Failed")
	restore()
	p.waitStored()
}

// deadLettersUnreadable: the ingester may describe the topic, and may not read it.
func (p *permitted) deadLettersUnreadable(read kafka.ACLEntry) {
	describe := read
	describe.Operation = kafka.ACLOperationTypeDescribe
	p.kafka.grant(describe)
	ear, errors := p.ingester.listen(), p.ingester.metric("dlq_ingest_partition_errors_total")
	p.kafka.revoke(read)
	p.produce(20, nil)
	ear.says("a partition cannot be read", p.source, "Topic Authorization Failed")
	check.True(p.t, p.ingester.metric("dlq_ingest_partition_errors_total") > errors, "no error is counted")
	p.kafka.grant(read)
	p.waitStored()
	check.Equal(p.t, ear.said("no dead-letter topic exists"), 0, "claims that the topic does not exist")
}

// settingsUnknown: a replica that may not read the settings of the original topic sends records as if they forbade nothing.
func (p *permitted) settingsUnknown(restore func()) {
	api := p.startReady("api", p.apiEnviron...)
	id := p.pending()
	api.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", 200, nil)
	p.consumed(id)
	api.stop()
	restore()
}

func (p *permitted) groupRefused(restore func()) {
	ear := p.ingester.listen()
	p.produce(20, nil)
	eventuallyAs(p.t, readinessFollows, "the ingester is not ready", func() bool { return p.ingester.status("/readyz") == 503 })
	ear.says("join the group", "Group Authorization Failed")
	restore()
	p.waitStored()
}

// originalUnseen: a dead letter without headers gets its original topic from the name of its topic only if the ingester
// sees the original topic.
func (p *permitted) originalUnseen(restore func()) {
	nameless := func() *kgo.Record {
		r := p.letter()
		r.Headers = r.Headers[:1]
		return r
	}
	known := fmt.Sprintf("original_topic = '%s'", p.target)
	before := p.count(known)
	lasting(1500 * time.Millisecond) // the ingester lists the topics again
	p.kafka.produce(nameless())
	p.waitStored()
	check.Equal(p.t, p.count(known), before, "messages of the original topic")
	restore()
	eventually(p.t, "the original topic is known", func() bool {
		p.kafka.produce(nameless())
		p.waitStored()
		return p.count(known) > before
	})
}

func (p *permitted) largeValueRefused(restore func()) {
	status, body := p.api.try(http.MethodPost, "/api/v1/dlq/messages/"+p.large+"/retry", nil)
	check.True(p.t, status == 409 && errorClass(body) == "UNAUTHORIZED" && strings.Contains(string(body), p.source), "retry = %d %s", status, body)
	check.Equal(p.t, p.state(p.large), state{Status: "PENDING"}, "message")
	restore()
	p.api.call(http.MethodPost, "/api/v1/dlq/messages/"+p.large+"/retry", 200, nil)
}

// settlingRefused: an API is killed before it has stored the result of an attempt. Without Read nothing shows whether
// the record was sent.
func (p *permitted) settlingRefused(restore func()) {
	p.produce(1, nil)
	p.waitStored()
	id, before := p.pending(), p.kafka.ends([]string{p.target})
	p.exec(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no result is stored''; END'`)
	p.exec(`CREATE TRIGGER refuse BEFORE UPDATE ON dlq.dlq_messages FOR EACH ROW WHEN (OLD.status = 'RETRYING') EXECUTE FUNCTION public.refuse()`)
	status, body := p.api.try(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", nil)
	check.True(p.t, status >= 500 && p.kafka.ends([]string{p.target}) == before+1, "retry = %d %s, want the record sent and no result", status, body)
	p.api.kill()
	p.exec(`DROP TRIGGER refuse ON dlq.dlq_messages`)
	p.exec(`UPDATE dlq.dlq_messages SET claim_expires_at = now() - interval '1 second' WHERE id = '` + id + `'`)
	p.api = p.startReady("api", p.apiEnviron...)
	eventually(p.t, "the attempt cannot be settled", func() bool {
		s := p.state(id)
		return s.Status == "RETRYING" && s.Class != nil && *s.Class == "UNKNOWN"
	})
	ear{p: p.api}.says("attempt cannot be settled", p.target, "Topic Authorization Failed")
	restore()
	p.api.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/dead", 200, nil)
}

func (p *permitted) exec(statement string) {
	p.t.Helper()
	_, err := p.db.Exec(statement)
	check.NoError(p.t, err)
}

func (p *permitted) retryRefused(restore func()) {
	fresh := p.startReady("api", p.apiEnviron...) // has no producer id yet
	for _, api := range []*process{p.api, fresh} {
		id := p.pending()
		status, body := api.try(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", nil)
		check.True(p.t, status == 502 && errorClass(body) == "UNAUTHORIZED", "retry = %d %s, want UNAUTHORIZED", status, body)
		got := p.state(id)
		check.True(p.t, got.Status == "PENDING" && got.Count == 0, "message = %+v, want it PENDING with all attempts", got)
		var history struct{ Attempts []struct{ Error string } }
		api.call(http.MethodGet, "/api/v1/dlq/messages/"+id+"/history", 200, &history)
		last := history.Attempts[len(history.Attempts)-1].Error
		check.True(p.t, strings.Contains(last, "write to ") && strings.Contains(last, "Authorization Failed"), "attempt = %q", last)
	}
	fresh.stop()
	restore()
}

func (p *permitted) ingesterUnknown(restore func()) {
	eventually(p.t, "the ingester's state is not known", func() bool { return p.ingesterShown("not known") })
	restore()
}

func (p *permitted) outcomeUnknown(restore func()) {
	ear := p.api.listen()
	ear.says("cannot update outcomes", p.target, "Group Authorization Failed")
	id := p.pending()
	p.api.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", 200, nil)
	restore()
	p.consumed(id)
}

// wantNothingLost checks that each record is stored once, each RESOLVED message was sent once, and no permission cost a
// message an attempt.
func (p *permitted) wantNothingLost() {
	p.t.Helper()
	p.wantStoredOnce()
	p.wantNoFalseSuccess()
	for id, times := range p.published() {
		check.True(p.t, times == 1, "message %s was sent %d times", id, times)
	}
	check.Equal(p.t, p.with("DEAD"), 1, "dead messages, one of which the test made so")
	check.Equal(p.t, p.count("status = 'PENDING' AND retry_count > 0"), 0, "messages that lost an attempt")
	p.ingester.wantRunning()
	p.api.wantRunning()
}
