SET LOCAL lock_timeout = '5s';

DROP TRIGGER trg_dlq_messages_archive_truncate_documents ON dlq.dlq_messages_archive;
DROP TRIGGER trg_dlq_messages_truncate_documents ON dlq.dlq_messages;
DROP TRIGGER trg_dlq_messages_archive_drop_documents ON dlq.dlq_messages_archive;
DROP TRIGGER trg_dlq_messages_drop_documents ON dlq.dlq_messages;
DROP TRIGGER trg_dlq_messages_note_late ON dlq.dlq_messages;
DROP FUNCTION dlq.note_late_messages();
DROP TABLE dlq.catalogue_late;
DROP FUNCTION dlq.drop_truncated_documents();
DROP FUNCTION dlq.drop_documents();
DROP TABLE dlq.catalogue;
DO $$
DECLARE
    v_ours BOOLEAN := obj_description('dlq.message_documents'::regclass, 'pg_class') LIKE '%pg_trgm was installed with it';
BEGIN
    DROP TABLE dlq.message_documents;
    IF v_ours THEN
        BEGIN
            DROP EXTENSION IF EXISTS "pg_trgm";
        EXCEPTION WHEN dependent_objects_still_exist THEN
            RAISE NOTICE 'pg_trgm is used by something else and stays';
        END;
    END IF;
END;
$$;
