package codec

import (
	"encoding/json"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// defect is the JSON in the column defect. It says which limit the record exceeds, or why it cannot be read.
type defect struct {
	Limit      string `json:"limit,omitempty"`
	Unreadable string `json:"unreadable,omitempty"`
	LastOffset int64  `json:"last_offset,omitempty"`
}

// DefectOf returns the JSON for the column defect; nil when the record exceeds no limit and could be read.
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

// applyDefect reads the column defect, and sets the fields of the record that say which limit it exceeds or why it
// cannot be read. A text in the column that is not the JSON of a defect is ignored, because users of the database may
// write the column.
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
