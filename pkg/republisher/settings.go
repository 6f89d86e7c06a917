package republisher

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const (
	// settingsFresh is how long the settings of a topic are cached, and also that they are not known.
	settingsFresh = time.Minute
	// settingsTimeout is how long a plan waits for the settings of its topics.
	settingsTimeout = 2 * time.Second

	maxMessageBytes = "max.message.bytes"
	compressionType = "compression.type"
	cleanupPolicy   = "cleanup.policy"

	// portable is the codec for topics that store records as their producers compressed them. All consumers can read it.
	portable = "gzip"
	// compressedSpare is how many bytes smaller than the limit a compressed record must be when it is planned, because
	// its headers, and so its size, differ a little when it is sent.
	compressedSpare = 64
)

// topicSettings are those settings of a topic that forbid records. The zero value forbids nothing.
type topicSettings struct {
	maxBytes    int    // size of the largest batch; 0: not known
	compression string // codec with which a large record is compressed; "": it is stored uncompressed
	compacted   bool
}

// settings caches the settings of topics.
type settings struct {
	mu     sync.Mutex
	topics map[string]*settingsFact
}

// settingsFact is the answer of Kafka for a topic. The fields at the top never change; the settings are complete when
// done is closed.
type settingsFact struct {
	asked time.Time
	done  chan struct{}

	topicSettings
}

// settingsOf returns the settings of topics. It asks Kafka for those that the cache lacks, once for all callers. Settings
// that Kafka does not tell in time are zero.
func (r *Republisher) settingsOf(ctx context.Context, topics []string) map[string]topicSettings {
	facts, missing := make(map[string]*settingsFact, len(topics)), map[string]*settingsFact{}
	r.settings.mu.Lock()
	now := r.now()
	maps.DeleteFunc(r.settings.topics, func(_ string, fact *settingsFact) bool { return now.Sub(fact.asked) >= settingsFresh })
	for _, topic := range topics {
		if r.settings.topics[topic] == nil {
			missing[topic] = &settingsFact{asked: now, done: make(chan struct{})}
			r.settings.topics[topic] = missing[topic]
		}
		facts[topic] = r.settings.topics[topic]
	}
	r.settings.mu.Unlock()
	if len(missing) > 0 {
		go r.askSettings(context.WithoutCancel(ctx), missing)
	}
	known := make(map[string]topicSettings, len(facts))
	for topic, fact := range facts {
		select {
		case <-fact.done:
			known[topic] = fact.topicSettings
		case <-ctx.Done():
		}
	}
	return known
}

// askSettings asks Kafka for the settings of topics, and completes their facts.
func (r *Republisher) askSettings(ctx context.Context, facts map[string]*settingsFact) {
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	configs, _ := r.cluster.TopicConfigs(ctx, slices.Collect(maps.Keys(facts)), maxMessageBytes, compressionType, cleanupPolicy)
	for topic, fact := range facts {
		fact.topicSettings = parseSettings(configs[topic])
		close(fact.done)
	}
}

func parseSettings(config map[string]string) topicSettings {
	s := topicSettings{compression: config[compressionType], compacted: slices.Contains(strings.Split(config[cleanupPolicy], ","), "compact")}
	s.maxBytes, _ = strconv.Atoi(config[maxMessageBytes]) // 0 when Kafka does not tell it
	switch s.compression {
	case "producer":
		s.compression = portable
	case "uncompressed":
		s.compression = ""
	}
	return s
}

// misfit returns why the topic of the target t does not accept the record of a message; nil when it does, or when that is
// not known. The parameter source is the record that the attempt sends, before its edit.
func (r *Republisher) misfit(t entity.Target, of topicSettings, out *entity.Outgoing, source entity.Record) error {
	next := *out
	next.Target = t
	next.Message.RetryCount++ // as the claim does
	if of.compacted && r.key(&next, source, next.Message.RetryCount) == nil {
		return refuse(entity.BadRecord, "topic %q is compacted (cleanup.policy=compact), so it accepts no record without a key", t.Topic)
	}
	if state := out.Edit.Apply(source).State; t.MaxBytes == 0 || state != entity.ValueStored && state != entity.ValueFromPayload {
		return nil
	}
	if _, size, ok := fit(t, r.record(&next, source), compressedSpare); !ok {
		return refuse(entity.BadRecord, "%s", tooLarge(t, size))
	}
	return nil
}

// expendable lists those headers of a replay that consumers can do without, in the order in which fit leaves them out.
// The first attempt to fit has all headers.
var expendable = []string{"", deadletter.HeaderRedrivenAt, deadletter.HeaderRetryCount, deadletter.HeaderRootID}

// expendableBytes is more than the bytes of all expendable headers.
const expendableBytes = 256

// fit returns a record as its target accepts it: with all headers, else without some of those that are expendable. A
// record that is too large uncompressed is compressed when it is sent. If the record does not fit, ok is false, and size
// is the smallest size that it can have. The parameter spare is by how many bytes a compressed record must be smaller
// than the limit.
func fit(t entity.Target, record broker.Record, spare int) (fitting broker.Record, size int, ok bool) {
	if t.MaxBytes == 0 || broker.MaxBatchSize(record) <= t.MaxBytes {
		return record, 0, true
	}
	own, compressible := len(record.Headers)-ownHeaders, t.Compression != ""
	size = math.MaxInt
	for _, name := range expendable {
		rest := slices.DeleteFunc(record.Headers[own:], func(h entity.Header) bool { return h.Key == name })
		record.Headers = record.Headers[:own+len(rest)]
		if n, err := broker.BatchSize(record, ""); err == nil {
			size = min(size, n)
		}
		if size > t.MaxBytes && compressible {
			if n, err := broker.BatchSize(record, t.Compression); err == nil {
				size = min(size, n+spare)
				compressible = n <= t.MaxBytes+expendableBytes
			}
		}
		if size <= t.MaxBytes {
			return record, size, true
		}
	}
	return record, size, false
}

func tooLarge(t entity.Target, size int) string {
	return fmt.Sprintf("topic %q accepts at most %d bytes (max.message.bytes), and the record takes at least %d", t.Topic, t.MaxBytes, size)
}
