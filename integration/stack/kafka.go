package stack

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// kafkaDefaults are the settings of a single node. The node starts fast, accepts records of more than 10 MB, and never
// creates topics automatically.
var kafkaDefaults = settings{
	"process.roles":                  "broker,controller",
	"controller.listener.names":      "CONTROLLER",
	"inter.broker.listener.name":     "PLAINTEXT",
	"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,SECURED:SSL",

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

	// An idle broker must use little processor time: the controller writes a record every ten seconds, not twice a second.
	"broker.heartbeat.interval.ms":  "1000",
	"metadata.max.idle.interval.ms": "10000",

	// A consumer group starts at once, because tests do not need it to wait for more members. Sessions may be short, so
	// that the broker soon notices a member that was killed.
	"group.initial.rebalance.delay.ms": "0",
	"group.min.session.timeout.ms":     strconv.Itoa(int(shortestSession.Milliseconds())),

	// The members of a new share group get their partitions one heartbeat later, so heartbeats are frequent.
	"group.share.heartbeat.interval.ms":     "500",
	"group.share.min.heartbeat.interval.ms": "500",
}

// clusterSize is the number of brokers of Options.KafkaCluster.
const clusterSize = 3

// kafkaReplicated overrides kafkaDefaults in a cluster. Every topic has a replica on each of the three brokers, and a
// record is acknowledged only if at least two of them have it. A suspended broker soon leaves the in-sync replicas, and
// a killed one soon loses the leadership of its partitions.
var kafkaReplicated = settings{
	"default.replication.factor":                       "3",
	"min.insync.replicas":                              "2",
	"offsets.topic.replication.factor":                 "3",
	"transaction.state.log.replication.factor":         "3",
	"transaction.state.log.min.isr":                    "2",
	"share.coordinator.state.topic.replication.factor": "3",
	"share.coordinator.state.topic.min.isr":            "2",
	"replica.lag.time.max.ms":                          "5000",
	"broker.session.timeout.ms":                        "6000",
}

// kafkaSecured adds access rules and a listener for clients with certificates, whose names are the names of the users.
// Clients of the other listeners may do everything.
var kafkaSecured = settings{
	"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
	"super.users":           "User:ANONYMOUS",

	"listener.name.secured.ssl.client.auth":             "required",
	"listener.name.secured.ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
	"listener.name.secured.ssl.keystore.type":           "PEM",
	"listener.name.secured.ssl.truststore.type":         "PEM",
}

// kafkaAddresses are the addresses of a node's listeners.
type kafkaAddresses struct {
	broker     string
	controller string
	behind     string // the listener for the proxy; "" without a proxy
	secured    string // the listener for clients with certificates; "" without an authority
}

// kafkaServers are running brokers and their addresses, in the order of their ids.
type kafkaServers struct {
	brokers []*server
	at      []kafkaAddresses
}

// kafkaNode is a broker that is also a controller.
type kafkaNode struct {
	id      int
	java    string
	jars    string // folder of the artefact
	home    string
	logFile string
	opts    Options
	archive []string // the options of classArchiveOptions
}

// launchKafka returns running brokers and their addresses: Kafka itself, or the stand-in where Kafka is not available.
func launchKafka(ctx context.Context, opts Options, env environment, folder *dataFolder) (k kafkaServers, note string, err error) {
	second := opts.KafkaAdvertise != "" || opts.KafkaAuthority != nil
	if opts.KafkaCluster && second {
		return k, "", errors.New("a cluster has no second listener")
	}
	java, jars, cause := kafkaArtefacts(ctx, env)
	if cause == nil {
		k, err = launchNodes(ctx, kafkaNodes(java, jars, opts, folder, kafkaArchive(ctx, java, jars, folder)))
		return k, "", err
	}
	if ctx.Err() != nil {
		return k, "", cause
	}
	if env.kafkaVersion != "" {
		return k, "", fmt.Errorf("%s=%s is not available: %w", KafkaVersionVariable, env.kafkaVersion, cause)
	}
	if second || opts.KafkaCluster {
		return k, "", fmt.Errorf("%s is not available: %w; its stand-in is one broker with one listener", pinnedKafka, cause)
	}
	note, err = fallBack(env, pinnedKafka, "the in-process broker kfake", cause)
	if err != nil {
		return k, "", err
	}
	k, err = launchKfake(ctx, opts, env, folder)
	if err != nil {
		return k, "", fmt.Errorf("%s is not available: %w; nor its stand-in: %w", pinnedKafka, cause, err)
	}
	return k, note, nil
}

