package codec

import (
	"encoding/json"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// defect is the JSON of the column defect.
type defect struct {
	Limit      string `json:"limit,omitempty"`
	Unreadable string `json:"unreadable,omitempty"`
	LastOffset int64  `json:"last_offset,omitempty"`
}

// DefectOf returns the JSON of a record's defect, nil when it has none.
func DefectOf(r *entity.Record) []byte {
	d := defect{Limit: r.Limit, Unreadable: strings.ToValidUTF8(strings.ReplaceAll(r.Unreadable, "\x00", ""), "\uFFFD"), LastOffset: r.LastOffset}
	if d.Limit == "" && r.State != entity.ValueUnreadable {
		return nil
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil // cannot happen: it has only text and a number
	}
	return text
}

// applyDefect applies the column defect to a record, whose state may depend on it. A value that SQL wrote and that is
// not a defect is ignored.
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
