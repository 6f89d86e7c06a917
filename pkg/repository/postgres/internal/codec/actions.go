package codec

import (
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// retryPatched is the name in the database for the action of a retry with a patch, and archivedPrefix comes before the
// names of actions on archived messages. Earlier versions of the program, which may run during a roll-out, do not know
// these names and change nothing for such a redrive.
const (
	retryPatched   = "retry_patched"
	archivedPrefix = "archived_"
)

// StoredAction returns the name in the database for the action of a redrive.
func StoredAction(r repository.NewRedrive) string {
	switch {
	case r.Selection.Archived:
		return archivedPrefix + string(r.Action)
	case r.Action == entity.RedriveRetry && r.Options.Patch != nil:
		return retryPatched
	}
	return string(r.Action)
}

// RedriveAction returns the action of a redrive by its name in the database.
func RedriveAction(stored string) entity.RedriveAction {
	if stored == retryPatched {
		return entity.RedriveRetry
	}
	return entity.RedriveAction(strings.TrimPrefix(stored, archivedPrefix))
}
