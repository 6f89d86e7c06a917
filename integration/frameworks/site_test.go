package frameworks_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	client "github.com/dlq-manager/dlq-manager/clients/go"
	"github.com/dlq-manager/dlq-manager/integration/child"
	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// sites numbers the sites of this process, for unique names.
var sites atomic.Int64

// site is an installation of dlq-manager, which several consumers share.
type site struct {
	prefix  string // prefix of the topics, and name of the ingester's consumer group
	brokers []string
	api     *client.ClientWithResponses
}

// newSite returns a site whose programs run until the end of the test.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{prefix: fmt.Sprintf("frameworks%d-%d", os.Getpid(), sites.Add(1)), brokers: stacktest.Kafka(t)}
	config := filepath.Join(t.TempDir(), "config.yaml")
	check.NoError(t, programs.Config{
		Database: postgrestest.URL(t), Broker: s.brokers[0], Group: s.prefix, Pattern: s.prefix + "-*.dlq.v1",
		More: fmt.Sprintf("redrive: {outcome_interval: 200ms, consumer_groups: [%s]}\n", s.groups("watermill", "streams", "quarkus")),
	}.Write(config))
	for _, name := range []string{"api", "ingester"} {
		p := check.Must(programs.Start(programs.Program{Path: filepath.Join(binaries, name), Config: config, Dir: filepath.Dir(config)}))(t)
		t.Cleanup(func() {
			p.Kill()
			if t.Failed() {
				t.Logf("log of %s:\n%s", name, programs.Tail(p.Log))
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		check.NoError(t, p.Ready(ctx))
		if name == "api" {
			s.api = check.Must(client.NewClientWithResponses(p.URL))(t)
		}
	}
	return s
}

// groups returns the setting for the frameworks whose dead letters name no consumer group.
func (s *site) groups(names ...string) string {
	var all []string
	for _, name := range names {
		topic := s.prefix + "-" + name
		all = append(all, fmt.Sprintf("{topic: %q, group: %q}", topic, groupOf(topic)))
	}
	return strings.Join(all, ", ")
}

func groupOf(topic string) string { return topic + "-billing" }

// found returns the messages of a dead-letter topic.
func (s *site) found(t *testing.T, topic string) []client.Message {
	t.Helper()
	res, err := s.api.SearchMessagesWithResponse(t.Context(), &client.SearchMessagesParams{Topic: &topic})
	check.NoError(t, err)
	check.Require(t, res.StatusCode() == http.StatusOK, "search: status %d %s", res.StatusCode(), res.Body)
	return res.JSON200.Messages
}

func (s *site) message(t *testing.T, id uuid.UUID) client.MessageDetail {
	t.Helper()
	res, err := s.api.GetMessageWithResponse(t.Context(), id, nil)
	check.NoError(t, err)
	check.Require(t, res.StatusCode() == http.StatusOK, "get message: status %d %s", res.StatusCode(), res.Body)
	return *res.JSON200
}

// retry sends a message back, which must succeed.
func (s *site) retry(t *testing.T, id uuid.UUID) {
	t.Helper()
	res, err := s.api.RetryMessageWithResponse(t.Context(), id, nil, client.RetryMessageJSONRequestBody{})
	check.NoError(t, err)
	check.Require(t, res.StatusCode() == http.StatusOK, "retry: status %d %s", res.StatusCode(), res.Body)
}

// consumer is a running consumer of a framework.
type consumer struct {
	*child.Process
	t   *testing.T
	out string // the file with its output
}

// start starts a consumer of a topic that books orders in these currencies. It is killed when the test ends.
func (s *site) start(t *testing.T, cmd *exec.Cmd, topic, currencies string) *consumer {
	t.Helper()
	out := check.Must(os.CreateTemp(t.TempDir(), "consumer-*.log"))(t)
	defer out.Close() // this process needs no descriptor of the log, because the child has its own
	cmd.Env = append(os.Environ(), "KAFKA="+s.brokers[0], "ORDERS="+topic, "CURRENCIES="+currencies)
	cmd.Stdout, cmd.Stderr = out, out
	c := &consumer{Process: check.Must(child.Start(cmd, syscall.SIGKILL))(t), t: t, out: out.Name()}
	t.Cleanup(func() {
		c.Signal(syscall.SIGKILL)
		<-c.Done()
		if t.Failed() {
			t.Logf("log of the consumer:\n%s", programs.Tail(c.out))
		}
	})
	return c
}

// stop makes the consumer leave its group, and returns when it has ended.
func (c *consumer) stop() {
	c.t.Helper()
	c.Signal(syscall.SIGTERM)
	select {
	case <-c.Done():
	case <-time.After(time.Minute):
		c.t.Fatalf("the consumer did not end")
	}
}

// booked returns the lines of the output that say which order was booked.
func (c *consumer) booked() (lines []string) {
	c.t.Helper()
	for line := range strings.Lines(string(check.Must(os.ReadFile(c.out))(c.t))) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "booked ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// send sends an order.
func (s *site) send(t *testing.T, topic, number, currency string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(consumers, "order"), number, currency)
	cmd.Env = append(os.Environ(), "KAFKA="+s.brokers[0], "ORDERS="+topic)
	out, err := cmd.CombinedOutput()
	check.Require(t, err == nil, "send order: %v\n%s", err, out)
}

// eventually repeats ok until it is true, and ends the test if the consumer ends before, or after two minutes.
func (c *consumer) eventually(what string, ok func() bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-c.Done():
			c.t.Fatalf("the consumer ended: %v", c.Err())
		case <-ctx.Done():
			c.t.Fatalf("still not true: %s", what)
		case <-ticker.C:
		}
	}
}
