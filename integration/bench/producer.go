package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/stack"
)

const (
	// producerHeapMB is what Kafka's own start script gives the tool.
	producerHeapMB = 512

	// producerTimes is how many times as many records it sends as retry-all, so
	// that its start weighs little.
	producerTimes = 3

	producerTool  = "org.apache.kafka.tools.ProducerPerformance"
	producerTopic = "producer.performance.v1"
)

// produced is how Kafka's own producer performance tool did.
type produced struct {
	rate
	bytes int    // of a record
	cpu   usage  // of the tool and the broker, both java, and the start of the tool
	said  string // by the tool, in the end
}

// producerPerformance runs the tool with records of the size of those that
// retry-all sent.
func (b *bench) producerPerformance(ctx context.Context, n int) (out produced, err error) {
	b.say("Kafka's producer performance tool, %d records", n)
	if err := b.kafka.create(ctx, producerTopic); err != nil {
		return out, err
	}
	payload := filepath.Join(b.folder, "payload")
	if out.bytes, err = b.writePayload(ctx, payload); err != nil {
		return out, err
	}
	tool, err := stack.KafkaTool(ctx, producerHeapMB, producerTool,
		"--bootstrap-server", b.stack.Brokers()[0], "--topic", producerTopic, "--num-records", strconv.Itoa(n),
		"--throughput", "-1", "--payload-file", payload, "--command-property", "acks=all")
	if err != nil {
		return out, err
	}
	var text []byte
	w, err := timed(func() (int, error) {
		text, err = tool.CombinedOutput()
		return n, err
	})
	if err != nil {
		return out, fmt.Errorf("producer performance: %w\n%s", err, text)
	}
	out.cpu = w.cpu
	if out.rate, out.said, err = readProduced(string(text)); err != nil {
		return out, err
	}
	held, err := b.kafka.held(ctx, producerTopic)
	if err == nil && (held != int64(n) || out.n != n) {
		err = fmt.Errorf("the run is worthless: the tool sent %d, the topic holds %d, want %d", out.n, held, n)
	}
	return out, err
}

var producedLine = regexp.MustCompile(`(\d+) records sent, ([\d.]+) records/sec[^\n]*`)

// readProduced finds what the tool says last, which is about the whole.
func readProduced(text string) (r rate, said string, err error) {
	all := producedLine.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return r, "", fmt.Errorf("the tool does not say how fast it was: %s", text)
	}
	last := all[len(all)-1]
	n, err := strconv.Atoi(last[1])
	if err != nil {
		return r, "", err
	}
	perSecond, err := strconv.ParseFloat(last[2], 64)
	if err != nil || perSecond <= 0 {
		return r, "", fmt.Errorf("the tool's speed is %q", last[2])
	}
	return rate{n, time.Duration(float64(n) / perSecond * float64(time.Second))}, strings.TrimRight(last[0], "."), nil
}

// writePayload writes lines of the size of a record that retry-all sent: the tool
// sends values only, so what key and headers take is part of them.
func (b *bench) writePayload(ctx context.Context, path string) (bytes int, err error) {
	one, err := b.kafka.first(ctx, originalTopic(names[0]))
	if err != nil {
		return 0, err
	}
	bytes = len(one.Key) + len(one.Value) + headerBytes(one)
	l := newLetters()
	var text []byte
	for range different {
		text = append(append(text, l.sized(bytes)...), '\n')
	}
	return bytes, os.WriteFile(path, text, 0o600)
}

// first is a record of a topic.
func (c *cluster) first(ctx context.Context, topic string) (*kgo.Record, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	defer client.Close()
	for {
		got := client.PollRecords(ctx, 1)
		if err := got.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", topic, err)
		}
		if records := got.Records(); len(records) > 0 {
			return records[0], nil
		}
	}
}
