package check

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// documented are the keys of the configuration and their variables, of the page that is
// made of the programs themselves.
func documented(t *testing.T) (keys map[string]bool, variables map[string]bool) {
	t.Helper()
	raw, err := os.ReadFile(path.Join("..", "..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	keys, variables = map[string]bool{}, map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_.]+)` \\| `(DLQ_[A-Z0-9_]+)` \\|").FindAllStringSubmatch(string(raw), -1) {
		keys[row[1]], variables[row[2]] = true, true
	}
	if len(keys) < 100 {
		t.Fatalf("got %d settings of the page, want all of them", len(keys))
	}
	return keys, variables
}

// unknown are the keys of a configuration that no program knows, in order.
func unknown(known map[string]bool, prefix string, section map[string]any) []string {
	var strange []string
	for name, value := range section {
		key := strings.TrimPrefix(prefix+"."+name, ".")
		deeper, isSection := value.(map[string]any)
		switch {
		case known[key]:
		case isSection && len(deeper) > 0:
			strange = append(strange, unknown(known, key, deeper)...)
		default:
			strange = append(strange, key)
		}
	}
	slices.Sort(strange)
	return strange
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
	known, _ := documented(t)
	eachDeployment(t, func(t *testing.T, set *Set) {
		for section, keys := range configuration(t, set) {
			for _, key := range unknown(known, section, keys) {
				t.Errorf("unknown key %s", key)
			}
		}
	})
}

// Whatever a program reads may stand in an overlay, and nothing else.
func TestUnknownKeysAreFound(t *testing.T) {
	t.Parallel()
	known, _ := documented(t)
	for text, want := range map[string][]string{
		"notify: {sinks: [{name: ops, type: slack, url_file: /a}]}":                          nil,
		"database: {read_timeout: 10s}\nserver: {drain_timeout: 5s}\ntracing: {endpoint: a}": nil,
		"kafka: {republish_timeout: 10s, sasl: {mechanism: PLAIN, password_file: /a}}":       nil,
		"notify: {sink: []}": {"notify.sink"},
		"kafka: {sasl: {passwordfile: /a}}\nnotifications: 1": {"kafka.sasl.passwordfile", "notifications"},
		"redrive: {auto: {topic: []}}":                        {"redrive.auto.topic"},
	} {
		var file map[string]any
		if err := yaml.Unmarshal([]byte(text), &file); err != nil {
			t.Fatal(err)
		}
		if got := unknown(known, "", file); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestTheConfigurationFitsTheManifests(t *testing.T) {
	_, variables := documented(t)
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
				// It would override nothing.
				if strings.HasPrefix(variable.Name, "DLQ_") && !variables[variable.Name] {
					t.Errorf("%s: %s is no setting", pod.Name, variable.Name)
				}
			}
		}
	})
}
