-- dlq-db: the search index has a partition for each day.

SET LOCAL lock_timeout = '5s'; -- see 011

-- The indexer begins from zero: it stores each document again, in the partition of its
-- message's day, and counts each arrival again. The way down to 011 reads the comment.
SELECT set_config('dlq.comment', obj_description('dlq.message_documents'::regclass, 'pg_class'), true);
DROP TABLE dlq.document_blocks, dlq.message_documents;
DROP FUNCTION dlq.merge_documents(), dlq.spans(TIMESTAMPTZ), dlq.date_documents(), dlq.unblock_document();
DELETE FROM dlq.activity;

ALTER TABLE dlq.catalogue RENAME TO search_index;
ALTER INDEX dlq.catalogue_pkey RENAME TO search_index_pkey;
ALTER TABLE dlq.search_index RENAME CONSTRAINT catalogue_one_check TO search_index_one_check;
ALTER TABLE dlq.catalogue_late RENAME TO late_messages;
ALTER INDEX dlq.catalogue_late_pkey RENAME TO late_messages_pkey;
DELETE FROM dlq.late_messages;
UPDATE dlq.search_index SET mark = '-infinity', archive_mark = '-infinity', walked_at = '-infinity',
    walked_id = '00000000-0000-0000-0000-000000000000', archive_walked = '-infinity', looked_at = NULL, found_until = NULL;

CREATE OR REPLACE FUNCTION dlq.note_late_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dlq.late_messages (message_id)
    SELECT id FROM new_rows
    WHERE created_at < clock_timestamp() - interval '10 seconds' AND group_id IS NOT NULL
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END;
$$;

-- What free text, keys, headers and fields of a message are found by. created_at is that
-- of the message. A document of another version than dlq.search_index has is not searched.
-- To have a document made again, delete it and put the id into dlq.late_messages.
--
-- The primary key begins with the time: a search reads a part of a day by it, and new
-- entries come at its end.
CREATE TABLE dlq.message_documents (
    message_id UUID        NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    version    BIGINT      NOT NULL,
    text       TEXT        NOT NULL, -- lower case
    terms      BIGINT[]    NOT NULL,
    PRIMARY KEY (created_at, message_id)
) PARTITION BY RANGE (created_at);

-- gin_trgm_ops is in the schema of pg_trgm.
DO $$
DECLARE
    v_schema TEXT;
BEGIN
    SELECT extnamespace::regnamespace::text INTO v_schema FROM pg_extension WHERE extname = 'pg_trgm';
    EXECUTE format('CREATE INDEX message_documents_words ON dlq.message_documents
        USING gin (text %s.gin_trgm_ops, terms) WITH (gin_pending_list_limit = 4096)', v_schema);
    EXECUTE format('COMMENT ON TABLE dlq.message_documents IS %L', nullif(current_setting('dlq.comment'), ''));
END;
$$;

-- Creates the partitions that have the days of the given times, where they are missing,
-- and returns how many it created. The one of 1999-12-31 has all times before it too, the
-- one of 2100-01-01 all later times. Several callers are safe; no search waits for it.
CREATE FUNCTION dlq.create_document_partitions(p_times TIMESTAMPTZ[]) RETURNS INT LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' SET timezone = 'UTC' AS $$
DECLARE
    v_day DATE;
    v_name TEXT;
    v_created INT := 0;
BEGIN
    FOR v_day IN
        SELECT DISTINCT least(greatest(at, '1999-12-31'::timestamptz), '2100-01-01'::timestamptz)::date
        FROM unnest(p_times) at WHERE isfinite(at) ORDER BY 1
    LOOP
        v_name := to_char(v_day, '"message_documents_"YYYYMMDD');
        CONTINUE WHEN EXISTS (SELECT FROM pg_class WHERE relnamespace = 'dlq'::regnamespace AND relname = v_name);
        PERFORM pg_advisory_xact_lock(x'646c71646f6373'::bigint); -- "dlqdocs"
        CONTINUE WHEN EXISTS (SELECT FROM pg_class WHERE relnamespace = 'dlq'::regnamespace AND relname = v_name);
        EXECUTE format('CREATE TABLE dlq.%I (LIKE dlq.message_documents)', v_name);
        EXECUTE format('ALTER TABLE dlq.message_documents ATTACH PARTITION dlq.%I FOR VALUES FROM (%s) TO (%s)', v_name,
            CASE WHEN v_day < '2000-01-01' THEN 'MINVALUE' ELSE quote_literal(v_day) END,
            CASE WHEN v_day >= '2100-01-01' THEN 'MAXVALUE' ELSE quote_literal(v_day + 1) END);
        v_created := v_created + 1;
    END LOOP;
    RETURN v_created;
END;
$$;

-- Drops the partitions of days before yesterday that have no document, and returns how
-- many. While a search or the indexer keeps it waiting it drops none: it is called again.
CREATE FUNCTION dlq.drop_document_partitions() RETURNS INT LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' SET timezone = 'UTC' AS $$
DECLARE
    v_name TEXT;
    v_names TEXT[] := '{}';
    v_used BOOLEAN;
    v_dropped INT := 0;
BEGIN
    FOR v_name IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'dlq.message_documents'::regclass AND to_date(right(c.relname, 8), 'YYYYMMDD') < current_date - 1
    LOOP
        EXECUTE format('SELECT min(created_at) IS NOT NULL FROM dlq.%I', v_name) INTO v_used;
        IF NOT v_used THEN
            v_names := v_names || v_name;
        END IF;
    END LOOP;
    IF v_names = '{}' THEN
        RETURN 0;
    END IF;
    -- From here on no document comes in.
    LOCK TABLE ONLY dlq.message_documents IN ACCESS EXCLUSIVE MODE;
    FOREACH v_name IN ARRAY v_names LOOP
        EXECUTE format('SELECT min(created_at) IS NOT NULL FROM dlq.%I', v_name) INTO v_used;
        IF NOT v_used THEN
            EXECUTE format('DROP TABLE dlq.%I', v_name);
            v_dropped := v_dropped + 1;
        END IF;
    END LOOP;
    RETURN v_dropped;
EXCEPTION WHEN lock_not_available OR undefined_table THEN
    RETURN 0; -- undefined_table: another caller dropped it
END;
$$;
REVOKE EXECUTE ON FUNCTION dlq.create_document_partitions(TIMESTAMPTZ[]), dlq.drop_document_partitions() FROM PUBLIC;

-- A document moves when its message gets another created_at by hand. A time that is not
-- finite is in no list, and has no document.
CREATE OR REPLACE FUNCTION dlq.move_document() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM dlq.message_documents WHERE message_id = NEW.id AND created_at = OLD.created_at) THEN
        RETURN NULL;
    END IF;
    IF isfinite(NEW.created_at) THEN
        PERFORM dlq.create_document_partitions(ARRAY[NEW.created_at]);
        UPDATE dlq.message_documents SET created_at = NEW.created_at
        WHERE message_id = NEW.id AND created_at = OLD.created_at;
    ELSE
        DELETE FROM dlq.message_documents WHERE message_id = NEW.id AND created_at = OLD.created_at;
    END IF;
    RETURN NULL;
