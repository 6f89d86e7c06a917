package codec

import (
	"strconv"
)

// Source says where messages are read from: the live table or the archive. Table contains the messages without the
// bytes of their records; View contains them with the bytes.
type Source struct {
	Table, View string
	Archived    bool
}

// SourceOf returns the Source of the archive, or that of the live table.
func SourceOf(archived bool) Source {
	if archived {
		return Source{"dlq.dlq_messages_archive", "dlq.archived_messages", true}
	}
	return Source{"dlq.dlq_messages", "dlq.messages", false}
}

// Join returns the SQL that joins the message with the given id under the alias m. In the archive it joins the table
// archive_ids first, which contains the archived_at of each message. So PostgreSQL searches only the partition of the
// message.
func (s Source) Join(id string) string { return s.joinOf(s.Table, id) }

// JoinView returns the same join as Join, but the row with the alias m also contains the bytes of the record.
func (s Source) JoinView(id string) string { return s.joinOf(s.View, id) }

func (s Source) joinOf(table, id string) string {
	if s.Archived {
		return "JOIN dlq.archive_ids kept ON kept.id = " + id +
			" JOIN " + table + " m ON m.id = kept.id AND m.archived_at = kept.archived_at"
	}
	return "JOIN " + table + " m ON m.id = " + id
}

// Has returns the SQL condition that the message with the alias m has the given id.
func (s Source) Has(id string) string {
	if s.Archived {
		return "m.id = " + id + " AND m.archived_at = (SELECT archived_at FROM dlq.archive_ids WHERE id = " + id + ")"
	}
	return "m.id = " + id
}

// Bigint returns n as a literal for the text of a statement.
func Bigint(n int) string { return strconv.Itoa(n) + "::bigint" }

// ZeroUUID is the SQL literal of the lowest id.
const ZeroUUID = `'00000000-0000-0000-0000-000000000000'::uuid`
