package search

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

const (
	// format must be raised when the content of documents changes; all messages are then indexed again.
	format = 2

	maxFields       = 500     // indexed values of a record's JSON
	maxHeaders      = 200     // indexed headers of a record
	maxHeaderValue  = 1 << 10 // bytes; of longer values only the name is indexed
	maxErrorMessage = 16 << 10
)

// version returns a hash of everything that documents depend on except messages.
func version(cfg Config, masks *payload.Masks, schemas uint64) int64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %d %d", format, masks.Version(), cfg.PayloadBytes, schemas))
	return int64(binary.BigEndian.Uint64(sum[:])) //nolint:gosec // any 64 bits will do
}

// document returns the indexed document of a message.
func (w *Worker) document(m *entity.Message, p parts) entity.Document {
	d := entity.Document{MessageID: m.ID, CreatedAt: m.CreatedAt, Text: w.text(m, p.value), Terms: terms(&m.Record, p)}
	if m.Group == uuid.Nil {
		f := w.maker.Fingerprint(w.decode(*m))
		d.Fingerprint = &f
	}
	return d
}

// text returns the error message and the record's text, on separate lines so that no phrase matches across both.
func (w *Worker) text(m *entity.Message, stored []byte) string {
	message := m.ErrorMessage
	if w.hidden(m).ErrorMessage {
		message = ""
	}
	message = message[:min(len(message), maxErrorMessage)]
	message = strings.ReplaceAll(strings.ToValidUTF8(message, ""), "\x00", " ")
	value := payload.Text(stored, w.masks, int(w.cfg.PayloadBytes))
	if value == "" {
		return strings.ToLower(message)
	}
	return strings.ToLower(message) + "\n" + value
}

// terms covers all fields, masked or not: a user without access to a field may not search for it either.
func terms(r *entity.Record, p parts) []int64 {
	all := payload.Terms(p.value, maxFields)
	if r.Key != nil {
		all = append(all, entity.KeyTerm(r.Key))
	}
	if p.key != nil {
		all = append(all, entity.KeyTerm(p.key))
		var text string
		if json.Unmarshal(p.key, &text) == nil {
			all = append(all, entity.KeyTerm([]byte(text)))
		}
	}
	for _, h := range r.Headers[:min(len(r.Headers), maxHeaders)] {
		all = append(all, entity.HeaderTerm(h.Key, nil))
		switch {
		case h.Value == nil:
			all = append(all, entity.HeaderTerm(h.Key, []byte{})) // null is indexed as empty
		case len(h.Value) <= maxHeaderValue:
			all = append(all, entity.HeaderTerm(h.Key, h.Value))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func stored(r *entity.Record) []byte {
	if r.State != entity.ValueStored {
		return nil
	}
	return r.Value
}
