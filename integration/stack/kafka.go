package stack

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// kafkaDefaults configure a single node with a quick start that accepts records of 10 MB with a
// margin and never creates topics automatically.
var kafkaDefaults = settings{
	"process.roles":                  "broker,controller",
	"node.id":                        "1",
	"controller.listener.names":      "CONTROLLER",
	"inter.broker.listener.name":     "PLAINTEXT",
	"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT",

	"offsets.topic.replication.factor":                 "1",
	"offsets.topic.num.partitions":                     "1",
	"transaction.state.log.replication.factor":         "1",
	"transaction.state.log.min.isr":                    "1",
	"transaction.state.log.num.partitions":             "1",
	"share.coordinator.state.topic.replication.factor": "1",
	"share.coordinator.state.topic.min.isr":            "1",
	"share.coordinator.state.topic.num.partitions":     "1",

	"auto.create.topics.enable": "false",
	"delete.topic.enable":       "true",
	"message.max.bytes":         strconv.Itoa(largestBatch),
	"replica.fetch.max.bytes":   strconv.Itoa(largestBatch),
	"socket.request.max.bytes":  strconv.Itoa(200 << 20),

	"broker.heartbeat.interval.ms": "500",

	// No further member is expected, so a consumer group may start at once. Short sessions reveal a
	// dead member soon.
	"group.initial.rebalance.delay.ms": "0",
	"group.min.session.timeout.ms":     strconv.Itoa(int(shortestSession.Milliseconds())),

	// A new share group waits one heartbeat for its partitions.
	"group.share.heartbeat.interval.ms":     "500",
	"group.share.min.heartbeat.interval.ms": "500",
}

// kafkaAddresses are the addresses of a node's listeners.
type kafkaAddresses struct {
	broker     string
	controller string
	behind     string // the listener for the proxy; "" without a proxy
}

// kafkaNode is a broker that is its own controller.
type kafkaNode struct {
	java    string
	jars    string // folder of the artefact
	home    string
	logFile string
	opts    Options
}

// launchKafka returns a running broker and its addresses: Kafka itself, or the stand-in where Kafka
// is not available.
func launchKafka(ctx context.Context, opts Options, env environment, folder *dataFolder) (srv *server, at kafkaAddresses, note string, err error) {
	java, jars, cause := kafkaArtefacts(ctx, env)
	if cause == nil {
		n := kafkaNode{java: java, jars: jars, home: folder.join("kafka"), logFile: folder.join("kafka.log"), opts: opts}
		srv, at, err = n.launch(ctx)
		return srv, at, "", err
	}
	if ctx.Err() != nil {
		return nil, at, "", cause
	}
	if env.kafkaVersion != "" {
		return nil, at, "", fmt.Errorf("%s=%s is not available: %w", KafkaVersionVariable, env.kafkaVersion, cause)
	}
	if opts.KafkaAdvertise != "" {
		return nil, at, "", fmt.Errorf("%s is not available: %w; its stand-in has no second listener", pinnedKafka, cause)
	}
	note, err = fallBack(env, pinnedKafka, "the in-process broker kfake", cause)
	if err != nil {
		return nil, at, "", err
	}
	srv, at.broker, err = launchKfake(ctx, opts, env, folder)
	if err != nil {
		return nil, at, "", fmt.Errorf("%s is not available: %w; nor its stand-in: %w", pinnedKafka, cause, err)
	}
	return srv, at, note, nil
}

func (n kafkaNode) launch(ctx context.Context) (srv *server, at kafkaAddresses, err error) {
	srv, err = startOnFreePorts(ctx, 3, func(ports []int) (*server, error) {
		at = kafkaAddresses{broker: address(ports[0]), controller: address(ports[1])}
		if n.opts.KafkaAdvertise != "" {
			at.behind = address(ports[2])
		}
		if err := n.format(ctx, at); err != nil {
			return nil, fmt.Errorf("format storage: %w", err)
		}
		return n.server(at.broker), nil
	})
	return srv, at, err
}

