package cmd_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestCPUProfile: the file of the CPU profile is complete, whether the program ends by itself or because of a signal.
func TestCPUProfile(t *testing.T) {
	t.Parallel()
	at, brokers := postgrestest.URL(t), strings.Join(stacktest.Kafka(t), ",")
	for _, program := range []string{"api", "ingester"} {
		for name, end := range map[string]os.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT} {
			t.Run(program+"/"+name, func(t *testing.T) {
				t.Parallel()
				port, path := freePort(t), filepath.Join(t.TempDir(), "cpu.pprof")
				group := fmt.Sprintf("cmd-profile-%d", port)
				config := file(t, settings(t, at, fmt.Sprintf("{host: 127.0.0.1, port: %d}", port))+
					fmt.Sprintf("kafka: {brokers: [%s], consumer_group: %s, dlq_topic_pattern: \"%s.*\"}\n", brokers, group, group))
				p := start(t, program, nil, "--config", config, "--cpu-profile", path)
				p.waitForAnswer(fmt.Sprintf("http://127.0.0.1:%d/readyz", port), http.StatusOK, `"ready"`)
				p.wantCleanEndBy(end)
				wantProfile(t, path)
			})
		}
	}
	t.Run("archiver/Run", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "cpu.pprof")
		got := run(t, "archiver", nil, "--config", file(t, settings(t, at, "{port: 0}")), "--cpu-profile", path)
		check.True(t, got.code == 0, "got exit code %d, stderr %q, want 0", got.code, got.stderr)
		wantProfile(t, path)
	})
	t.Run("archiver/SIGTERM", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "cpu.pprof")
		p := start(t, "archiver", nil, "--config", file(t, settings(t, at, "{port: 0}")), "--schedule", "0 3 * * *", "--cpu-profile", path)
		p.waitForLog("archiver waits")
		p.wantCleanEnd()
		wantProfile(t, path)
	})
	for _, program := range names {
		t.Run(program+"/Unwritable", func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "none", "cpu.pprof")
			wantRefusal(t, run(t, program, nil, "--cpu-profile", path), program, "--cpu-profile: open "+path)
		})
		t.Run(program+"/Help", func(t *testing.T) {
			t.Parallel()
			if got := run(t, program, nil, "--help"); !strings.Contains(got.stdout, "--cpu-profile file") {
				t.Errorf("got %q, want the flag in it", got.stdout)
			}
		})
	}
}

// wantProfile checks that a file contains a complete profile, which is compressed and ends with a checksum.
func wantProfile(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	check.NoError(t, err)
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	check.Require(t, err == nil, "profile: got %v, want a compressed file", err)
	content, err := io.ReadAll(unpacked)
	if err != nil || !strings.Contains(string(content), "nanoseconds") {
		t.Errorf("profile: got %d bytes, %v, want a whole profile of processor time", len(content), err)
	}
}
