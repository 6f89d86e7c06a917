package deadletter

import (
	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
)

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
	message, ok1 := id(h.last(HeaderMessageID))
	root, ok2 := id(h.last(HeaderRootID))
	attempt, ok3 := id(redrive)
	count, ok4 := retryCount(h.last(HeaderRetryCount))
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return nil
	}
	return &Lineage{MessageID: message, RootID: root, RedriveID: attempt, RetryCount: count}
}

// id parses an id only in the form that dlq-manager writes. Package uuid would also accept braces, URNs and digits
// without hyphens.
func id(b []byte) (uuid.UUID, bool) {
	if len(b) != 36 {
		return uuid.Nil, false
	}
	u, err := uuid.ParseBytes(b)
	return u, err == nil && u != uuid.Nil
}

func retryCount(b []byte) (int, bool) {
	if !headervalue.Decimal(b) {
		return 0, false
	}
	count := headervalue.Attempts(b)
	if count == nil {
		return 0, false
	}
	return *count, true
}
