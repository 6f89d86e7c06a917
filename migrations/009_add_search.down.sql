SET LOCAL lock_timeout = '5s';

DROP TRIGGER trg_dlq_messages_note_search_change ON dlq.dlq_messages;
DROP TRIGGER trg_dlq_messages_move_document ON dlq.dlq_messages;
DROP TRIGGER trg_dlq_messages_truncate_documents ON dlq.dlq_messages;
DROP TRIGGER trg_dlq_messages_drop_documents ON dlq.dlq_messages;
DROP TRIGGER trg_dlq_messages_note_late ON dlq.dlq_messages;
DO $$
DECLARE
    v_ours BOOLEAN := obj_description('dlq.message_documents'::regclass, 'pg_class') LIKE '%pg_trgm was installed with it';
BEGIN
    DROP TABLE dlq.late_messages, dlq.search_changes, dlq.search_index, dlq.message_documents;
    IF v_ours THEN
        BEGIN
            DROP EXTENSION IF EXISTS "pg_trgm";
        EXCEPTION WHEN dependent_objects_still_exist THEN
            RAISE NOTICE 'pg_trgm is used by something else and stays';
        END;
    END IF;
END $$;
DROP FUNCTION dlq.create_document_partitions(TIMESTAMPTZ[]), dlq.drop_document_partitions(), dlq.note_late_messages(),
    dlq.drop_documents(), dlq.drop_truncated_documents(), dlq.move_document(), dlq.note_search_change(),
    dlq.note_deleted_documents(), dlq.uses_search_engine();
DROP SEQUENCE dlq.search_writes;
