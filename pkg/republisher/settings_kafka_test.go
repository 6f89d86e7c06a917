package republisher

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// random returns n bytes that cannot be compressed.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func value(b []byte) func(*entity.Message) {
	return func(m *entity.Message) { m.Record.Value, m.Record.Size = b, int64(len(b)) }
}

func setting(name, text string) kafka.ConfigEntry {
	return kafka.ConfigEntry{ConfigName: name, ConfigValue: text}
}

// A record that the target's own settings forbid is refused before an attempt; any other arrives with its bytes.
func TestRealKafka_SettingsOfTheTarget(t *testing.T) {
	t.Parallel()
	const limit = "1200"
	for _, c := range []struct {
		name     string
		value    []byte
		settings []kafka.ConfigEntry
		headers  int // number of our headers that the record carries
	}{
		{"FitsWithAllHeaders", random(700), nil, 5},
		{"FitsWithoutTheTimeOfTheReplay", random(930), []kafka.ConfigEntry{setting("compression.type", "uncompressed")}, 4},
		{"FitsWithoutHeadersThatAreNotNeeded", random(980), nil, 2},
		{"FitsCompressed", bytes.Repeat([]byte("order "), 1000), nil, 5},
		{"FitsCompressedAsTheTopicStoresIt", bytes.Repeat([]byte("order "), 1000), []kafka.ConfigEntry{setting("compression.type", "lz4")}, 5},
		{"FitsWithZstandard", bytes.Repeat([]byte("order "), 1000), []kafka.ConfigEntry{setting("compression.type", "zstd")}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, cluster, topic := realKafka(t, append(c.settings, setting("max.message.bytes", limit))...)
			small := message(to(topic), toPartition(0))
			batch := claimed(t, r, small, message(to(topic), toPartition(0), value(c.value)), small)
			deliveries := r.Publish(t.Context(), batch)
			for i, d := range deliveries {
				check.Require(t, d.Verdict == entity.Acknowledged, "Publish %d = %+v, want acknowledged", i, d)
			}
			got := check.Must(cluster.ReadAt(t.Context(), broker.TopicPartition{Topic: topic}, deliveries[1].Offset))(t)
			check.True(t, bytes.Equal(got.Value, c.value), "the value is not the same")
			names := map[string]bool{}
			for _, h := range got.Headers {
				names[h.Key] = true
			}
			check.True(t, len(got.Headers) == c.headers && names[deadletter.HeaderMessageID] && names[deadletter.HeaderRedriveID],
				"headers = %q, want %d of ours", got.Headers, c.headers)
		})
	}

	for _, c := range []struct {
		name     string
		settings []kafka.ConfigEntry
		message  func(*entity.Message)
		want     []string
	}{
		{"TooLarge", []kafka.ConfigEntry{setting("max.message.bytes", limit)}, value(random(1150)), []string{"max.message.bytes", limit, "bytes"}},
		{
			"TooLargeWhereNothingIsStoredCompressed",
			[]kafka.ConfigEntry{setting("max.message.bytes", limit), setting("compression.type", "uncompressed")},
			value(make([]byte, 3000)),
			[]string{"max.message.bytes", limit},
		},
		{
			"CompactedWithoutKey",
			[]kafka.ConfigEntry{setting("cleanup.policy", "compact")},
			func(m *entity.Message) { m.Record.Key = nil },
			[]string{"compacted", "key"},
		},
		{
			"CompactedAndDeletedWithoutKey",
			[]kafka.ConfigEntry{setting("cleanup.policy", "compact,delete")},
			func(m *entity.Message) { m.Record.Key = nil },
			[]string{"compacted", "key"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, _, topic := realKafka(t, c.settings...)
			targets := r.Plan(t.Context(), plain(message(to(topic)), message(to(topic), c.message)), true)
			check.NoError(t, targets[0].Err)
			refused := check.As[*entity.RefusedError](t, targets[1].Err, "Plan")
			check.True(t, refused.Class == entity.BadRecord && refused.OfMessage(), "refused as %s, want the message alone as BAD_RECORD", refused.Class)
			for _, part := range append(c.want, topic) {
				check.True(t, strings.Contains(refused.Reason, part), "reason = %q, want it to name %s", refused.Reason, part)
			}
		})
	}

	t.Run("EachSizeIsSentOrRefused", func(t *testing.T) {
		t.Parallel()
		r, _, topic := realKafka(t, setting("max.message.bytes", limit))
		refusals := 0
		for n := 940; n < 1100; n += 4 {
			text := fmt.Appendf(random(n-200), "%0200d", n) // partly compressible, so that compression decides
			m := message(to(topic), value(text))
			if r.Plan(t.Context(), plain(m), false)[0].Err != nil {
				refusals++
				continue
			}
			d := r.Publish(t.Context(), claimed(t, r, m))[0]
			check.True(t, d.Verdict == entity.Acknowledged, "a value of %d bytes = %+v, want acknowledged, or refused before", n, d)
		}
		check.True(t, refusals > 0 && refusals < 40, "%d sizes were refused, want some", refusals)
	})
}
