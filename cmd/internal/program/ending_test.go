package program

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
)

func TestAttend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		asked bool          // whether the program was asked to end
		takes time.Duration // time that Run still needs to return; 0 when Run has returned already
		err   error
		code  int
		said  string
		after time.Duration
	}{
		{name: "Ended"},
		{name: "Help", err: pflag.ErrHelp},
		{name: "Failed", err: errors.New("a\nb"), code: 1, said: "p: a; b\n"},
		{name: "AskedAndEnds", asked: true, takes: 20 * time.Second, after: 20 * time.Second},
		{name: "AskedAndFails", asked: true, takes: time.Second, err: errors.New("x"), code: 1, said: "p: x\n", after: time.Second},
		{name: "AskedAndHangs", asked: true, takes: time.Hour, said: "p: asked to stop but still working after 24s: exiting now\n", after: 24 * time.Second},
		{name: "WorksForLong", takes: time.Hour, after: time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, ask := context.WithCancel(t.Context())
				defer ask()
				if c.asked {
					ask()
				}
				ended := make(chan error, 1)
				if c.takes == 0 {
					ended <- c.err
				} else {
					time.AfterFunc(c.takes, func() { ended <- c.err })
				}
				var stderr bytes.Buffer
				began := time.Now()
				code := attend(ctx, "p", ended, &stderr)
				if code != c.code || stderr.String() != c.said || time.Since(began) != c.after {
					t.Errorf("got %d, %q after %s, want %d, %q after %s", code, &stderr, time.Since(began), c.code, c.said, c.after)
				}
			})
		})
	}
}

func TestVersionLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	done, err := NewCommandLine("p", "", &out).Parse([]string{"--version"}, &out)
	line := strings.TrimSuffix(out.String(), "\n")
	if !done || err != nil || !strings.HasPrefix(line, "p ") || strings.Join(strings.Fields(line), " ") != line {
		t.Errorf("got %t, %v, %q, want one line of words with single blanks", done, err, out.String())
	}
}
