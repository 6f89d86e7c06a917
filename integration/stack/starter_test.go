package stack

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestStarterIsKilled(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	starter := exec.Command(os.Args[0])
	starter.Env = append(os.Environ(), starterVariable+"="+dir)
	out, err := starter.StdoutPipe()
	check.NoError(t, err)
	check.NoError(t, starter.Start())
	lines := bufio.NewScanner(out)
	postgres, broker := hostOf(t, nextLine(t, lines)), nextLine(t, lines)
	if !listens(postgres) || !listens(broker) {
		t.Fatalf("servers of the starter at %s and %s do not listen", postgres, broker)
	}
	pids := serverPIDs(t, dir)
	if len(pids) < 2 {
		t.Fatalf("processes with files in %s: %v, want those of both servers", dir, pids)
	}

	check.NoError(t, starter.Process.Kill())
	_ = starter.Wait() // returns an error, because the starter was killed

	t.Run("ServersEnd", func(t *testing.T) {
		await(t, "end of PostgreSQL", func() bool { return !listens(postgres) })
		await(t, "end of Kafka", func() bool { return !listens(broker) })
		await(t, "end of every server process", func() bool { return len(serverPIDs(t, dir)) == 0 })
	})
	t.Run("NextStartRemovesItsData", func(t *testing.T) {
		left := runFolders(t, dir)
		check.Require(t, len(left) == 1, "data folders after the kill: %q, want one", left)
		folder, err := newDataFolder(dir)
		check.NoError(t, err)
		if now := runFolders(t, dir); len(now) != 1 || now[0] == left[0] {
			t.Errorf("data folders after the next start: %q, want only the new one", now)
		}
		if err := folder.remove(); err != nil {
			t.Error(err)
		}
	})
}

func TestDataFolder(t *testing.T) {
	t.Parallel()
	t.Run("InUseIsNotSwept", func(t *testing.T) {
		dir := openDir(t)
		first, err := newDataFolder(dir)
		check.NoError(t, err)
		second, err := newDataFolder(dir)
		check.NoError(t, err)
		if got := runFolders(t, dir); len(got) != 2 {
			t.Errorf("data folders = %q, want two", got)
		}
		for _, folder := range []*dataFolder{first, second} {
			if err := folder.remove(); err != nil {
				t.Error(err)
			}
		}
	})
}

func nextLine(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	if !lines.Scan() || strings.HasPrefix(lines.Text(), "error:") {
		t.Fatalf("the starter said %q (%v), want an address", lines.Text(), lines.Err())
	}
	return lines.Text()
}

// serverPIDs returns the processes whose command line contains the folder.
func serverPIDs(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	check.NoError(t, err)
	var found []string
	for _, entry := range entries {
		line, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		if err == nil && strings.Contains(string(line), dir) {
			found = append(found, entry.Name())
		}
	}
	return found
}
