-- The worker of before begins from zero.
SET LOCAL lock_timeout = '5s';

SELECT set_config('dlq.comment', obj_description('dlq.message_documents'::regclass, 'pg_class'), true);
DROP TABLE dlq.message_documents;
DROP FUNCTION dlq.create_document_partitions(TIMESTAMPTZ[]), dlq.drop_document_partitions();
DELETE FROM dlq.activity;

ALTER TABLE dlq.search_index RENAME TO catalogue;
ALTER INDEX dlq.search_index_pkey RENAME TO catalogue_pkey;
ALTER TABLE dlq.catalogue RENAME CONSTRAINT search_index_one_check TO catalogue_one_check;
ALTER TABLE dlq.late_messages RENAME TO catalogue_late;
ALTER INDEX dlq.late_messages_pkey RENAME TO catalogue_late_pkey;
DELETE FROM dlq.catalogue_late;
UPDATE dlq.catalogue SET mark = '-infinity', archive_mark = '-infinity', walked_at = '-infinity',
    walked_id = '00000000-0000-0000-0000-000000000000', archive_walked = '-infinity', looked_at = NULL, found_until = NULL;

CREATE OR REPLACE FUNCTION dlq.note_late_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dlq.catalogue_late (message_id)
    SELECT id FROM new_rows
    WHERE created_at < clock_timestamp() - interval '10 seconds' AND group_id IS NOT NULL
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END;
$$;