// kafkaArchive returns the options with which a broker starts from its archive of classes.
func kafkaArchive(ctx context.Context, java, jars string, folder *dataFolder) []string {
	return classArchiveOptions(ctx, java, jars, "kafka", folder.join("classes"), func(ctx context.Context, home string, options []string) (*server, error) {
		n := kafkaNode{id: 1, java: java, jars: jars, home: home, logFile: home + ".log"}
		n.opts = Options{Fast: true, KafkaHeapMB: 256, KafkaOptions: options}
		k, err := launchNodes(ctx, []kafkaNode{n})
		if err != nil {
			return nil, err
		}
		return k.brokers[0], nil
	})
}

func kafkaNodes(java, jars string, opts Options, folder *dataFolder, archive []string) []kafkaNode {
	node := func(id int, name string) kafkaNode {
		return kafkaNode{
			id: id, java: java, jars: jars, home: folder.join(name), logFile: folder.join(name + ".log"), opts: opts, archive: archive,
		}
	}
	if !opts.KafkaCluster {
		return []kafkaNode{node(1, "kafka")}
	}
	var nodes []kafkaNode
	for id := 1; id <= clusterSize; id++ {
		nodes = append(nodes, node(id, fmt.Sprintf("kafka-%d", id)))
	}
	return nodes
}

// launchNodes starts the nodes as one cluster.
func launchNodes(ctx context.Context, nodes []kafkaNode) (k kafkaServers, err error) {
	const perNode = 4
	k.brokers, err = startAllOnFreePorts(ctx, perNode*len(nodes), func(ports []int) (servers []*server, err error) {
		k.at = nil
		for i, n := range nodes {
			k.at = append(k.at, n.addresses(ports[perNode*i:]))
			servers = append(servers, n.server(k.at[i].broker))
		}
		return servers, formatAll(ctx, nodes, k.at)
	})
	return k, err
}

func (n kafkaNode) addresses(ports []int) kafkaAddresses {
	at := kafkaAddresses{broker: address(ports[0]), controller: address(ports[1])}
	if n.opts.KafkaAdvertise != "" {
		at.behind = address(ports[2])
	}
	if n.opts.KafkaAuthority != nil {
		at.secured = address(ports[3])
	}
	return at
}

// quorum contains the settings that are the same for all nodes of a cluster and that each node needs before its first
// start.
type quorum struct {
	clusterID string
	voters    string // ids and addresses of the controllers
}

func newQuorum(nodes []kafkaNode, at []kafkaAddresses) quorum {
	var voters []string
	for i, n := range nodes {
		voters = append(voters, fmt.Sprintf("%d@%s", n.id, at[i].controller))
	}
	return quorum{clusterID: randomID(), voters: strings.Join(voters, ",")}
}

// formatAll formats the storage of all nodes.
func formatAll(ctx context.Context, nodes []kafkaNode, at []kafkaAddresses) error {
	q := newQuorum(nodes, at)
	for i, n := range nodes {
		if err := n.format(ctx, at[i], q); err != nil {
			return fmt.Errorf("format storage: %w", err)
		}
	}
	return nil
}

func (n kafkaNode) properties() string { return filepath.Join(n.home, "server.properties") }

// format deletes and formats the node's storage before each start of a stack.
func (n kafkaNode) format(ctx context.Context, at kafkaAddresses, q quorum) error {
	if err := errors.Join(os.RemoveAll(n.home), os.RemoveAll(n.data())); err != nil {
		return err
	}
	// The JVM unpacks the native libraries of its compression codecs into this folder, so it must exist.
	if err := os.MkdirAll(filepath.Join(n.home, "tmp"), 0o700); err != nil {
		return err
	}
	text := n.settings(at, q).render(func(value string) string { return value })
	if err := os.WriteFile(n.properties(), []byte(text), 0o600); err != nil {
		return err
	}
	if at.secured != "" {
		if err := n.writeCertificates(); err != nil {
			return err
		}
	}
	logging := filepath.Join(n.home, "log4j2.xml")
	if err := os.WriteFile(logging, kafkaLogging, 0o600); err != nil {
		return err
	}
	formatted, err := n.formatted(ctx)
	if err != nil {
		return err
	}
	if err := os.CopyFS(n.data(), os.DirFS(formatted)); err != nil {
		return err
	}
	identity := fmt.Sprintf("version=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", q.clusterID, n.id, randomID())
	return os.WriteFile(filepath.Join(n.data(), "meta.properties"), []byte(identity), 0o644)
}

// data returns the folder of the node's storage, which a setting may put on another file system.
func (n kafkaNode) data() string {
	return cmp.Or(n.opts.KafkaSettings["log.dirs"], filepath.Join(n.home, "data"))
}

// formatted returns a folder with the storage of a node as Kafka's tool formats it. The tool needs a JVM, so it runs only
// once for a version of Kafka. The storage of different nodes differs only in the ids of the file meta.properties.
func (n kafkaNode) formatted(ctx context.Context) (string, error) {
	storage := artefact{
		name: "formatted",
		install: func(ctx context.Context, dir string) error {
			cmd := n.program(128, "kafka.tools.StorageTool", "format", "-t", randomID(), "-c", n.properties())
			if err := run(ctx, cmd, n.logFile); err != nil {
				return err
			}
			return errors.Join(os.CopyFS(dir, os.DirFS(n.data())), os.RemoveAll(n.data()))
		},
	}
	return storage.ensure(ctx, filepath.Dir(n.jars))
}

