package stack

import (
	"errors"
	"fmt"
)

// ErrFallback is what Start returns with CI=true when a server could only be
// replaced by a stand-in.
var ErrFallback = errors.New("stand-ins are not accepted with CI=true")

// errForced stands for the missing artefact where a fallback is asked for.
var errForced = errors.New(ForceFallbackVariable + " is set")

// fallBack decides what follows from an artefact that cannot be had: an error
// where stand-ins are not accepted, else the sentence to tell the user.
func fallBack(env environment, wanted, standIn string, cause error) (note string, err error) {
	if env.ci {
		return "", fmt.Errorf("%s cannot be had: %w: %w", wanted, cause, ErrFallback)
	}
	return fmt.Sprintf("%s in place of %s (%s)", standIn, wanted, oneLine(cause.Error())), nil
}
