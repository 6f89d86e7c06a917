package integration_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestFaultClientCertificates: programs sign in with certificates. A certificate that the brokers refuse ends the start
// with an error that says why. A certificate that is replaced while the programs run is used for the next connections.
func TestFaultClientCertificates(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	for _, p := range s.permissions() {
		s.kafka.grant(p.acl)
	}
	other, err := stack.NewAuthority()
	check.NoError(t, err)
	hour := time.Now().Add(time.Hour)
	bad := []struct {
		name   string
		change func(*certificate)
		want   string
	}{
		{"another authority", func(c *certificate) { c.issue(other, s.userOf("dlq-ingester"), hour) }, "tls: "},
		{"expired", func(c *certificate) {
			c.issue(s.own.KafkaAuthority(), s.userOf("dlq-ingester"), time.Now().Add(-time.Hour))
		}, "tls: "},
		{"another server", func(c *certificate) { check.NoError(t, os.WriteFile(c.ca, other.Certificate, 0o600)) }, "certificate signed by unknown authority"},
		{"none", func(c *certificate) { c.crt, c.key = "", "" }, "tls: "},
	}
	var ended []*process
	for _, b := range bad {
		c := s.certify("dlq-ingester")
		b.change(c)
		ended = append(ended, s.start([]string{"ingester", "api"}[len(ended)%2], s.environ(c, "DLQ_SERVER_STARTUP_TIMEOUT=6s")...))
	}
	for i, b := range bad {
		select {
		case <-ended[i].done:
		case <-time.After(time.Minute):
			t.Fatalf("%s: the program still waits after a minute", b.name)
		}
		text := ended[i].logged()
		check.True(t, strings.Contains(text, b.want), "%s: the log does not say why: %s", b.name, text)
	}

	c := s.certify("dlq-ingester")
	ingester := s.startReady("ingester", s.environ(c)...)
	s.produce(20, nil)
	s.waitStored()
	ear := ingester.listen()
	c.issue(other, s.userOf("dlq-ingester"), hour)
	second := s.startReady("ingester", s.environ(s.certify("dlq-ingester"))...) // makes the first one join the group again
	eventuallyAs(t, readinessFollows, "the ingester is not ready", func() bool { return ingester.status("/readyz") == 503 })
	ear.says("join the group", "tls: ")
	s.produce(20, nil)
	s.waitStored()
	c.issue(s.own.KafkaAuthority(), s.userOf("dlq-ingester"), hour)
	eventuallyAs(t, readinessFollows, "the ingester is ready again", func() bool { return ingester.status("/readyz") == 200 })
	second.stop()
	s.produce(20, nil)
	s.waitStored()
	s.wantStoredOnce()
	ingester.wantRunning()
}