func (n kafkaNode) certificate() string { return filepath.Join(n.home, "certificate.pem") }

func (n kafkaNode) authority() string { return filepath.Join(n.home, "authority.pem") }

// writeCertificates writes the broker's certificate with its key, and the certificate of the authority.
func (n kafkaNode) writeCertificates() error {
	certificate, key, err := n.opts.KafkaAuthority.Issue("broker", time.Now().Add(24*time.Hour))
	if err != nil {
		return err
	}
	if err := os.WriteFile(n.certificate(), slices.Concat(key, certificate), 0o600); err != nil {
		return err
	}
	return os.WriteFile(n.authority(), n.opts.KafkaAuthority.Certificate, 0o600)
}

func (n kafkaNode) settings(at kafkaAddresses, q quorum) settings {
	own := map[string]string{
		"node.id":                  strconv.Itoa(n.id),
		"listeners":                "PLAINTEXT://" + at.broker + ",CONTROLLER://" + at.controller,
		"advertised.listeners":     "PLAINTEXT://" + at.broker,
		"controller.quorum.voters": q.voters,
		"log.dirs":                 n.data(),
	}
	if at.behind != "" {
		own["listeners"] += ",PROXIED://" + at.behind
		own["advertised.listeners"] += ",PROXIED://" + n.opts.KafkaAdvertise
	}
	if at.secured != "" {
		own["listeners"] += ",SECURED://" + at.secured
		own["advertised.listeners"] += ",SECURED://" + at.secured
		own["listener.name.secured.ssl.keystore.location"] = n.certificate()
		own["listener.name.secured.ssl.truststore.location"] = n.authority()
		return kafkaDefaults.with(kafkaSecured, own, n.opts.KafkaSettings)
	}
	if n.opts.KafkaCluster {
		return kafkaDefaults.with(kafkaReplicated, own, n.opts.KafkaSettings)
	}
	return kafkaDefaults.with(own, n.opts.KafkaSettings)
}

// program returns a command that runs one of Kafka's Java classes with a main method.
func (n kafkaNode) program(heapMB int, class string, args ...string) *exec.Cmd {
	options := []string{
		"-Xmx" + strconv.Itoa(heapMB) + "m",
		"-XX:+UseSerialGC",
		"-XX:-UsePerfData",
		"-XX:+ExitOnOutOfMemoryError",
		"-Djava.io.tmpdir=" + filepath.Join(n.home, "tmp"),
		"-Dlog4j2.configurationFile=" + filepath.Join(n.home, "log4j2.xml"),
		"-cp", filepath.Join(n.jars, "*"), // the JVM replaces the asterisk by all jars in the folder
	}
	if n.opts.Fast {
		// The JVM uses only its first compiler: this halves the start-up time, and lowers the peak speed.
		options = append([]string{"-XX:TieredStopAtLevel=1"}, options...)
	}
	cmd := exec.Command(n.java, slices.Concat(n.archive, options, []string{class}, args)...)
	cmd.Dir = n.home
	return cmd
}

// quickReturn shortens the session of a broker with its controller for a node that is restarted. A killed broker can
// join the cluster again only after its last session has expired, which takes 9 s by default. But with a short session,
// the controller of a busy machine may consider a living broker dead, and then refuses to create topics. Therefore
// other nodes do not get this setting. The brokers of a cluster always have the session of kafkaReplicated, because any
// of them may be the controller.
var quickReturn = []string{"--override", "broker.session.timeout.ms=3000"}

func (n kafkaNode) server(broker string) *server {
	args := []string{n.properties()}
	command := func() *exec.Cmd {
		cmd := n.program(n.opts.KafkaHeapMB, "kafka.Kafka", args...)
		cmd.Args = slices.Insert(cmd.Args, 1, n.opts.KafkaOptions...)
		if !n.opts.KafkaCluster {
			args = append([]string{n.properties()}, quickReturn...)
		}
		return cmd
	}
	return &server{
		command: command,
		answers: func(ctx context.Context) error { return pingKafka(ctx, broker) },
		logFile: n.logFile,
		halt:    syscall.SIGKILL,
	}
}

// randomID returns a random UUID in Kafka's format. The UUID never begins with "-", because the command line would
// take it for an option. Kafka itself makes no such UUIDs either.
func randomID() string {
	id := make([]byte, 16)
	rand.Read(id) // never fails
	id[0] &= 0x7f // the first six bits are below 32, so the first character is a capital letter or one of a to f
	return base64.RawURLEncoding.EncodeToString(id)
}
