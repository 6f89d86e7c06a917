package deadletter

import (
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// SetDigest sets the digest of a dead letter, for which the headers count that Strip keeps. It sets none for a dead
// letter that cannot be a repeat: one that does not name its position, is not stored completely, or has the header of an
// attempt and is therefore a return.
func (d *Decoder) SetDigest(m *entity.Message) {
	isAttempts := func(h entity.Header) bool { return h.Key == HeaderRedriveID }
	if m.NamesPosition() && m.Record.State == entity.ValueStored && !slices.ContainsFunc(m.Record.Headers, isAttempts) {
		m.SetDigest(d.Strip(m, m.OriginalTopic, m.Record.Headers))
	}
}
