-- The bytes go back into the rows of their messages first: without them nothing could be
-- sent again.
SET LOCAL lock_timeout = '5s';

LOCK TABLE dlq.dlq_messages, dlq.dlq_messages_archive IN EXCLUSIVE MODE;

UPDATE dlq.dlq_messages m SET key = r.key, value = r.value, headers = r.headers
FROM dlq.records r WHERE r.message_id = m.id;
UPDATE dlq.dlq_messages_archive m SET key = r.key, value = r.value, headers = r.headers
FROM dlq.records r WHERE r.message_id = m.id;

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
    DELETE FROM dlq.message_documents WHERE message_id = ANY (ARRAY(
        SELECT message_id FROM dlq.message_documents WHERE message_id = ANY (ARRAY(SELECT id FROM old_rows))
        ORDER BY message_id FOR UPDATE));
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.drop_truncated_documents() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM dlq.message_documents d
    WHERE NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = d.message_id)
      AND NOT EXISTS (SELECT FROM dlq.dlq_messages_archive a WHERE a.id = d.message_id);
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
        DELETE FROM dlq.edits WHERE message_id = ANY (v_ids);
        DELETE FROM dlq.message_documents WHERE message_id = ANY (ARRAY(
            SELECT message_id FROM dlq.message_documents WHERE message_id = ANY (v_ids) ORDER BY message_id FOR UPDATE));
        DELETE FROM dlq.archive_ids WHERE id = ANY (v_ids) AND archived_at < v_part.until_at;
        UPDATE dlq.archive_partitions SET forgotten = v_ids[cardinality(v_ids)] WHERE name = v_part.name;
        RETURN cardinality(v_ids);
    END LOOP;
END;
$$;

DROP VIEW dlq.messages, dlq.archived_messages;
DROP TABLE dlq.records;
