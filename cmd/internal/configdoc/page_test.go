package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

const (
	root      = "../../.."
	reference = root + "/configs/config.yaml"
)

func made(t *testing.T) string {
	t.Helper()
	text, err := page(reference)
	check.NoError(t, err)
	return text
}

func TestConfigurationPageIsCurrent(t *testing.T) {
	t.Parallel()
	want := made(t)
	got, err := os.ReadFile(root + "/docs/configuration.md")
	check.NoError(t, err)
	if string(got) != want {
		t.Error("docs/configuration.md does not match the configuration structs: run make generate")
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	rows := map[string][]string{}
	for _, line := range strings.Split(made(t), "\n") {
		if cells := strings.Split(line, " | "); len(cells) == 6 {
			rows[strings.Trim(cells[0], "| `")] = cells
		}
	}
	for _, c := range []struct{ name, key, variable, typ, value, span string }{
		{"DurationBetweenTwo", "kafka.republish_timeout", "`DLQ_KAFKA_REPUBLISH_TIMEOUT`", "duration", "`5s`", "100ms to 5s"},
		{"DurationAboveZero", "server.request_timeout", "`DLQ_SERVER_REQUEST_TIMEOUT`", "duration", "`30s`", "more than 0s"},
		{"DurationOfNothing", "database.read_timeout", "`DLQ_DATABASE_READ_TIMEOUT`", "duration", "`30s`", "0s or more"},
		{"Size", "ingest.max_record_bytes", "`DLQ_INGEST_MAX_RECORD_BYTES`", "size", "`64MiB`", "1 to 512MiB"},
		{"Fraction", "redrive.auto.jitter", "`DLQ_REDRIVE_AUTO_JITTER`", "number", "`0.1`", "0 to less than 1"},
		{"BoundByAnother", "database.max_idle_conns", "`DLQ_DATABASE_MAX_IDLE_CONNS`", "whole number", "`5`", "0 to 25"},
		{"CheckedOnlyWhenOn", "auth.oidc.timeout", "`DLQ_AUTH_OIDC_TIMEOUT`", "duration", "`5s`", "more than 0s to 10s"},
		{"List", "kafka.dlq_topic_pattern", "`DLQ_KAFKA_DLQ_TOPIC_PATTERN`", "list of texts", "`[\"*.dlq.v1\"]`", ""},
		{"NoDefault", "kafka.republish_required", "`DLQ_KAFKA_REPUBLISH_REQUIRED`", "true or false", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := rows[c.key]
			if got == nil {
				t.Fatalf("no row for %s", c.key)
			}
			for i, want := range []string{c.variable, c.typ, c.value, c.span} {
				check.True(t, strings.TrimSpace(got[i+1]) == want, "%s: got %q in column %d, want %q", c.key, got[i+1], i+2, want)
			}
			if len(got[5]) < 4 {
				t.Errorf("%s: got no meaning", c.key)
			}
		})
	}
}

func TestPageRefusesASettingThatIsNotExplained(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(reference)
	check.NoError(t, err)
	const about = "# [more than 0s] time limit for reading the headers of a request"
	for name, comment := range map[string]string{"NoComment": "", "NoRange": "# time limit for reading the headers of a request"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "config.yaml")
			check.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(raw), about, comment, 1)), 0o600))
			if _, err := page(path); err == nil || !strings.Contains(err.Error(), "server.read_header_timeout") {
				t.Errorf("got error %v, want one that names server.read_header_timeout", err)
			}
		})
	}
}

func TestReadComments(t *testing.T) {
	t.Parallel()
	got := readComments(strings.Join([]string{
		"# of the file", "", "a: 1   # one", "       # and more",
		"b:     # section", "  # above c", "  c: x  # of c", "  d:", "    - y  # an item", "e: 2", "",
	}, "\n"))
	for key, want := range map[string]string{"a": "one and more", "b": "section", "b.c": "of c. above c", "b.d": "section", "e": "", "f": ""} {
		if got := got.meaning(key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	check.True(t, strings.Join(got.sections, " ") == "a b e", "sections: got %v, want a b e", got.sections)
}
