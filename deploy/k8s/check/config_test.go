package check

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// settings are the sections of the configuration and their keys, except for
// what is an object itself.
var settings = map[string][]string{
	"app":      {"name", "version", "tier", "environment"},
	"server":   {"host", "port", "startup_timeout"},
	"database": {"host", "port", "name", "user", "password", "password_file", "credentials_file", "ssl_mode", "max_open_conns", "max_idle_conns", "conn_max_lifetime", "auto_migrate"},
	"kafka":    {"brokers", "consumer_group", "security_protocol", "dlq_topic_pattern", "republish_key", "republish_allow", "republish_required", "topic_map", "dialects", "uber_dlq_topics", "sasl", "tls"},
	"ingest":   {"max_retries", "max_record_bytes", "payload_max_bytes"},
	"redrive":  {"workers", "claim_expiry", "auto"},
	"archive":  {"retention_days", "batch_size", "purge_days", "purge_whole_quarters", "audit_days", "schedule"},
	"search":   {"payload_bytes", "batch", "interval"},
	"console":  {"enabled", "trace_url", "version_headers"},

	"tracing":   {"endpoint", "sample_ratio", "queue", "timeout", "headers_file", "ca_file"},
	"heartbeat": {"topic", "interval", "lost_after"},

	"groups":  {"rules", "frames"},
	"masking": {"payload", "headers"},
	"auth":    {"mode", "tokens", "tokens_file", "oidc"},
}

func configuration(t *testing.T, set *Set) map[string]map[string]any {
	t.Helper()
	var files []string
	for _, object := range All[*corev1.ConfigMap](set) {
		if text, ok := object.Data["config.yaml"]; ok {
			files = append(files, text)
		}
	}
	if len(files) != 1 {
		t.Fatalf("got %d config maps with a config.yaml, want one", len(files))
	}
	var sections map[string]map[string]any
	if err := yaml.UnmarshalStrict([]byte(files[0]), &sections); err != nil {
		t.Fatal(err)
	}
	return sections
}

func TestTheConfigurationHasKnownKeysAlone(t *testing.T) {
	eachDeployment(t, func(t *testing.T, set *Set) {
		for section, keys := range configuration(t, set) {
			if _, ok := settings[section]; !ok {
				t.Errorf("unknown section %s", section)
			}
			for key := range keys {
				if !slices.Contains(settings[section], key) {
					t.Errorf("unknown key %s.%s", section, key)
				}
			}
		}
	})
}

func TestTheConfigurationFitsTheManifests(t *testing.T) {
	eachDeployment(t, func(t *testing.T, set *Set) {
		got := configuration(t, set)
		if port := got["server"]["port"]; port != float64(8080) {
			t.Errorf("got port %v, want 8080", port)
		}
		if pattern := got["kafka"]["dlq_topic_pattern"]; pattern != "*.dlq.v1" {
			t.Errorf("got pattern %v, want *.dlq.v1", pattern)
		}
		if got["database"]["password"] != nil {
			t.Error("a password is in the config map")
		}
		for _, pod := range set.Pods() {
			for _, variable := range pod.Template.Spec.Containers[0].Env {
				checkVariable(t, pod.Name, variable.Name)
			}
		}
	})
}

// checkVariable finds variables that would override nothing.
func checkVariable(t *testing.T, pod, name string) {
	t.Helper()
	setting, ok := strings.CutPrefix(name, "DLQ_")
	if !ok {
		return
	}
	section, key, _ := strings.Cut(strings.ToLower(setting), "_")
	if !slices.Contains(settings[section], key) {
		t.Errorf("%s: %s is no setting", pod, name)
	}
}
