package deadletter

import (
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
)

// Headers that replays of dlq-manager contain, each once. The ids of the message and of the redrive are in every replay; the
// others are left out where the record would be too large for its topic. These headers belong to no dialect.
const (
	HeaderMessageID  = "dlq-message-id"
	HeaderRootID     = "dlq-root-id"
	HeaderRetryCount = "dlq-retry-count"
	HeaderRedriveID  = "dlq-redrive-id"
	HeaderRedrivenAt = "dlq-redriven-at"
)

// ourHeaders are the headers above, and ourPrefix is the beginning of their names.
var ourHeaders = [...]string{HeaderMessageID, HeaderRootID, HeaderRetryCount, HeaderRedriveID, HeaderRedrivenAt}

const ourPrefix = "dlq-"

func ours(key string) bool {
	return strings.HasPrefix(key, ourPrefix) && slices.Contains(ourHeaders[:], key)
}

// lineage reads the dlq- headers. Of several headers with the same name, it reads the last. It returns nil when one of
// them, except dlq-redriven-at, is malformed, or when the id of the message or of the redrive is missing.
func lineage(h headers) *Lineage {
	redrive := h.last(HeaderRedriveID)
	if redrive == nil {
		return nil
	}
	message, ok1 := headervalue.ID(h.last(HeaderMessageID))
	root, ok2 := headervalue.ID(h.last(HeaderRootID))
	attempt, ok3 := headervalue.ID(redrive)
	count, ok4 := headervalue.RetryCount(h.last(HeaderRetryCount))
	ok2 = ok2 || h.lastIndex(HeaderRootID) < 0
	ok4 = ok4 || h.lastIndex(HeaderRetryCount) < 0
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return nil
	}
	return &Lineage{MessageID: message, RootID: root, RedriveID: attempt, RetryCount: count}
}
