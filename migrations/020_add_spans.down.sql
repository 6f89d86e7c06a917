-- migrate:one-by-one

DO $$
DECLARE
    v_name TEXT;
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    FOR v_name IN
        SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE i.indrelid = 'dlq.message_documents'::regclass AND NOT i.indisvalid
    LOOP
        EXECUTE format('DROP INDEX dlq.%I', v_name);
    END LOOP;
    PERFORM set_config('search_path', extnamespace::regnamespace::text, false) FROM pg_extension WHERE extname = 'pg_trgm';
END;
$$;

CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_message_documents_text ON dlq.message_documents
    USING gin (text gin_trgm_ops) WITH (gin_pending_list_limit = 65536);

RESET search_path;

CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_message_documents_terms ON dlq.message_documents
    USING gin (terms) WITH (gin_pending_list_limit = 65536);

-- As 016 made it.
CREATE OR REPLACE FUNCTION dlq.merge_documents() RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('dlq.merge_documents')) THEN
        RETURN;
    END IF;
    PERFORM gin_clean_pending_list('dlq.idx_message_documents_text'::regclass);
    PERFORM gin_clean_pending_list('dlq.idx_message_documents_terms'::regclass);
END;
$$;

DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_message_documents_words;

-- migrate:with-version
SET LOCAL lock_timeout = '5s';
DROP TRIGGER trg_dlq_messages_move_document ON dlq.dlq_messages;
DROP TRIGGER trg_message_documents_date ON dlq.message_documents;
DROP FUNCTION dlq.move_document();
DROP FUNCTION dlq.date_documents();
ALTER TABLE dlq.message_documents DROP COLUMN created_at;
DROP FUNCTION dlq.spans(TIMESTAMPTZ);
