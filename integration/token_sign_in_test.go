package integration_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestFaultKafkaSessionsEnd: the broker ends each session after a few seconds, and tokens are valid only a few seconds
// longer; in a long run they are valid for a minute. Ingest, retries, a redrive and the outcomes of replays continue
// while many sessions end. No request fails, no warning about Kafka, tokens or sessions is logged, and the consumer
// group keeps its members.
func TestFaultKafkaSessionsEnd(t *testing.T) {
	t.Parallel()
	tokens := newTokenServer(t, pick(10*time.Second, time.Minute))
	own, p := tokens.kafka()
	traced := newTraceCollector(t)
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.URL(t)))
	shop := l.consume("shop", l.target)
	environ := append(tokens.environ(p), "DLQ_TRACING_ENDPOINT="+traced.url, "DLQ_REDRIVE_OUTCOME_INTERVAL=1s",
		fmt.Sprintf("DLQ_REDRIVE_CONSUMER_GROUPS=[{topic: %q, group: %q}]", l.target, shop))
	ingester, api := l.startReady("ingester", environ...), l.startReady("api", environ...)
	// Only later log lines count: on a busy machine, the programs may log warnings while they start.
	said := map[*process]int{ingester: len(l.log(ingester)), api: len(l.log(api))}

	began, retried := time.Now(), 0
	for tokens.count() < pick(8, 20) || time.Since(began) < pick(6*brokerSession, 10*time.Minute) {
		check.Require(t, time.Since(began) < 12*time.Minute, "only %d tokens were issued", tokens.count())
		l.produce(20, nil)
		l.waitStored()
		lasting(brokerSession / 3)
		api.call(http.MethodPost, "/api/v1/dlq/messages/"+l.some("status = 'PENDING'")+"/retry", 200, nil)
		retried++
		for _, program := range []*process{ingester, api} {
			check.Equal(t, program.status("/readyz"), 200, program.name+" is ready")
		}
	}
	redriven := time.Now()
	got := l.finished(api, l.beginAt(api, l.with("PENDING")/12+1)) // so slow that several sessions end meanwhile
	check.True(t, time.Since(redriven) > 2*brokerSession, "the redrive took %s, want several sessions of %s", time.Since(redriven), brokerSession)
	check.True(t, got.Dead == 0, "redrive = %+v", got)
	l.wantResolvedOnce()
	for _, which := range []string{"min", "max"} {
		path := "/api/v1/dlq/messages/" + l.some("created_at = (SELECT "+which+"(created_at) FROM dlq.dlq_messages)")
		eventually(t, "the replay is consumed", func() bool {
			var got struct{ Outcome string }
			api.call(http.MethodGet, path, 200, &got)
			return got.Outcome == "consumed"
		})
	}
	t.Logf("%d tokens, %d records, %d single retries in %s", tokens.count(), len(l.sent), retried, time.Since(began))

	check.Equal(t, strings.Count(l.log(ingester), `"partitions are assigned"`), 1, "times that partitions were assigned")
	for _, program := range []*process{ingester, api} {
		for line := range strings.Lines(l.log(program)[said[program]:]) {
			if kafka := strings.Contains(line, "kafka") || strings.Contains(line, "token") || strings.Contains(line, "session"); kafka && !strings.Contains(line, `"level":"info"`) {
				t.Errorf("%s logged %s", program.name, line)
			}
		}
	}
	l.wantTokensHidden(tokens, ingester, api)
	tokens.wantHidden("traces", fmt.Sprint(traced.all(func(span) bool { return true })))
}

