package chromium

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestFind(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"chromium", "google-chrome", "mine"} {
		check.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"), 0o700))
	}
	for name, c := range map[string]struct{ path, variable, want, problem string }{
		"TheVariableWins":          {path: folder, variable: filepath.Join(folder, "mine"), want: "mine"},
		"TheSmallestOnPath":        {path: folder, want: "chromium"},
		"AWrongVariableIsAnError":  {path: folder, variable: "/nowhere/chromium", problem: "CHROMIUM names no program"},
		"WithoutOneItSaysHowToGet": {path: t.TempDir(), problem: "chromium-headless-shell"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", c.path)
			t.Setenv("CHROMIUM", c.variable)
			// This PATH has no apt-get, so Ensure installs nothing.
			for _, find := range []func() (string, error){Find, func() (string, error) { return Ensure(t.Context(), io.Discard) }} {
				got, err := find()
				if c.problem != "" {
					if err == nil || !strings.Contains(err.Error(), c.problem) {
						t.Errorf("got %q, %v, want an error with %q", got, err, c.problem)
					}
				} else if err != nil || filepath.Base(got) != c.want {
					t.Errorf("got %q, %v, want %s", got, err, c.want)
				}
			}
		})
	}
}
