package codec

import (
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// retryPatched is the name in the database for the action of a retry with a patch, archivedPrefix comes before the
// names of actions on archived messages, and boundedSuffix after the name of a retry whose messages without a known
// outcome are bounded. Earlier versions of the program, which may run during a roll-out, do not know these names and
// change nothing for such a redrive.
const (
	retryPatched   = "retry_patched"
	archivedPrefix = "archived_"
	boundedSuffix  = "_bounded"
)

// StoredAction returns the name in the database for the action of a redrive.
func StoredAction(r repository.NewRedrive) string {
	name := string(r.Action)
	if r.Selection.Archived {
		name = archivedPrefix + name
	}
	switch {
	case r.Action == entity.RedriveRetry && r.Options.Bounded():
		return name + boundedSuffix
	case r.Action == entity.RedriveRetry && r.Options.Patch != nil && !r.Selection.Archived:
		return retryPatched
	}
	return name
}

// RedriveAction returns the action of a redrive by its name in the database.
func RedriveAction(stored string) entity.RedriveAction {
	if stored == retryPatched {
		return entity.RedriveRetry
	}
	return entity.RedriveAction(strings.TrimSuffix(strings.TrimPrefix(stored, archivedPrefix), boundedSuffix))
}

// Bounded reports whether the redrive with this action bounds its messages without a known outcome. A redrive that was
// created before there were bounds has none, whatever its options.
func Bounded(stored string) bool { return strings.HasSuffix(stored, boundedSuffix) }
