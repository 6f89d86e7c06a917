// Package sharegroup runs real members of share groups. Each member is Apache Kafka's Java consumer in a child process,
// which asks this process how to acknowledge each delivery of a record.
package sharegroup

import (
	"context"
	_ "embed" // embeds the Java source of the consumer
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/dlq-manager/dlq-manager/integration/child"
	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/stack"
)

//go:embed ShareConsumer.java
var source []byte

const heapMB = 64

// Decision says how a consumer acknowledges a delivery.
type Decision string

// The broker delivers a released record again, until the number of its deliveries reaches the group's limit.
const (
	Accept  Decision = "accept"
	Reject  Decision = "reject"
	Release Decision = "release"
)

// Delivery is one delivery of a record.
type Delivery struct {
	Topic     string
	Partition int32
	Offset    int64
	Count     int // number of the record's deliveries, including this one
	Key       []byte
	Value     []byte
	Headers   []Header
	Decision  Decision `json:"-"`
}

// Header is a header of a record.
type Header struct {
	Key   []byte
	Value []byte
}

// DecisionsHeader is the name of the header from which ByHeader reads the decisions about a record.
const DecisionsHeader = "share-decisions"

// ByHeader returns the decision in the record's header DecisionsHeader. The header contains one decision for each
// delivery, separated by commas. The last decision also counts for all further deliveries, so a record with only
// "release" runs out of deliveries. A record without the header is accepted.
func ByHeader(d Delivery) Decision {
	for _, h := range d.Headers {
		if string(h.Key) == DecisionsHeader {
			decisions := strings.Split(string(h.Value), ",")
			return Decision(decisions[min(max(d.Count, 1), len(decisions))-1])
		}
	}
	return Accept
}

// Options describe a consumer.
type Options struct {
	Brokers  []string
	Group    string
	Topics   []string
	Dir      string                  // the folder for the log of the consumer
	Decide   func(Delivery) Decision // decides how the consumer acknowledges a delivery; nil means ByHeader
	Settings map[string]string       // further settings of the Java consumer
}

// Consumer is a running member of a share group.
type Consumer struct {
	*child.Process
	decide  func(Delivery) Decision
	log     string
	answers io.WriteCloser

	mu         sync.Mutex
	deliveries []Delivery
}

// Start starts a consumer, which, on Linux, ends when this process ends at the latest. The first call on a machine
// compiles the Java program of the consumer. ctx limits only the time until the consumer is started.
func Start(ctx context.Context, opts Options) (*Consumer, error) {
	args := []string{strings.Join(opts.Topics, ","), "bootstrap.servers=" + strings.Join(opts.Brokers, ","), "group.id=" + opts.Group}
	for name, value := range opts.Settings {
		args = append(args, name+"="+value)
	}
	cmd, err := stack.KafkaProgram(ctx, heapMB, "ShareConsumer", source, args...)
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(opts.Dir, "share-consumer-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close() // this process needs no descriptor of the log, because the child has its own
	in, answers, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	deliveries, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, log
	c := &Consumer{decide: opts.Decide, log: log.Name(), answers: answers}
	if c.decide == nil {
		c.decide = ByHeader
	}
	if c.Process, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		return nil, fmt.Errorf("start share consumer: %w", err)
	}
	go c.answer(deliveries)
	return c, nil
}

// answer decides deliveries until the consumer ends.
func (c *Consumer) answer(deliveries io.ReadCloser) {
	defer deliveries.Close()
	defer c.answers.Close()
	lines := json.NewDecoder(deliveries)
	for {
		var d Delivery
		if lines.Decode(&d) != nil {
			return
		}
		d.Decision = c.decide(d)
		c.mu.Lock()
		c.deliveries = append(c.deliveries, d)
		c.mu.Unlock()
		fmt.Fprintln(c.answers, d.Decision)
	}
}

// Deliveries returns the deliveries for which a decision was made. The consumer may not have sent the last decisions to
// the broker yet.
func (c *Consumer) Deliveries() []Delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.deliveries)
}

// Stop makes the consumer leave its share group, and returns when its process has ended.
func (c *Consumer) Stop() error {
	_ = c.answers.Close() // only the first call of Stop closes it; the error of further calls is ignored
	<-c.Done()
	if err := c.Err(); err != nil {
		return fmt.Errorf("share consumer: %w\n%s", err, programs.Tail(c.log))
	}
	return nil
}

// Kill kills the consumer, which keeps its records locked until its session or their locks expire.
func (c *Consumer) Kill() {
	c.Signal(syscall.SIGKILL)
	<-c.Done()
}
