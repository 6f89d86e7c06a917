-- migrate:one-by-one
-- dlq-db: words are searched in windows of time.

-- The windows that a moment is in, each eight times as long as the one before: from an
-- eighth of a second to thirty-six years. The index has them beside words and terms,
-- so it cuts a window out of all that have a word without reading the rest. To change
-- what this returns is to build the index anew.
CREATE OR REPLACE FUNCTION dlq.spans(at TIMESTAMPTZ) RETURNS BIGINT[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    v BIGINT;
BEGIN
    IF isfinite(at) IS NOT TRUE THEN
        RETURN NULL; -- it is in none
    END IF;
    v := extract(epoch FROM at - TIMESTAMPTZ '2000-01-01 00:00:00+00') * 1000000;
    RETURN ARRAY[(v >> 17) * 16, (v >> 20) * 16 + 1, (v >> 23) * 16 + 2, (v >> 26) * 16 + 3, (v >> 29) * 16 + 4,
        (v >> 32) * 16 + 5, (v >> 35) * 16 + 6, (v >> 38) * 16 + 7, (v >> 41) * 16 + 8, (v >> 44) * 16 + 9,
        (v >> 47) * 16 + 10, (v >> 50) * 16 + 11];
END;
$$;

-- A document says when its message was created. A program of before does not know
-- that: the trigger does. A message of no finite time has no place in any list.
DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true); -- see 011
    CREATE OR REPLACE FUNCTION dlq.date_documents() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $f$
    BEGIN
        -- As of one moment: it may be on its way between the tables.
        SELECT coalesce((SELECT m.created_at FROM dlq.dlq_messages m WHERE m.id = NEW.message_id),
            (SELECT m.created_at FROM dlq.archive_ids kept
             JOIN dlq.dlq_messages_archive m ON m.id = kept.id AND m.archived_at = kept.archived_at
             WHERE kept.id = NEW.message_id)) INTO NEW.created_at;
        IF NOT isfinite(NEW.created_at) THEN
            NEW.created_at := NULL;
        END IF;
        RETURN NEW;
    END;
    $f$;
    REVOKE EXECUTE ON FUNCTION dlq.date_documents() FROM PUBLIC;
    ALTER TABLE dlq.message_documents ADD COLUMN IF NOT EXISTS created_at TIMESTAMPTZ;
    CREATE OR REPLACE TRIGGER trg_message_documents_date BEFORE INSERT ON dlq.message_documents
        FOR EACH ROW WHEN (NEW.created_at IS NULL) EXECUTE FUNCTION dlq.date_documents();
END;
$$;

-- Who gives a message another time by hand moves its document too.
DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    CREATE OR REPLACE FUNCTION dlq.move_document() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $f$
    BEGIN
        UPDATE dlq.message_documents SET created_at = CASE WHEN isfinite(NEW.created_at) THEN NEW.created_at END
        WHERE message_id = NEW.id;
        RETURN NULL;
    END;
    $f$;
    REVOKE EXECUTE ON FUNCTION dlq.move_document() FROM PUBLIC;
    CREATE OR REPLACE TRIGGER trg_dlq_messages_move_document AFTER UPDATE OF created_at ON dlq.dlq_messages
        FOR EACH ROW WHEN (NEW.created_at IS DISTINCT FROM OLD.created_at) EXECUTE FUNCTION dlq.move_document();
END;
$$;

-- The documents that there are, a batch at a time, in the order of their messages so
-- that those of one window come to lie together. Searches find them as before all the
-- while. What the archiver moves meanwhile is in the archive when that is looked at,
-- and what is restored is found by the last look.
DO $$
DECLARE
    v_table TEXT;
    v_at TIMESTAMPTZ;
    v_id UUID;
    v_ids UUID[];
    v_times TIMESTAMPTZ[];
    v_batches INT := 0;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['dlq_messages', 'dlq_messages_archive', 'dlq_messages', 'dlq_messages_archive'] LOOP
        v_at := '-infinity';
        v_id := '00000000-0000-0000-0000-000000000000';
        EXIT WHEN NOT EXISTS (SELECT FROM dlq.message_documents WHERE created_at IS NULL);
        LOOP
            EXECUTE format('SELECT array_agg(id ORDER BY created_at, id), array_agg(created_at ORDER BY created_at, id) FROM (
                SELECT id, created_at FROM dlq.%I WHERE (created_at, id) > ($1, $2) AND isfinite(created_at)
                ORDER BY created_at, id LIMIT 1000) batch', v_table)
            INTO v_ids, v_times USING v_at, v_id;
            EXIT WHEN v_ids IS NULL;
            v_at := v_times[cardinality(v_times)];
            v_id := v_ids[cardinality(v_ids)];
            PERFORM FROM dlq.message_documents WHERE message_id = ANY (v_ids) AND created_at IS NULL
                ORDER BY message_id FOR UPDATE; -- as who deletes them
            IF FOUND THEN
                UPDATE dlq.message_documents d SET created_at = x.created_at
                FROM unnest(v_ids, v_times) AS x (id, created_at) WHERE d.message_id = x.id AND d.created_at IS NULL;
                v_batches := v_batches + 1;
                IF v_batches % 10 = 0 AND to_regclass('dlq.idx_message_documents_text') IS NOT NULL THEN
                    PERFORM dlq.merge_documents();
                END IF;
            END IF;
            COMMIT;
        END LOOP;
    END LOOP;
END;
$$;

-- What a build left that was interrupted is no index, and has the name of one.
-- gin_trgm_ops is where pg_trgm is.
DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('dlq.idx_message_documents_words') AND NOT indisvalid) THEN
        DROP INDEX dlq.idx_message_documents_words;
    END IF;
    PERFORM set_config('search_path', extnamespace::regnamespace::text, false) FROM pg_extension WHERE extname = 'pg_trgm';
END;
$$;

-- One index of all three, so that a search for several things reads what has them all.
-- Windows come first: the columns are compared in their order, and two words that are
-- never together would be held against one another beyond the window.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_message_documents_words ON dlq.message_documents
    USING gin (dlq.spans(created_at), text gin_trgm_ops, terms) WITH (gin_pending_list_limit = 65536);

RESET search_path;

-- As in 016, of the new index, once there is no other.
CREATE OR REPLACE FUNCTION dlq.merge_documents() RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('dlq.merge_documents')) THEN
        RETURN;
    END IF;
    PERFORM gin_clean_pending_list('dlq.idx_message_documents_words'::regclass);
END;
$$;

DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_message_documents_text;

DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_message_documents_terms;
