package stack

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestArtefact(t *testing.T) {
	t.Parallel()
	t.Run("IsInstalledOnceByMany", func(t *testing.T) {
		t.Parallel()
		var installs atomic.Int32
		a := artefact{name: "x", install: func(_ context.Context, dir string) error {
			installs.Add(1)
			return os.WriteFile(filepath.Join(dir, "done"), nil, 0o600)
		}}
		cache := t.TempDir()
		ctx := patient(t)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				dir, err := a.ensure(ctx, cache)
				if err != nil || !exists(filepath.Join(dir, "done")) {
					t.Errorf("ensure = %q, %v, want a complete folder", dir, err)
				}
			})
		}
		wg.Wait()
		if got := installs.Load(); got != 1 {
			t.Errorf("installed %d times, want once", got)
		}
	})
	t.Run("IsTriedAgainAfterAFailure", func(t *testing.T) {
		t.Parallel()
		broken := errors.New("no network")
		a := artefact{name: "x", install: func(context.Context, string) error { return broken }}
		cache := t.TempDir()
		if _, err := a.ensure(patient(t), cache); !errors.Is(err, broken) {
			t.Fatalf("ensure = %v, want %v", err, broken)
		}
		a.install = func(context.Context, string) error { return nil }
		if _, err := a.ensure(patient(t), cache); err != nil {
			t.Errorf("ensure after the network came back = %v, want nil", err)
		}
	})
	t.Run("ChangesWithItsPins", func(t *testing.T) {
		t.Parallel()
		one := artefact{files: map[string][]byte{"pom.xml": []byte("1")}}
		two := artefact{files: map[string][]byte{"pom.xml": []byte("2")}}
		if one.fingerprint() == two.fingerprint() {
			t.Error("different pins have one fingerprint")
		}
	})
	t.Run("NamesNoRegistry", func(t *testing.T) {
		t.Parallel()
		a, err := postgresArtefact(environment{})
		check.NoError(t, err)
		if strings.Contains(string(a.files["package-lock.json"]), `"resolved"`) {
			t.Error("package-lock.json says where packages come from; write it with omit-lockfile-registry-resolved")
		}
	})
}

func TestFreePortsDiffer(t *testing.T) {
	t.Parallel()
	ports, err := freePorts(20)
	check.NoError(t, err)
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] {
			t.Errorf("freePorts(20) has %d twice", port)
		}
		seen[port] = true
	}
}

func TestTakenPortIsTriedAgain(t *testing.T) {
	t.Parallel()
	logFile := filepath.Join(t.TempDir(), "log")
	tries := 0
	_, err := startOnFreePorts(patient(t), 1, func([]int) (*server, error) {
		tries++
		return crashing(logFile, "bind: Address already in use"), nil
	})
	if !errors.Is(err, errPortTaken) || tries != 5 {
		t.Errorf("startOnFreePorts = %v after %d tries, want %v after 5", err, tries, errPortTaken)
	}
}