CREATE FUNCTION dlq.spans(at TIMESTAMPTZ) RETURNS BIGINT[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
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

CREATE TABLE dlq.message_documents (
    message_id UUID     PRIMARY KEY,
    version    BIGINT   NOT NULL,
    text       TEXT     NOT NULL,
    terms      BIGINT[] NOT NULL,
    created_at TIMESTAMPTZ,
    block      UUID
);
CREATE INDEX idx_message_documents_unblocked ON dlq.message_documents (created_at) WHERE block IS NULL;
DO $$
DECLARE
    v_schema TEXT;
BEGIN
    SELECT extnamespace::regnamespace::text INTO v_schema FROM pg_extension WHERE extname = 'pg_trgm';
    EXECUTE format('CREATE INDEX idx_message_documents_words ON dlq.message_documents
        USING gin (dlq.spans(created_at), text %s.gin_trgm_ops, terms) WITH (gin_pending_list_limit = 65536)', v_schema);
    EXECUTE format('COMMENT ON TABLE dlq.message_documents IS %L', nullif(current_setting('dlq.comment'), ''));
END;
$$;
CREATE TABLE dlq.document_blocks (
    id        UUID        PRIMARY KEY,
    stored_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    oldest    TIMESTAMPTZ NOT NULL CHECK (isfinite(oldest)),
    newest    TIMESTAMPTZ NOT NULL CHECK (newest >= oldest AND isfinite(newest)),
    letters   BYTEA       NOT NULL CHECK (octet_length(letters) BETWEEN 128 AND 32768
                                          AND octet_length(letters) & (octet_length(letters) - 1) = 0)
);
ALTER TABLE dlq.document_blocks ALTER COLUMN letters SET STORAGE EXTERNAL;
CREATE INDEX idx_document_blocks_newest ON dlq.document_blocks (newest);
CREATE INDEX idx_document_blocks_oldest ON dlq.document_blocks (oldest);
CREATE INDEX idx_document_blocks_around ON dlq.document_blocks USING gist (tstzrange(oldest, newest, '[]'));

CREATE FUNCTION dlq.date_documents() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
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
    $$;

CREATE OR REPLACE FUNCTION dlq.move_document() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        UPDATE dlq.message_documents SET created_at = CASE WHEN isfinite(NEW.created_at) THEN NEW.created_at END
        WHERE message_id = NEW.id;
        RETURN NULL;
    END;
    $$;

CREATE FUNCTION dlq.unblock_document() RETURNS TRIGGER LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.block := NULL;
    RETURN NEW;
END;
$$;

CREATE FUNCTION dlq.merge_documents() RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('dlq.merge_documents')) THEN
        RETURN;
    END IF;
    PERFORM gin_clean_pending_list('dlq.idx_message_documents_words'::regclass);
END;
$$;

CREATE OR REPLACE FUNCTION dlq.drop_documents() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_id UUID;
BEGIN
    SELECT id INTO v_id FROM old_rows LIMIT 1;
    IF v_id IS NULL OR EXISTS (SELECT FROM dlq.dlq_messages WHERE id = v_id)
        OR EXISTS (SELECT FROM dlq.dlq_messages_archive WHERE id = v_id) THEN
        RETURN NULL;
    END IF;
    DELETE FROM dlq.records WHERE message_id = ANY (ARRAY(SELECT id FROM old_rows));
    DELETE FROM dlq.message_documents WHERE message_id = ANY (ARRAY(
        SELECT message_id FROM dlq.message_documents WHERE message_id = ANY (ARRAY(SELECT id FROM old_rows))
        ORDER BY message_id FOR UPDATE));
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.purge_detached(p_batch INT) RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    v_part dlq.archive_partitions;
    v_ids UUID[];
BEGIN
    IF p_batch IS NULL OR p_batch < 1 THEN
        RAISE EXCEPTION 'p_batch must be positive' USING ERRCODE = '22023';
    END IF;
    LOOP
        SELECT * INTO v_part FROM dlq.archive_partitions
        WHERE detached_at IS NOT NULL ORDER BY until_at LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN 0;
        END IF;
        EXECUTE format('SELECT array_agg(id) FROM (SELECT id FROM dlq.%I WHERE id > $1 ORDER BY id LIMIT $2) x', v_part.name)
            INTO v_ids USING v_part.forgotten, p_batch;
        IF v_ids IS NULL THEN
            EXECUTE format('DROP TABLE dlq.%I', v_part.name);
            DELETE FROM dlq.archive_partitions WHERE name = v_part.name;
            CONTINUE;
        END IF;
        WITH history AS (
            DELETE FROM dlq.attempts WHERE message_id = ANY (v_ids) RETURNING attempt_id
        )
        DELETE FROM dlq.returns WHERE attempt_id = ANY (ARRAY(SELECT attempt_id FROM history));
        DELETE FROM dlq.records WHERE message_id = ANY (v_ids);
        DELETE FROM dlq.edits WHERE message_id = ANY (v_ids);
        DELETE FROM dlq.message_documents WHERE message_id = ANY (ARRAY(
            SELECT message_id FROM dlq.message_documents WHERE message_id = ANY (v_ids) ORDER BY message_id FOR UPDATE));
        DELETE FROM dlq.archive_ids WHERE id = ANY (v_ids) AND archived_at < v_part.until_at;
        UPDATE dlq.archive_partitions SET forgotten = v_ids[cardinality(v_ids)] WHERE name = v_part.name;
        RETURN cardinality(v_ids);
    END LOOP;
END;
$$;

REVOKE EXECUTE ON FUNCTION dlq.date_documents(), dlq.unblock_document(), dlq.merge_documents() FROM PUBLIC;
CREATE TRIGGER trg_message_documents_date BEFORE INSERT ON dlq.message_documents
    FOR EACH ROW WHEN (NEW.created_at IS NULL) EXECUTE FUNCTION dlq.date_documents();
CREATE TRIGGER trg_message_documents_unblock BEFORE UPDATE OF text, created_at ON dlq.message_documents
    FOR EACH ROW WHEN (NEW.block = OLD.block AND (NEW.text, NEW.created_at) IS DISTINCT FROM (OLD.text, OLD.created_at))
    EXECUTE FUNCTION dlq.unblock_document();

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.message_documents, dlq.document_blocks TO dlq_rw;
        GRANT EXECUTE ON FUNCTION dlq.merge_documents() TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.message_documents, dlq.document_blocks TO dlq_ro;
    END IF;
END;
$$;
