package ingest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// firstWords is a Fingerprinter that groups messages by class, first word and last byte of the stack trace; asked
// counts its calls.
type firstWords struct{ asked atomic.Int64 }

func (f *firstWords) Fingerprint(class, message, stack string) entity.Fingerprint {
	f.asked.Add(1)
	word, _, _ := strings.Cut(message, " ")
	made := entity.Fingerprint{Class: class, Title: word}
	if stack != "" {
		made.Frames = []string{stack[max(0, len(stack)-1):]}
	}
	return made
}

func saying(message, stack string) broker.Record {
	return broker.Record{Value: []byte("{}"), Headers: []entity.Header{
		{Key: "kafka_dlt-exception-fqcn", Value: []byte("Boom")},
		{Key: "kafka_dlt-exception-message", Value: []byte(message)},
		{Key: "kafka_dlt-exception-stacktrace", Value: []byte(stack)},
	}}
}

// notes remembers for which fingerprints the ingester requested error groups, and counts messages that were stored
// before that request.
type notes struct {
	noted   [][]entity.Fingerprint
	unnoted int // messages that were stored before the request for their error group
	ids     map[uuid.UUID]bool
}

func watch(w *world) *notes {
	n := &notes{ids: map[uuid.UUID]bool{}}
	w.store.fingerprinting = func(list []entity.Fingerprint) error {
		n.noted = append(n.noted, list)
		for _, f := range list {
			n.ids[f.ID()] = true
		}
		return nil
	}
	w.store.before = func(b repository.Batch) {
		for _, m := range b.Messages {
			if !n.ids[m.Group] {
				n.unnoted++
			}
		}
	}
	return n
}

func TestFingerprints(t *testing.T) {
	t.Parallel()
	a := part("a.dlq.v1", 0)
	tests := map[string]func(w *world, f *firstWords, n *notes){
		"EveryMessageHasTheGroupOfItsFailure": func(w *world, _ *firstWords, _ *notes) {
			got := w.arrive(a, saying("timeout 1", ""), saying("timeout 2", ""), saying("refused", ""))
			want := entity.Fingerprint{Class: "Boom", Title: "timeout"}.ID()
			check.True(w.t, got[0].Group == want && got[1].Group == want && got[2].Group != want && got[2].Group != uuid.Nil,
				"groups = %s, %s, %s, want %s twice and another", got[0].Group, got[1].Group, got[2].Group, want)
		},
		"AFingerprintIsNotedOnce": func(w *world, _ *firstWords, n *notes) {
			w.arrive(a, saying("timeout 1", ""), saying("timeout 2", ""), saying("refused", ""))
			w.arrive(a, saying("timeout 3", ""), saying("closed", ""))
			check.True(w.t, len(n.noted) == 2 && len(n.noted[0]) == 2 && len(n.noted[1]) == 1 && n.noted[1][0].Title == "closed",
				"noted %v, want two at first and then the new one", n.noted)
		},
		"AFingerprintIsNotedAgainAfterAnHour": func(w *world, _ *firstWords, n *notes) {
			w.arrive(a, saying("timeout 1", ""))
			pass(50 * time.Minute)
			w.arrive(a, saying("timeout 2", ""))
			check.True(w.t, len(n.noted) == 1, "noted %v within the hour, want it once", n.noted)
			pass(15 * time.Minute)
			w.arrive(a, saying("timeout 3", ""))
			check.True(w.t, len(n.noted) == 2, "noted %v, want it once more after an hour: the store may have forgotten it", n.noted)
		},
		"EqualFailuresOfABatchAreLookedAtOnce": func(w *world, f *firstWords, _ *notes) {
			w.arrive(a, slices.Repeat([]broker.Record{saying("timeout", "at x")}, 500)...)
			check.Equal(w.t, f.asked.Load(), 1, "fingerprints made")
		},
		"StacksThatDifferAtTheirEndAreToldApart": func(w *world, _ *firstWords, _ *notes) {
			same := strings.Repeat("at x\n", 1000)
			got := w.arrive(a, saying("timeout", same+"a"), saying("timeout", same+"b"))
			check.True(w.t, got[0].Group != got[1].Group, "two stack traces have one group, want two")
		},
		"NothingIsStoredBeforeItsGroupIsNoted": func(w *world, _ *firstWords, n *notes) {
			note, failures := w.store.fingerprinting, 5
			w.store.set(func() {
				w.store.fingerprinting = func(list []entity.Fingerprint) error {
					if failures--; failures >= 0 {
						return errDown
					}
					return note(list)
				}
			})
			got := w.arrive(a, saying("timeout", ""))
			check.True(w.t, len(got) == 0, "%d messages are stored while their group cannot be noted, want 0", len(got))
			check.True(w.t, w.i.CheckDatabase() != nil, "CheckDatabase = nil, want the store's error")
			pass(time.Minute)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 1)
			check.True(w.t, n.unnoted == 0, "%d messages came before their group", n.unnoted)
		},
		"AGroupThatIsRefusedIsUnclassifiedInItsTopic": func(w *world, _ *firstWords, n *notes) {
			var records []broker.Record
			for k := range repository.MaxNewGroups + 2 {
				records = append(records, saying(fmt.Sprintf("word%d", k), ""))
			}
			n.ids[entity.Unclassified(a.Topic).ID()] = true
			unclassified := 0
			for _, m := range w.arrive(a, append(records, records...)...) {
				if m.Group == entity.Unclassified(a.Topic).ID() {
					unclassified++
				}
			}
			check.True(w.t, unclassified == 4,
				"%d messages are unclassified, want both of the 2 groups beyond the limit", unclassified)
		},
	}
	for name, test := range tests {
		t.Run(name, bubble(func(w *world) {
			maker := &firstWords{}
			WithFingerprints(maker)(w.i)
			n := watch(w)
			w.cluster.topic(a.Topic, "A", 1)
			_, stop := w.start(a)
			test(w, maker, n)
			_ = stop()
			check.True(w.t, n.unnoted == 0, "%d messages were stored before their group was noted", n.unnoted)
		}))
	}
}