END;
$$;

-- As in 032. The times leave out the partitions in which none of them can be.
CREATE OR REPLACE FUNCTION dlq.drop_documents() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_id UUID;
    v_first TIMESTAMPTZ;
    v_last TIMESTAMPTZ;
BEGIN
    SELECT id INTO v_id FROM old_rows LIMIT 1;
    IF v_id IS NULL OR EXISTS (SELECT FROM dlq.dlq_messages WHERE id = v_id)
        OR EXISTS (SELECT FROM dlq.dlq_messages_archive WHERE id = v_id) THEN
        RETURN NULL;
    END IF;
    DELETE FROM dlq.records WHERE message_id = ANY (ARRAY(SELECT id FROM old_rows));
    SELECT min(created_at), max(created_at) INTO v_first, v_last FROM old_rows WHERE isfinite(created_at);
    DELETE FROM dlq.message_documents d USING (
        SELECT o.message_id, o.created_at FROM dlq.message_documents o
        JOIN old_rows m ON m.id = o.message_id AND m.created_at = o.created_at
        WHERE o.created_at BETWEEN v_first AND v_last ORDER BY o.message_id FOR UPDATE OF o
    ) gone WHERE d.message_id = gone.message_id AND d.created_at = gone.created_at AND d.created_at BETWEEN v_first AND v_last;
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.purge_detached(p_batch INT) RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    v_part dlq.archive_partitions;
    v_ids UUID[];
    v_times TIMESTAMPTZ[];
    v_first TIMESTAMPTZ;
    v_last TIMESTAMPTZ;
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
        EXECUTE format('SELECT array_agg(id ORDER BY id), array_agg(created_at ORDER BY id),
            min(created_at) FILTER (WHERE isfinite(created_at)), max(created_at) FILTER (WHERE isfinite(created_at))
            FROM (SELECT id, created_at FROM dlq.%I WHERE id > $1 ORDER BY id LIMIT $2) x', v_part.name)
            INTO v_ids, v_times, v_first, v_last USING v_part.forgotten, p_batch;
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
        DELETE FROM dlq.message_documents d USING (
            SELECT o.message_id, o.created_at FROM dlq.message_documents o
            JOIN unnest(v_ids, v_times) AS m (id, created_at) ON m.id = o.message_id AND m.created_at = o.created_at
            WHERE o.created_at BETWEEN v_first AND v_last ORDER BY o.message_id FOR UPDATE OF o
        ) gone WHERE d.message_id = gone.message_id AND d.created_at = gone.created_at AND d.created_at BETWEEN v_first AND v_last;
        DELETE FROM dlq.archive_ids WHERE id = ANY (v_ids) AND archived_at < v_part.until_at;
        UPDATE dlq.archive_partitions SET forgotten = v_ids[cardinality(v_ids)] WHERE name = v_part.name;
        RETURN cardinality(v_ids);
    END LOOP;
END;
$$;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.message_documents TO dlq_rw;
        GRANT EXECUTE ON FUNCTION dlq.create_document_partitions(TIMESTAMPTZ[]), dlq.drop_document_partitions() TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.message_documents TO dlq_ro;
    END IF;
END;
$$;
