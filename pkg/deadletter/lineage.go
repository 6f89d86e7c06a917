package deadletter

import (
	"github.com/google/uuid"
)

// The headers of our own replays, each once. They belong to no dialect, and every replay writes them again.
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

// lineage reads our headers back, the last of each. A missing or malformed one makes all of them foreign.
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

// id accepts the one form that we write: package uuid would also take braces, URNs and bare digits.
func id(b []byte) (uuid.UUID, bool) {
	if len(b) != 36 {
		return uuid.Nil, false
	}
	u, err := uuid.ParseBytes(b)
	return u, err == nil && u != uuid.Nil
}

func retryCount(b []byte) (int, bool) {
	if !decimal(b) {
		return 0, false
	}
	count := attempts(b)
	if count == nil {
		return 0, false
	}
	return *count, true
}
