SET LOCAL lock_timeout = '5s'; -- see 004

DROP TRIGGER trg_dlq_messages_note_search_change ON dlq.dlq_messages;
DROP TRIGGER trg_message_documents_note_deleted ON dlq.message_documents;
DROP TRIGGER trg_archive_ids_note_archived ON dlq.archive_ids;
DROP TRIGGER trg_archive_ids_note_restored ON dlq.archive_ids;
DROP FUNCTION dlq.note_search_change(), dlq.note_deleted_documents(), dlq.note_archived_messages(), dlq.uses_search_engine();
DROP SEQUENCE dlq.search_writes;
DROP TABLE dlq.search_changes;
ALTER TABLE dlq.search_index DROP COLUMN engine, DROP COLUMN served_version, DROP COLUMN filling_since, DROP COLUMN filled;
