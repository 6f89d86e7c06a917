package postgres

import (
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// projectionMaxDepth is how deep a value may nest that is projected to the column
// payload, for people and searches that use SQL; jsonb itself fails between 14,000 and
// 16,000. The value's bytes are kept in every case.
const projectionMaxDepth = payload.MaxScan

// Why a payload is NULL although there is a value.
const (
	noteNotJSON  = "not_json"
	noteTooLarge = "too_large"
	noteTooDeep  = "too_deep"
	noteNumber   = "number"     // digits or an exponent that would blow up as text
	noteText     = "text"       // NUL, or half of a surrogate pair: jsonb has neither
	noteRefused  = "refused"    // PostgreSQL itself would not take it
	noteOver     = "over_limit" // the record was not stored as a whole

	noteUnreadable = "unreadable" // there is no record to store
	noteNever      = "never"      // by configuration
	notePending    = "pending"    // FillPayloads has not come to it
)

// projectable returns "" when jsonb holds value faithfully enough, else the note to
// keep.
func projectable(value []byte, maxBytes int) string {
	switch {
	case len(value) > maxBytes:
		return noteTooLarge
	case !utf8.Valid(value):
		return noteNotJSON
	}
	switch form := payload.Scan(value); {
	case form.Depth > projectionMaxDepth:
		return noteTooDeep
	case !form.Valid:
		return noteNotJSON
	case form.Text:
		return noteText
	case form.Number:
		return noteNumber
	}
	return ""
}