// TestFaultPasswordSessionsEnd: the programs also keep working if the broker ends the sessions of users who sign in
// with passwords.
func TestFaultPasswordSessionsEnd(t *testing.T) {
	t.Parallel()
	const listener = "listener.name.proxied."
	own, p := proxiedKafka(t, map[string]string{
		"listener.security.protocol.map":             "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:SASL_PLAINTEXT",
		listener + "sasl.enabled.mechanisms":         "PLAIN",
		listener + "plain.connections.max.reauth.ms": fmt.Sprint(brokerSession.Milliseconds()),
		listener + "plain.sasl.jaas.config":          fmt.Sprintf("org.apache.kafka.common.security.plain.PlainLoginModule required user_%s=%q;", kafkaUser, kafkaPassword),
	})
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.URL(t)))
	environ := []string{
		kafkaBy(p), "DLQ_KAFKA_SECURITY_PROTOCOL=SASL_PLAINTEXT", "DLQ_KAFKA_SASL_MECHANISM=PLAIN",
		"DLQ_KAFKA_SASL_USERNAME=" + kafkaUser, "DLQ_KAFKA_SASL_PASSWORD=" + kafkaPassword,
	}
	ingester, api := l.startReady("ingester", environ...), l.startReady("api", environ...)
	for began := time.Now(); time.Since(began) < 4*brokerSession; lasting(brokerSession / 3) {
		l.produce(20, nil)
		l.waitStored()
		api.call(http.MethodPost, "/api/v1/dlq/messages/"+l.some("status = 'PENDING'")+"/retry", 200, nil)
	}
	check.Equal(t, strings.Count(l.log(ingester), `"partitions are assigned"`), 1, "times that partitions were assigned")
	l.retryTheRest(api)
	l.wantResolvedOnce()
}

