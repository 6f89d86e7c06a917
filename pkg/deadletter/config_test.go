package deadletter

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/config"
)

// The keys of a file are what docs and users rely on.
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
origins: [{dlq: "*.dlq.v1", originals: ["$1.*", orders]}]
origin_trust: declared
pointer_topics: ["share.*"]
topic_map: [{pattern: "*.dlq", original: "$1"}]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, _, err := config.Load(file, "DLQ_", DefaultConfig(), config.WithEnviron(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		TopicMap: []MapRule{{"*.dlq", "$1"}},
		Dialects: []DialectConfig{{
			Name: "acme", Topics: []string{"acme.*"}, Anchors: []string{"acme-error", "acme-topic"},
			Topic: "acme-topic", Partition: "acme-partition", Offset: "acme-offset", Timestamp: "acme-time",
			Class: "acme-class", Message: "acme-error", Stack: "acme-stack", Group: "acme-group", Attempts: "acme-tries",
			NewestFirst: true, Strip: []string{"acme-tmp-*"},
		}},
		UberDLQTopics: []string{"*.uber"},
		Origins:       []OriginRule{{"*.dlq.v1", []string{"$1.*", "orders"}}},
		OriginTrust:   TrustDeclared,
		PointerTopics: []string{"share.*"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Load = %+v, want %+v", got, want)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("Validate = %v, want nil", err)
	}
}
