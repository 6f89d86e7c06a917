-- migrate:one-by-one
-- dlq-db: updates of messages, and of the search catalogue, that cost less. Whoever
-- searches for long holds up the change of an index: that is waited for alone, and not
-- with the table of messages locked as well.

-- New documents wait in lists that every search reads. The worker that makes them
-- merges the lists, a thousand documents at a time with maintenance_work_mem, which
-- takes a third of the work of an insert that finds the list full. The limit is for
-- when nobody merges.
DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true); -- see 011
    ALTER INDEX dlq.idx_message_documents_text SET (gin_pending_list_limit = 65536);
END;
$$;

DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    ALTER INDEX dlq.idx_message_documents_terms SET (gin_pending_list_limit = 65536);
END;
$$;

-- An archiver of before 015 deletes by ctid, which is a place in one partition: it
-- would take what lies at the same places in all others too.
CREATE OR REPLACE FUNCTION dlq.refuse_places() RETURNS TRIGGER LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_query() ~* '\mctid\M' THEN
        RAISE EXCEPTION 'a ctid is a place in one partition of the archive, and names others too: delete by id'
            USING ERRCODE = '0A000';
    END IF;
    RETURN NULL;
END;
$$;

DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    CREATE OR REPLACE TRIGGER trg_dlq_messages_archive_refuse_places BEFORE DELETE ON dlq.dlq_messages_archive
        FOR EACH STATEMENT EXECUTE FUNCTION dlq.refuse_places();
END;
$$;

-- migrate:with-version
SET LOCAL lock_timeout = '5s';
--
-- A row of a message that is being sent back is a little wider than the target of
-- 004, and an UPDATE of a row with bytes out of line always looks at the target: it
-- moved error_class and claim_topic_id out, each to a row, an index entry and often a
-- page of their own, at every claim, and every list had to fetch them again. Bytes are
-- what belongs there. What an earlier update moved out stays there for as long as its
-- message.
ALTER TABLE dlq.dlq_messages
    ALTER COLUMN original_topic           SET STORAGE MAIN,
    ALTER COLUMN status                   SET STORAGE MAIN,
    ALTER COLUMN payload_note             SET STORAGE MAIN,
    ALTER COLUMN origin_confidence        SET STORAGE MAIN,
    ALTER COLUMN consumer_group           SET STORAGE MAIN,
    ALTER COLUMN dialect                  SET STORAGE MAIN,
    ALTER COLUMN error_class              SET STORAGE MAIN,
    ALTER COLUMN claim_topic              SET STORAGE MAIN,
    ALTER COLUMN claim_topic_id           SET STORAGE MAIN,
    ALTER COLUMN last_publish_error_class SET STORAGE MAIN,
    ALTER COLUMN outcome                  SET STORAGE MAIN;
--
-- The function of 001 leaves a row alone whose updated_at has just been set. Not even
-- to call it is cheaper.
CREATE OR REPLACE TRIGGER trg_dlq_messages_updated_at
    BEFORE UPDATE OF id, original_topic, error_message, retry_count, max_retries,
                     payload, status, created_at, updated_at, last_retry_at
    ON dlq.dlq_messages
    FOR EACH ROW
    WHEN (NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at)
    EXECUTE FUNCTION dlq.update_updated_at();
--
-- As in 011, but what was updated is read once instead of three times, and arrivals
-- are looked for only where a group's messages of a topic became more or fewer: a
-- claim and a result change nothing but the status. An arrival stays in its hour,
-- whatever becomes of created_at, and so do those of messages that change places
-- between two groups in one statement.
CREATE OR REPLACE FUNCTION dlq.count_updated_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_topics TEXT[];
    v_dlq_topics INT[];
    v_groups UUID[];
    v_statuses TEXT[];
    v_changes BIGINT[];
BEGIN
    SELECT array_agg(original_topic), array_agg(dlq_topic_id), array_agg(group_id), array_agg(status), array_agg(n)
    INTO v_topics, v_dlq_topics, v_groups, v_statuses, v_changes
    FROM (
        SELECT original_topic, dlq_topic_id, group_id, status, sum(n) AS n
        FROM (
            SELECT original_topic, coalesce(dlq_topic_id, 0) AS dlq_topic_id, group_id, status, 1 AS n FROM new_rows
            UNION ALL
            SELECT original_topic, coalesce(dlq_topic_id, 0), group_id, status, -1 FROM old_rows
        ) each_row
        GROUP BY 1, 2, 3, 4 HAVING sum(n) <> 0
    ) changes;
    IF v_changes IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO dlq.message_counters AS c
    SELECT original_topic, dlq_topic_id, status, pg_backend_pid() % 16, sum(n)
    FROM unnest(v_topics, v_dlq_topics, v_statuses, v_changes) AS changes (original_topic, dlq_topic_id, status, n)
    GROUP BY 1, 2, 3 HAVING sum(n) <> 0 ORDER BY 1, 2, 3
    ON CONFLICT (original_topic, dlq_topic_id, status, shard)
    DO UPDATE SET messages = c.messages + excluded.messages;
    INSERT INTO dlq.group_counters AS c
    SELECT group_id, original_topic, status, pg_backend_pid() % 4, sum(n)
    FROM unnest(v_groups, v_topics, v_statuses, v_changes) AS changes (group_id, original_topic, status, n)
    WHERE group_id IS NOT NULL GROUP BY 1, 2, 3 HAVING sum(n) <> 0 ORDER BY 1, 2, 3
    ON CONFLICT (group_id, original_topic, status, shard)
    DO UPDATE SET messages = c.messages + excluded.messages;
    IF NOT EXISTS (
        SELECT FROM unnest(v_groups, v_topics, v_changes) AS changes (group_id, original_topic, n)
        WHERE group_id IS NOT NULL GROUP BY group_id, original_topic HAVING sum(n) <> 0
    ) THEN
        RETURN NULL;
    END IF;
    -- A message that gets a group arrives in it now, at the time at which it came;
    -- one that gets another group or topic takes its arrival along.
    PERFORM dlq.count_arrivals(array_agg(group_id), array_agg(original_topic), array_agg(hour), array_agg(n),
        array_agg(opened), array_agg(oldest), array_agg(newest))
    FROM (
        SELECT group_id, original_topic, date_trunc('hour', created_at, 'UTC') AS hour, sum(n) AS n,
            sum(n) FILTER (WHERE status <> 'RESOLVED') AS opened, min(created_at) AS oldest, max(created_at) AS newest
        FROM (
            SELECT group_id, original_topic, status, created_at, 1 AS n FROM new_rows WHERE group_id IS NOT NULL
            UNION ALL
            SELECT group_id, original_topic, status, created_at, -1 FROM old_rows WHERE group_id IS NOT NULL
        ) changes
        WHERE isfinite(created_at)
        GROUP BY 1, 2, 3 HAVING sum(n) <> 0
    ) arrived HAVING count(*) > 0;
    RETURN NULL;
END;
$$;
--
--
-- Only an index's owner may merge its list, so the programs ask for it here. One
-- caller at a time works; to the others it is done.
CREATE FUNCTION dlq.merge_documents() RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('dlq.merge_documents')) THEN
        RETURN;
    END IF;
    PERFORM gin_clean_pending_list('dlq.idx_message_documents_text'::regclass);
    PERFORM gin_clean_pending_list('dlq.idx_message_documents_terms'::regclass);
END;
$$;
REVOKE EXECUTE ON FUNCTION dlq.merge_documents() FROM PUBLIC;
--
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT EXECUTE ON FUNCTION dlq.merge_documents() TO dlq_rw;
    END IF;
END;
$$;