// TestFaultTokenEndpoint: the token endpoint fails for longer than a token is valid. The ingester logs the reason and
// is no longer ready. When the endpoint issues tokens again, the ingester becomes ready and stores all records. No
// redirect is followed.
func TestFaultTokenEndpoint(t *testing.T) {
	t.Parallel()
	tokens := newTokenServer(t, 8*time.Second)
	own, p := tokens.kafka()
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.URL(t)))
	ingester, api := l.startReady("ingester", tokens.environ(p)...), l.startReady("api", tokens.environ(p)...)

	var followed atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	defer elsewhere.Close()
	quoted := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, r.Header.Get("Authorization"), tokenSecret, tokens.issue("quoted"))
		}
	}
	faults := []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"redirect", quoted(http.StatusTemporaryRedirect), "status 307: redirects are not followed"},
		{"away", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		{"refused", quoted(http.StatusUnauthorized), "status 401"},
		{"broken", quoted(http.StatusInternalServerError), "status 500"},
		{"garbage", quoted(http.StatusOK), "answer has no token"},
		{"slow", func(_ http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm() // reads the body, because only then the server notices that its client has disconnected
			<-r.Context().Done()
		}, "no answer within 10s"},
		{"another audience", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"expires_in":8}`, tokens.issue("another"))
		}, "sign in to kafka"},
		{"another authority", nil, "certificate signed by unknown authority"},
	}
	for _, fault := range faults[:pick(2, len(faults))] {
		said := len(l.log(ingester))
		tokens.instead(fault.answer)
		if fault.answer == nil {
			tokens.write(tokens.ca, otherAuthority(t))
		}
		eventuallyAs(t, readinessFollows, fault.name+": the ingester is not ready", func() bool { return ingester.status("/readyz") == 503 })
		l.produce(20, nil)
		status, body := api.try(http.MethodPost, "/api/v1/dlq/"+l.source+"/retry-all", nil)
		tokens.wantHidden("answer", fmt.Sprintf("%d %s", status, body))
		eventually(t, fault.name+": the log says why", func() bool { return strings.Contains(l.log(ingester)[said:], fault.want) })
		tokens.instead(nil)
		tokens.write(tokens.ca, tokens.certificate)
		eventuallyAs(t, readinessFollows, fault.name+": the ingester is ready again", func() bool { return ingester.status("/readyz") == 200 })
		l.waitStored()
		eventuallyAs(t, readinessFollows, fault.name+": the API is ready again", func() bool { return api.status("/readyz") == 200 })
	}
	check.True(t, !followed.Load(), "a redirect was followed")
	check.True(t, strings.Contains(l.log(ingester), strings.TrimPrefix(tokens.tokens.URL, "https://")), "the log does not name the host")
	l.retryTheRest(api)
	l.wantStoredOnce()
	l.wantResolvedOnce()
	l.wantTokensHidden(tokens, ingester, api)
}

// TestFaultTokenEndpointAtStart: an ingester with a wrong client secret ends when it cannot get a token at its start,
// and its log says why. With the right secret, the ingester starts.
func TestFaultTokenEndpointAtStart(t *testing.T) {
	t.Parallel()
	tokens := newTokenServer(t, 10*time.Second)
	own, p := tokens.kafka()
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.URL(t)))
	tokens.write(tokens.secret, []byte("another-secret"))
	ingester := l.start("ingester", append(tokens.environ(p), "DLQ_SERVER_STARTUP_TIMEOUT=3s")...)
	select {
	case <-ingester.done:
	case <-time.After(time.Minute):
		t.Fatal("the ingester still waits after a minute")
	}
	text := l.log(ingester)
	check.True(t, strings.Contains(text, "status 401 invalid_client"), "the log does not say why: %s", text)
	tokens.write(tokens.secret, []byte(tokenSecret))
	l.startReady("ingester", tokens.environ(p)...)
	l.produce(20, nil)
	l.waitStored()
}

// TestFaultTokenFile: the token is in a file that is replaced before the token expires. When the file is replaced too
// late, the ingester is not ready until the new token is there.
func TestFaultTokenFile(t *testing.T) {
	t.Parallel()
	tokens := newTokenServer(t, 8*time.Second)
	own, p := tokens.kafka()
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.URL(t)))
	path := filepath.Join(t.TempDir(), "token")
	tokens.write(path, []byte(tokens.issue(tokenAudience)+"\n"))
	ingester := l.startReady("ingester", kafkaBy(p), "DLQ_KAFKA_SECURITY_PROTOCOL=SASL_PLAINTEXT",
		"DLQ_KAFKA_SASL_MECHANISM=OAUTHBEARER", "DLQ_KAFKA_SASL_OAUTH_TOKEN_FILE="+path)
	for range 8 {
		lasting(2 * time.Second)
		tokens.write(path, []byte(tokens.issue(tokenAudience)))
		l.produce(20, nil)
		l.waitStored()
		check.Equal(t, ingester.status("/readyz"), 200, "ready")
	}
	check.Equal(t, strings.Count(l.log(ingester), `"partitions are assigned"`), 1, "times that partitions were assigned")
	eventuallyAs(t, readinessFollows, "the token has expired", func() bool { return ingester.status("/readyz") == 503 })
	l.produce(20, nil)
	tokens.write(path, []byte(tokens.issue(tokenAudience)))
	l.waitStored()
	l.wantStoredOnce()
	l.wantTokensHidden(tokens, ingester)
}

// consume runs a consumer group that reads a topic and commits, until the end of the test. It returns the group's name.
func (l *letters) consume(name, topic string) (group string) {
	l.t.Helper()
	group = l.prefix + "-" + name
	client := check.Must(kgo.NewClient(kgo.SeedBrokers(l.brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitInterval(time.Second)))(l.t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !client.PollFetches(l.t.Context()).IsClientClosed() && l.t.Context().Err() == nil {
			continue
		}
	}()
	l.t.Cleanup(func() {
		client.Close()
		<-done
	})
	return group
}

// log returns the whole output of a program.
func (l *letters) log(p *process) string {
	l.t.Helper()
	return string(check.Must(os.ReadFile(p.log))(l.t))
}

// wantTokensHidden checks that the programs' logs and metrics and the messages' publish errors contain neither the
// client's secret nor a token.
func (l *letters) wantTokensHidden(tokens *tokenServer, all ...*process) {
	l.t.Helper()
	for _, p := range all {
		tokens.wantHidden("log of "+p.name, l.log(p))
		_, metrics := p.try(http.MethodGet, "/metrics", nil)
		tokens.wantHidden("metrics of "+p.name, string(metrics))
	}
	var texts []string
	check.NoError(l.t, l.db.Select(&texts, `SELECT coalesce(last_publish_error, '') || status FROM dlq.dlq_messages`))
	tokens.wantHidden("messages", strings.Join(texts, "\n"))
}

// otherAuthority returns the certificate of an authority that has signed no server's certificate.
func otherAuthority(t *testing.T) []byte {
	t.Helper()
	key := check.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der := check.Must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
