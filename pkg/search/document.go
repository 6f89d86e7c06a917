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
	// format is the version of the rules by which documents are made from messages. It must be increased with every
	// change of these rules; the worker then indexes all messages again.
	format = 3

	maxFields       = 500     // how many values of a record's JSON, from the first on, searches by field can find
	maxHeaders      = 200     // how many headers of a record, from the first on, searches by header can find
	maxHeaderValue  = 1 << 10 // in bytes; of a header with a longer value only the name is indexed
	maxErrorMessage = 16 << 10
)

// version returns a hash of everything on which the texts and terms of documents depend, except the messages
// themselves.
func version(cfg Config, masks *payload.Masks, schemas uint64) int64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %d %d", format, masks.Version(), cfg.PayloadBytes, schemas))
	return int64(binary.BigEndian.Uint64(sum[:])) //nolint:gosec // any 64 bits will do
}

// document returns the document of a message.
func (w *Worker) document(m *entity.Message, p parts) entity.Document {
	d := entity.Document{MessageID: m.ID, CreatedAt: m.CreatedAt, Text: w.text(m, p.value), Terms: terms(&m.Record, p)}
	d.Incomplete = m.Share != nil && m.Share.State != entity.Completed
	if m.Group == uuid.Nil {
		f := w.maker.Fingerprint(w.decode(*m))
		d.Fingerprint = &f
	}
	if w.fields {
		d.Fields = w.fieldsOf(m, p)
	}
	return d
}

// text returns the text of a document: the error message and the text of the record. They are on separate lines, so
// that a phrase cannot match the end of the message and the beginning of the record.
func (w *Worker) text(m *entity.Message, stored payload.Reading) string {
	message := m.ErrorMessage
	if w.hidden(m).ErrorMessage {
		message = ""
	}
	message = message[:min(len(message), maxErrorMessage)]
	message = strings.ReplaceAll(strings.ToValidUTF8(message, ""), "\x00", " ")
	value := stored.Text(int(w.cfg.PayloadBytes))
	if value == "" {
		return strings.ToLower(message)
	}
	return strings.ToLower(message) + "\n" + value
}

// terms returns the terms of the key, of the headers and of the fields, within the limits above. It includes those with
// masked values, as payload.Reading.Terms and entity.HiddenKeyTerm: only those who may see such a value find it.
func terms(r *entity.Record, p parts) []int64 {
	all := p.value.Terms(maxFields)
	keyTerm := entity.KeyTerm
	if p.key.Hides() {
		keyTerm = entity.HiddenKeyTerm
	}
	if r.Key != nil {
		all = append(all, keyTerm(r.Key))
	}
	if p.decoded != nil {
		all = append(all, keyTerm(p.decoded))
		var text string
		if json.Unmarshal(p.decoded, &text) == nil {
			all = append(all, keyTerm([]byte(text)))
		}
	}
	for _, h := range r.Headers[:min(len(r.Headers), maxHeaders)] {
		all = append(all, entity.HeaderTerm(h.Key, nil))
		switch {
		case h.Value == nil:
			all = append(all, entity.HeaderTerm(h.Key, []byte{})) // a null value gets the term of an empty value
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
