package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
)

// patience is how long a program may take to stop after it was asked to. Soon after this time Kubernetes would kill it;
// a program that exits by itself appears in the logs as stopped, not as crashed.
const patience = 24 * time.Second

// attend waits for run to return and returns the exit code. If the code is not 0, stderr gets one line with the reason.
// If run has not returned in time after ctx ended, stderr gets a line and attend returns while run still works: the
// dependencies of run may never answer, and ending the program at any moment loses no data.
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
