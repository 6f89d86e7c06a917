package stack

import (
	"errors"
	"fmt"
)

// ErrFallback is the error of Start with CI=true if a server is available only as a stand-in.
var ErrFallback = errors.New("stand-ins are not accepted with CI=true")

// errForced is the cause of a fallback that ForceFallbackVariable requested.
var errForced = errors.New(ForceFallbackVariable + " is set")

// fallBack decides what happens if an artefact is not available. It returns an error if the environment accepts no
// stand-ins, and otherwise a note for the user about the stand-in.
func fallBack(env environment, wanted, standIn string, cause error) (note string, err error) {
	if env.ci {
		return "", fmt.Errorf("%s is not available: %w: %w", wanted, cause, ErrFallback)
	}
	return fmt.Sprintf("%s in place of %s (%s)", standIn, wanted, oneLine(cause.Error())), nil
}
