package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
)

// patience is the time that a program may take to stop after it was asked to. A little later, Kubernetes would kill it,
// and it would appear in the logs as crashed and not as stopped.
const patience = 24 * time.Second

// attend waits for the result of Run in the channel ended, and returns the exit code. When the code is not 0, attend
// writes one line with the reason to stderr. When Run has not returned in time after ctx ended, attend writes a line to
// stderr and returns 0 although Run still works: the dependencies may never answer, and ending the program at any
// moment loses no data.
func attend(ctx context.Context, name string, ended <-chan error, stderr io.Writer) int {
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		limit := time.NewTimer(patience)
		defer limit.Stop()
		select {
		case err = <-ended:
		case <-limit.C:
			fmt.Fprintf(stderr, "%s: asked to stop but still working after %s: exiting now\n", name, patience)
			return 0
		}
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(stderr, "%s: %s\n", name, oneLine(err))
		return 1
	}
	return 0
}
