package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"

// Headers that every replay of dlq-manager contains, each once. These headers belong to no dialect.
const (
	HeaderMessageID  = "dlq-message-id"
	HeaderRootID     = "dlq-root-id"
	HeaderRetryCount = "dlq-retry-count"
	HeaderRedriveID  = "dlq-redrive-id"
	HeaderRedrivenAt = "dlq-redriven-at"
)

func ours(key string) bool {
	switch key {
	case HeaderMessageID, HeaderRootID, HeaderRetryCount, HeaderRedriveID, HeaderRedrivenAt:
		return true
	}
	return false
}

// lineage reads the dlq- headers. Of several headers with the same name, it reads the last. It returns nil when one of
// them, except dlq-redriven-at, is missing or malformed.
func lineage(h headers) *Lineage {
	redrive := h.last(HeaderRedriveID)
	if redrive == nil {
		return nil
	}
	message, ok1 := headervalue.ID(h.last(HeaderMessageID))
	root, ok2 := headervalue.ID(h.last(HeaderRootID))
	attempt, ok3 := headervalue.ID(redrive)
	count, ok4 := headervalue.RetryCount(h.last(HeaderRetryCount))
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return nil
	}
	return &Lineage{MessageID: message, RootID: root, RedriveID: attempt, RetryCount: count}
}
