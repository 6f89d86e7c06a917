package deadletter

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/config"
)

// TestConfigIsReadFromAFile: the keys of the configuration file, on which users and documentation rely, set the fields
// of Config.
func TestConfigIsReadFromAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := `
dialects:
  - name: acme
    topics: ["acme.*"]
    anchors: [acme-error, acme-topic]
    topic: acme-topic
    partition: acme-partition
    offset: acme-offset
    timestamp: acme-time
    class: acme-class
    message: acme-error
    stack: acme-stack
    group: acme-group
    attempts: acme-tries
    newest_first: true
    strip: ["acme-tmp-*"]
uber_dlq_topics: ["*.uber"]
keep_headers: ["x-*", tenant]
origins: [{dlq: "*.dlq.v1", originals: ["$1.*", orders]}]
origin_trust: declared
pointer_topics: ["share.*"]
share_group_topics: ["dlq.*"]
topic_map: [{pattern: "*.dlq", original: "$1"}]
`
	check.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	got, _, err := config.Load(file, "DLQ_", DefaultConfig(), config.WithEnviron(nil))
	check.NoError(t, err)
	want := Config{
		TopicMap: []MapRule{{"*.dlq", "$1"}},
		Dialects: []DialectConfig{{
			Name: "acme", Topics: []string{"acme.*"}, Anchors: []string{"acme-error", "acme-topic"},
			Topic: "acme-topic", Partition: "acme-partition", Offset: "acme-offset", Timestamp: "acme-time",
			Class: "acme-class", Message: "acme-error", Stack: "acme-stack", Group: "acme-group", Attempts: "acme-tries",
			NewestFirst: true, Strip: []string{"acme-tmp-*"},
		}},
		UberDLQTopics: []string{"*.uber"}, KeepHeaders: []string{"x-*", "tenant"},
		Origins:       []OriginRule{{"*.dlq.v1", []string{"$1.*", "orders"}}},
		OriginTrust:   TrustDeclared,
		PointerTopics: []string{"share.*"}, ShareGroupTopics: []string{"dlq.*"},
	}
	check.Equal(t, got, want, "Load")
	check.Equal(t, got.Validate(), nil, "Validate")
}
