package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
)

// patience is how long a program that was told to end may take. Whoever told it
// kills it soon after: ending by itself is the difference between a stop and a
// crash in every log that is kept.
const patience = 24 * time.Second

// attend waits for a program to end and returns its exit code; stderr gets the
// one line that says why it is not 0, or that the program did not come to its
// end after ctx ended. Then it is left as it is: what it waits for may never
// answer, and a crash loses nothing either.
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
			fmt.Fprintf(stderr, "%s: told to end and still at work after %s: ending now\n", name, patience)
			return 0
		}
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(stderr, "%s: %s\n", name, oneLine(err))
		return 1
	}
	return 0
}
