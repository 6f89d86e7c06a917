package telemetry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestCredentialFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole, empty := filepath.Join(dir, "whole"), filepath.Join(dir, "empty")
	for path, text := range map[string]string{whole: "hunter2\n", empty: ""} {
		check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		check.NoError(t, os.Chtimes(path, time.Time{}, time.Unix(1000, 0)))
	}
	c := NewCredentialFiles(map[string]string{
		"database": whole, "kafka": empty, "issuer": filepath.Join(dir, "missing"), "tls": "",
	})
	const want = `
		# HELP dlq_credentials_file_readable 1 while a credentials file can be read and is not empty, else 0.
		# TYPE dlq_credentials_file_readable gauge
		dlq_credentials_file_readable{credentials="database"} 1
		dlq_credentials_file_readable{credentials="issuer"} 0
		dlq_credentials_file_readable{credentials="kafka"} 0
		# HELP dlq_credentials_file_timestamp_seconds When a credentials file was last written.
		# TYPE dlq_credentials_file_timestamp_seconds gauge
		dlq_credentials_file_timestamp_seconds{credentials="database"} 1000
		dlq_credentials_file_timestamp_seconds{credentials="kafka"} 1000
	`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
