package codec

import (
	"strconv"
)

// Source is where messages are read: the live table or the archive. View is the table with the bytes of the records,
// which are in a separate table.
type Source struct {
	Table, View string
	Archived    bool
}

// SourceOf returns the archive or the live table.
func SourceOf(archived bool) Source {
	if archived {
		return Source{"dlq.dlq_messages_archive", "dlq.archived_messages", true}
	}
	return Source{"dlq.dlq_messages", "dlq.messages", false}
}

// Join joins the message m with that id. An archived one is read from the partition that archive_ids names; without
// that every partition would be searched.
func (s Source) Join(id string) string { return s.joinOf(s.Table, id) }

// JoinView is Join with the bytes of the record.
func (s Source) JoinView(id string) string { return s.joinOf(s.View, id) }

func (s Source) joinOf(table, id string) string {
	if s.Archived {
		return "JOIN dlq.archive_ids kept ON kept.id = " + id +
			" JOIN " + table + " m ON m.id = kept.id AND m.archived_at = kept.archived_at"
	}
	return "JOIN " + table + " m ON m.id = " + id
}

// Has returns the condition that m has that id.
func (s Source) Has(id string) string {
	if s.Archived {
		return "m.id = " + id + " AND m.archived_at = (SELECT archived_at FROM dlq.archive_ids WHERE id = " + id + ")"
	}
	return "m.id = " + id
}

// Bigint is n in the text of a statement.
func Bigint(n int) string { return strconv.Itoa(n) + "::bigint" }

// ZeroUUID is the lowest id.
const ZeroUUID = `'00000000-0000-0000-0000-000000000000'::uuid`
