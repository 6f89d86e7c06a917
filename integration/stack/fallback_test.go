package stack

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestFallback(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := start(t, Options{
		Postgres: true, Kafka: true, Log: &log,
		Getenv: variables(map[string]string{ForceFallbackVariable: "1", CIVariable: "", "PATH": pathWithPostgres(t)}),
	})
	t.Run("ServersWork", func(t *testing.T) {
		if got := scalar(t, openDatabase(t, s.DatabaseURL()), "select 1"); got != "1" {
			t.Errorf("select 1 = %s", got)
		}
		keepsRecords(t, s, "kept", s.KillKafka)
	})
	t.Run("IsToldAtStartAndEnd", func(t *testing.T) {
		if got := len(s.Notes()); got != 2 {
			t.Fatalf("Notes() = %q, want one for each server", s.Notes())
		}
		check.NoError(t, s.Stop())
		for _, note := range s.Notes() {
			if got := strings.Count(log.String(), note+"\n"); got != 2 {
				t.Errorf("%q is %d times in the log, want 2", note, got)
			}
		}
	})
}

func TestFallbackIsRefusedInCI(t *testing.T) {
	t.Parallel()
	path := pathWithPostgres(t)
	for name, opts := range map[string]Options{
		"Postgres": {Postgres: true}, "Kafka": {Kafka: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := openDir(t)
			opts.Own, opts.Dir = true, dir
			opts.Getenv = variables(map[string]string{ForceFallbackVariable: "true", CIVariable: "true", "PATH": path})
			_, err := Start(patient(t), opts)
			if !errors.Is(err, ErrFallback) || !strings.Contains(err.Error(), "is not available") {
				t.Errorf("Start = %v, want %v and what is missing", err, ErrFallback)
			}
			if left := runFolders(t, dir); len(left) != 0 {
				t.Errorf("data folders after a refused start: %q, want none", left)
			}
		})
	}
}

func TestFallbackNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	empty := variables(map[string]string{"PATH": "", "JAVA_HOME": "", CIVariable: "true", CacheVariable: openDir(t)})
	_, err := Start(patient(t), Options{Kafka: true, Own: true, Getenv: empty})
	if err == nil || !strings.Contains(err.Error(), "java is not on PATH") {
		t.Errorf("Start without Java = %v, want it named", err)
	}
	_, err = Start(patient(t), Options{Postgres: true, Own: true, Getenv: empty})
	if err == nil || !strings.Contains(err.Error(), "npm is not on PATH") {
		t.Errorf("Start without npm = %v, want it named", err)
	}
}

// pathWithPostgres returns a PATH that begins with the folder of the pinned PostgreSQL programs, as if this machine had
// a recent PostgreSQL installed.
func pathWithPostgres(t *testing.T) string {
	t.Helper()
	as, err := pickUser()
	check.NoError(t, err)
	bin, err := pinnedPostgresBinaries(patient(t), readEnvironment(os.Getenv), as)
	check.NoError(t, err)
	return bin + string(filepath.ListSeparator) + os.Getenv("PATH")
}
