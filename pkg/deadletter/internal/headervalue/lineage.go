package headervalue

import "github.com/google/uuid"

// ID parses an id only in the form that dlq-manager writes. Package uuid would also accept braces, URNs and digits
// without hyphens. The zero id is refused.
func ID(b []byte) (uuid.UUID, bool) {
	if len(b) != 36 {
		return uuid.Nil, false
	}
	u, err := uuid.ParseBytes(b)
	return u, err == nil && u != uuid.Nil
}

// RetryCount parses a number of retries only in the form that dlq-manager writes, which is decimal.
func RetryCount(b []byte) (int, bool) {
	if !Decimal(b) {
		return 0, false
	}
	count := Attempts(b)
	if count == nil {
		return 0, false
	}
	return *count, true
}
