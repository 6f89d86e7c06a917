package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestEnvironLeavesOutSettings(t *testing.T) {
	t.Parallel()
	got := environ([]string{"PATH=/bin", "DLQ_SERVER_PORT=1", "DLQ_DATABASE_PASSWORD=x", "HOME=/"})
	if want := []string{"PATH=/bin", "HOME=/"}; !slices.Equal(got, want) {
		t.Errorf("environ = %q, want %q", got, want)
	}
}

func TestParseRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-no-such-flag"}, {"something"}, {"-for", "soon"}} {
		var stderr bytes.Buffer
		if code := run(context.Background(), args, &stderr, &stderr); code != exitUsage || stderr.Len() == 0 {
			t.Errorf("run(%q) = %d with %q, want %d and a reason", args, code, stderr.String(), exitUsage)
		}
	}
}

func TestDemoWantsItsProgramsBuilt(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"-bin", t.TempDir()}, &stdout, &stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), "dlq-manager-api") {
		t.Errorf("run = %d with %q, want %d and the program's name", code, stderr.String(), exitFailed)
	}
	if strings.Contains(stdout.String(), "Kafka") {
		t.Errorf("servers are started before the programs are looked for: %q", stdout.String())
	}
}

func TestService(t *testing.T) {
	t.Parallel()
	shell := func(t *testing.T, script string) *service {
		t.Helper()
		c, err := startService(program{name: "it", path: "/bin/sh", args: []string{"-c", script}, log: filepath.Join(t.TempDir(), "log")})
		check.NoError(t, err)
		return c
	}
	t.Run("IsStoppedByATermination", func(t *testing.T) {
		t.Parallel()
		c := shell(t, "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")
		err := poll(t.Context(), time.Minute, c.Done(), func(context.Context) error {
			text, err := os.ReadFile(c.log)
			if err == nil && len(text) == 0 {
				err = errors.New("not up")
			}
			return err
		})
		check.NoError(t, err)
		if err := c.stop(); err != nil {
			t.Errorf("stop = %v, want nil", err)
		}
	})
	t.Run("TellsItsLastWordsWhenItFails", func(t *testing.T) {
		t.Parallel()
		c := shell(t, "echo first; echo last words >&2; exit 3")
		<-c.Done()
		if got := c.ended().Error(); got != "it: exit status 3: last words" {
			t.Errorf("ended = %q, want %q", got, "it: exit status 3: last words")
		}
	})
	t.Run("ThatIsMissingIsAnError", func(t *testing.T) {
		t.Parallel()
		_, err := startService(program{name: "it", path: "no/such/program", log: filepath.Join(t.TempDir(), "log")})
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("startChild = %v, want %v", err, os.ErrNotExist)
		}
	})
}

func TestPollGivesUpWhenTheProgramEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	close(ended)
	err := poll(t.Context(), time.Minute, ended, func(context.Context) error { return errors.New("not yet") })
	if !errors.Is(err, errEnded) {
		t.Errorf("poll = %v, want %v", err, errEnded)
	}
}

func TestConfigTextKeepsOddPasswords(t *testing.T) {
	t.Parallel()
	s := site{api: baseURL(1), ingester: baseURL(2), brokers: []string{"a:1", "b:2"}, database: databaseAddress{port: "3", password: `#"':\`}}
	for _, want := range []string{`password: "#\"':\\"`, `brokers: ["a:1","b:2"]`, "port: 1\n", "port: 3\n"} {
		if got := s.configText(); !strings.Contains(got, want) {
			t.Errorf("configuration has no %s:\n%s", want, got)
		}
	}
}