func TestWithoutAFingerprinterThereAreNoGroups(t *testing.T) {
	bubble(func(w *world) {
		a := part("a.dlq.v1", 0)
		w.store.fingerprinting = func([]entity.Fingerprint) error {
			w.t.Error("fingerprints are noted")
			return nil
		}
		w.cluster.topic(a.Topic, "A", 1)
		w.start(a)
		check.Equal(w.t, w.arrive(a, saying("timeout", ""))[0].Group, uuid.Nil, "group")
	})(t)
}

func benchIngester(b *testing.B, options ...Option) *Ingester {
	b.Helper()
	patterns := check.Must(deadletter.ParsePatterns("*.dlq.v1"))(b)
	decoder := check.Must(deadletter.New(deadletter.Config{}, patterns))(b)
	return New(DefaultConfig(), "group", patterns, newFakeCluster(), decoder, stores.Fill[Stores](faultyStore{&fakeStore{}}),
		prometheus.NewRegistry(), zap.NewNop(), options...)
}

// BenchmarkBatch makes a batch of 1000 records of a Spring application, with and without error groups.
func BenchmarkBatch(b *testing.B) {
	records := springLike(3, 1000)
	for i := range records {
		records[i].Headers = append(records[i].Headers, entity.Header{
			Key: "kafka_dlt-exception-stacktrace", Value: []byte(strings.Repeat("\tat org.example.Orders.on(Orders.java:12)\n", 100)),
		})
	}
	for name, options := range map[string][]Option{"Plain": nil, "Groups": {WithFingerprints(&firstWords{})}} {
		b.Run(name, func(b *testing.B) {
			i := benchIngester(b, options...)
			chunks := []chunk{{p: &partition{TopicPartition: part("a.dlq.v1", 0)}, records: records}}
			b.ReportAllocs()
			for b.Loop() {
				i.batch(chunks)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
		})
	}
}
