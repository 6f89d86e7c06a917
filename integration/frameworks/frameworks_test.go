package frameworks_test

import (
	"cmp"
	"embed"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	client "github.com/dlq-manager/dlq-manager/clients/go"
	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

//go:embed spring/pom.xml
var springPins []byte

//go:embed connect/pom.xml
var connectPins []byte

//go:embed connect/BillingSink.java
var billingSink []byte

//go:embed streams/pom.xml
var streamsPins []byte

//go:embed quarkus/pom.xml quarkus/src
var quarkusFiles embed.FS

//go:embed kafkajs
var kafkajsFiles embed.FS

const heapMB = 128

// framework is a consumer of a framework, and what the API shows of its dead letter.
type framework struct {
	name    string
	command func(t *testing.T) *exec.Cmd
	group   string // consumer group; empty: that of groupOf
	shows   shown
}

// shown contains the fields that the API must show for the dead letter of an order in CHF. The group is empty when no header names it.
type shown struct {
	dialect, class, text string
	namesGroup           bool
	namesPosition        bool
}

var javaFrameworks = []framework{
	{name: "spring", command: spring, shows: shown{
		dialect: "spring-dlt", class: "billing.Billing$UnknownCurrencyException", text: "unknown currency CHF",
		namesGroup: true, namesPosition: true,
	}},
	{name: "streams", command: streams, shows: shown{
		dialect: "streams", class: "billing.Billing$UnknownCurrencyException", text: "unknown currency CHF", namesPosition: true,
	}},
}

// longJavaFrameworks and longFrameworks are tested by make test-faults only.
var longJavaFrameworks = []framework{
	{name: "connect", command: connect, group: "connect-billing", shows: shown{
		dialect: "connect", class: "billing.BillingSink$UnknownCurrencyException", text: "unknown currency CHF",
		namesGroup: true, namesPosition: true,
	}},
	{name: "quarkus", command: quarkus, shows: shown{
		dialect: "smallrye-dlq", class: "billing.Billing$UnknownCurrencyException", text: "unknown currency CHF", namesPosition: true,
	}},
}

var frameworks = []framework{
	{name: "kafkago", command: program("kafkago"), shows: shown{
		dialect: "generic", class: "main.unknownCurrency", text: "book order 2: unknown currency CHF",
		namesGroup: true, namesPosition: true,
	}},
	{name: "watermill", command: program("watermill"), shows: shown{
		dialect: "watermill", text: "unknown currency CHF",
	}},
}

var longFrameworks = []framework{
	{name: "kafkajs", command: kafkajs, shows: shown{
		dialect: "generic", class: "UnknownCurrency", text: "unknown currency CHF", namesGroup: true, namesPosition: true,
	}},
}

func spring(t *testing.T) *exec.Cmd {
	cmd := check.Must(stack.JavaSource(t.Context(), "spring", springPins, heapMB, "Billing.java"))(t)
	cmd.Dir = "spring"
	return cmd
}

func streams(t *testing.T) *exec.Cmd {
	cmd := check.Must(stack.JavaSource(t.Context(), "streams", streamsPins, heapMB, "Billing.java"))(t)
	cmd.Dir = "streams"
	return cmd
}

// connect returns the command of a worker, which runs in a folder of its own because it may write a file there.
func connect(t *testing.T) *exec.Cmd {
	settings := func(name string) string { return check.Must(filepath.Abs(filepath.Join("connect", name)))(t) }
	cmd := check.Must(stack.JavaProgram(t.Context(), "connect-sink", connectPins, heapMB, "BillingSink", billingSink,
		"org.apache.kafka.connect.cli.ConnectStandalone", settings("worker.properties"), settings("billing.properties")))(t)
	cmd.Dir = t.TempDir()
	return cmd
}

func quarkus(t *testing.T) *exec.Cmd {
	files := filesOf(t, quarkusFiles, "quarkus", "pom.xml", "src/main/java/billing/Billing.java", "src/main/resources/application.properties")
	return check.Must(stack.MavenProgram(t.Context(), "quarkus", files, heapMB, "target/quarkus-app/quarkus-run.jar"))(t)
}

// filesOf returns the named files of a folder.
func filesOf(t *testing.T, from embed.FS, folder string, names ...string) map[string][]byte {
	files := map[string][]byte{}
	for _, name := range names {
		files[name] = check.Must(from.ReadFile(folder + "/" + name))(t)
	}
	return files
}

func kafkajs(t *testing.T) *exec.Cmd {
	files := filesOf(t, kafkajsFiles, "kafkajs", "billing.js", "package.json", "package-lock.json")
	return check.Must(stack.NodeProgram(t.Context(), "kafkajs", files, "billing.js"))(t)
}

// program returns the command of a consumer that TestMain built.
func program(name string) func(*testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd { return exec.CommandContext(t.Context(), filepath.Join(consumers, name)) }
}

// long reports whether all frameworks are tested, as make test-faults does; otherwise the tests cover only the
// frameworks of the short form.
func long() bool { return os.Getenv("DLQ_TEST_LONG") == "1" }

func TestJavaFrameworks(t *testing.T) { run(t, javaFrameworks, longJavaFrameworks) }

func TestFrameworks(t *testing.T) { run(t, frameworks, longFrameworks) }

func run(t *testing.T, frameworks, onlyLong []framework) {
	t.Parallel()
	if long() {
		frameworks = slices.Concat(frameworks, onlyLong)
	}
	s := newSite(t)
	for _, f := range frameworks {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s.proves(t, f)
		})
	}
}