func (n kafkaNode) properties() string { return filepath.Join(n.home, "server.properties") }

// format formats the storage on each start, because the storage contains the address of the controller.
func (n kafkaNode) format(ctx context.Context, at kafkaAddresses) error {
	if err := os.RemoveAll(n.home); err != nil {
		return err
	}
	// The folder must exist, because the JVM unpacks its native codecs into it.
	if err := os.MkdirAll(filepath.Join(n.home, "tmp"), 0o700); err != nil {
		return err
	}
	text := n.settings(at).render(func(value string) string { return value })
	if err := os.WriteFile(n.properties(), []byte(text), 0o600); err != nil {
		return err
	}
	logging := filepath.Join(n.home, "log4j2.xml")
	if err := os.WriteFile(logging, kafkaLogging, 0o600); err != nil {
		return err
	}
	cmd := n.program(128, "kafka.tools.StorageTool", "format", "--standalone", "-t", clusterID(), "-c", n.properties())
	return run(ctx, cmd, n.logFile)
}

func (n kafkaNode) settings(at kafkaAddresses) settings {
	own := map[string]string{
		"listeners":                           "PLAINTEXT://" + at.broker + ",CONTROLLER://" + at.controller,
		"advertised.listeners":                "PLAINTEXT://" + at.broker,
		"controller.quorum.bootstrap.servers": at.controller,
		"log.dirs":                            filepath.Join(n.home, "data"),
	}
	if at.behind != "" {
		own["listeners"] += ",PROXIED://" + at.behind
		own["advertised.listeners"] += ",PROXIED://" + n.opts.KafkaAdvertise
	}
	return kafkaDefaults.with(own, n.opts.KafkaSettings)
}

// program prepares one of Kafka's main classes.
func (n kafkaNode) program(heapMB int, class string, args ...string) *exec.Cmd {
	options := []string{
		"-Xmx" + strconv.Itoa(heapMB) + "m",
		"-XX:+UseSerialGC",
		"-XX:-UsePerfData",
		"-XX:+ExitOnOutOfMemoryError",
		"-Djava.io.tmpdir=" + filepath.Join(n.home, "tmp"),
		"-Dlog4j2.configurationFile=" + filepath.Join(n.home, "log4j2.xml"),
		"-cp", filepath.Join(n.jars, "*"), // the JVM expands the asterisk
	}
	if n.opts.Fast {
		// The JVM uses only its first compiler: this halves the start-up time, and lowers the peak speed.
		options = append([]string{"-XX:TieredStopAtLevel=1"}, options...)
	}
	cmd := exec.Command(n.java, append(append(options, class), args...)...)
	cmd.Dir = n.home
	return cmd
}

// quickReturn shortens the session of the broker with its controller. A killed broker can return only after its last
// session has expired, 9 s by default. But with a short session, the controller of a busy machine may take a
// living broker for dead, and then refuses to create topics. Therefore only a restarted node gets this setting.
var quickReturn = []string{"--override", "broker.session.timeout.ms=3000"}

func (n kafkaNode) server(broker string) *server {
	args := []string{n.properties()}
	command := func() *exec.Cmd {
		cmd := n.program(n.opts.KafkaHeapMB, "kafka.Kafka", args...)
		cmd.Args = slices.Insert(cmd.Args, 1, n.opts.KafkaOptions...)
		args = append([]string{n.properties()}, quickReturn...)
		return cmd
	}
	return &server{
		command: command,
		answers: func(ctx context.Context) error { return pingKafka(ctx, broker) },
		logFile: n.logFile,
		halt:    syscall.SIGKILL,
	}
}

// clusterID returns a random UUID in Kafka's format. The UUID never begins with "-", because the command line would
// take it for an option. Kafka itself makes no such UUIDs either.
func clusterID() string {
	id := make([]byte, 16)
	rand.Read(id) // never fails
	id[0] &= 0x7f // the first six bits are below 32, which is a capital letter or a to f
	return base64.RawURLEncoding.EncodeToString(id)
}
