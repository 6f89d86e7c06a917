package codec

import (
	"encoding/json"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// defect is the content of the column defect, which is JSON.
type defect struct {
	Limit      string `json:"limit,omitempty"`
	Unreadable string `json:"unreadable,omitempty"`
	LastOffset int64  `json:"last_offset,omitempty"`
}

// DefectOf returns the JSON for the column defect of a record, or nil when the record has no defect.
func DefectOf(r *entity.Record) []byte {
	d := defect{Limit: r.Limit, Unreadable: strings.ToValidUTF8(strings.ReplaceAll(r.Unreadable, "\x00", ""), "\uFFFD"), LastOffset: r.LastOffset}
	if d.Limit == "" && r.State != entity.ValueUnreadable {
		return nil
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil // cannot happen, because the struct contains only texts and a number
	}
	return text
}

// applyDefect sets what the column defect says about a record, which may change the state of the record's value. It
// ignores a text that is not the JSON of a defect, because users of the database may write the column.
func applyDefect(r *entity.Record, column []byte) {
	if column == nil {
		return
	}
	var d defect
	if json.Unmarshal(column, &d) != nil {
		return
	}
	r.Limit = d.Limit
	if d.Unreadable != "" {
		r.State, r.Unreadable, r.LastOffset = entity.ValueUnreadable, d.Unreadable, d.LastOffset
	}
}