// proves checks what docs/getting-started.md promises: a record that a consumer cannot process is stored with its
// origin and its error; after the fix its replay is consumed once, as a replay, and the outcome says so.
func (s *site) proves(t *testing.T, f framework) {
	topic := s.prefix + "-" + f.name
	dlq := topic + ".dlq.v1"
	s.send(t, topic, "1", "EUR")
	t.Cleanup(func() { stacktest.DeleteTopic(t, topic); stacktest.DeleteTopic(t, dlq) })
	s.send(t, topic, "2", "CHF")
	s.send(t, topic, "3", "USD")
	broken := s.start(t, f.command(t), topic, "EUR,USD")
	var found []client.Message
	broken.eventually("the dead letter is stored", func() bool { found = s.found(t, dlq); return len(found) > 0 })
	broken.eventually("the consumer continues", func() bool { return len(broken.booked()) == 2 })
	broken.stop()
	check.Equal(t, broken.booked(), []string{"booked order 1", "booked order 3"}, "output")
	check.Require(t, len(found) == 1, "%d messages, want 1", len(found))
	id := found[0].Id
	group := cmp.Or(f.group, groupOf(topic))
	f.shows.check(t, s.message(t, id), topic, group)

	fixed := s.start(t, f.command(t), topic, "EUR,USD,CHF")
	s.retry(t, id)
	fixed.eventually("the outcome is consumed", func() bool {
		outcome := s.message(t, id).Outcome
		return outcome != nil && *outcome == client.OutcomeConsumed
	})
	check.Equal(t, text(s.message(t, id).OutcomeGroup), group, "group of the outcome")
	s.send(t, topic, "4", "EUR") // the topic has one partition, so this order comes after all replays
	fixed.eventually("the last order is booked", func() bool { return len(fixed.booked()) >= 2 })
	fixed.stop()
	check.Equal(t, fixed.booked(), []string{"booked order 2, a replay of message " + id.String(), "booked order 4"}, "output")
	check.Len(t, s.found(t, dlq), 1, "messages")
}

func (w shown) check(t *testing.T, m client.MessageDetail, topic, group string) {
	t.Helper()
	partition, offset := 0, int64(-1)
	if !w.namesGroup {
		group = ""
	}
	if w.namesPosition {
		offset = 1
	}
	if m.OriginalOffset != nil {
		check.Require(t, m.OriginalPartition != nil, "offset without a partition")
		check.Equal(t, *m.OriginalPartition, partition, "original partition")
		check.Equal(t, *m.OriginalOffset, offset, "original offset")
	} else {
		check.True(t, !w.namesPosition, "no original offset, want %d", offset)
	}
	check.Equal(t, m.OriginalTopic, topic, "original topic")
	check.Equal(t, text(m.DlqTopic), topic+".dlq.v1", "dead-letter topic")
	check.Equal(t, text(m.Dialect), w.dialect, "dialect")
	check.Equal(t, text(m.ErrorClass), w.class, "error class")
	check.Equal(t, m.ErrorMessage, w.text, "error message")
	check.Equal(t, text(m.ConsumerGroup), group, "consumer group")
	check.True(t, m.Key != nil && m.Key.Data == "2", "key = %+v, want 2", m.Key)
	check.True(t, m.Headers != nil && slices.ContainsFunc(*m.Headers, func(h client.Header) bool { return h.Key == "channel" }),
		"headers = %+v, want channel too", m.Headers)
	check.Equal(t, m.Payload, any(map[string]any{"order": 2.0, "currency": "CHF"}), "payload")
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
