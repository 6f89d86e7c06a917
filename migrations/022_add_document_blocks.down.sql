SET LOCAL lock_timeout = '5s';

DROP TRIGGER trg_dlq_messages_archive_move_document ON dlq.dlq_messages_archive;
DROP TRIGGER trg_message_documents_unblock ON dlq.message_documents;
DROP FUNCTION dlq.unblock_document();
DROP TABLE dlq.document_blocks;
ALTER TABLE dlq.message_documents DROP COLUMN block; -- and its index
