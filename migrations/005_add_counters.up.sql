-- dlq-db: the number of messages by topic, status and error group. Statement triggers keep the numbers exact, so that
-- totals never scan the messages. Different connections write different shards, so they do not wait for each other. For
-- messages with an error group, the functions use tables of 006 and 008.

SET LOCAL lock_timeout = '5s'; -- see 004

CREATE TABLE dlq.message_counters (
    original_topic TEXT     NOT NULL,
    dlq_topic_id   INT      NOT NULL, -- 0 when the message was inserted by SQL
    status         TEXT     NOT NULL,
    shard          SMALLINT NOT NULL,
    messages       BIGINT   NOT NULL,
    PRIMARY KEY (original_topic, dlq_topic_id, status, shard)
) WITH (fillfactor = 50);
CREATE INDEX idx_message_counters_dlq_topic ON dlq.message_counters (dlq_topic_id);

-- The number of messages by error group, topic and status. Messages without an error group are not counted here.
CREATE TABLE dlq.group_counters (
    group_id       UUID     NOT NULL,
    original_topic TEXT     NOT NULL,
    status         TEXT     NOT NULL,
    shard          SMALLINT NOT NULL,
    messages       BIGINT   NOT NULL,
    PRIMARY KEY (group_id, original_topic, status, shard)
) WITH (fillfactor = 50);
CREATE INDEX idx_group_counters_topic ON dlq.group_counters (original_topic, group_id);

-- How many messages of each error group ever arrived: by the hour, in UTC, in which they were stored, and in total in
-- the row with the hour -infinity. Messages that were deleted or archived stay counted.
CREATE TABLE dlq.group_arrivals (
    group_id       UUID        NOT NULL,
    hour           TIMESTAMPTZ NOT NULL,
    original_topic TEXT        NOT NULL,
    shard          SMALLINT    NOT NULL,
    messages       BIGINT      NOT NULL,
    first_seen     TIMESTAMPTZ NOT NULL,
    last_seen      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (group_id, hour, original_topic, shard)
) WITH (fillfactor = 50);
CREATE INDEX idx_group_arrivals_hour ON dlq.group_arrivals (hour);

-- Counts messages that were stored with an error group or moved from one group to another, and updates the times of the
-- groups. The arrays have one element for each hour, group and topic; p_opened is how many of the messages are not
-- RESOLVED. The trigger must have written the counters before it calls this function.
--
-- Whether a group regressed is decided in one snapshot. When another session stores the first messages of the group at
-- the same time, this snapshot has either both the row and the counters of the group, or neither. A session locks the
-- row of a group only when it changes the row; all sessions lock the rows in the order of their ids.
CREATE FUNCTION dlq.count_arrivals(
    p_groups UUID[], p_topics TEXT[], p_hours TIMESTAMPTZ[], p_messages BIGINT[], p_opened BIGINT[],
    p_oldest TIMESTAMPTZ[], p_newest TIMESTAMPTZ[]
) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_groups UUID[] := p_groups;
BEGIN
    INSERT INTO dlq.group_arrivals AS a
    SELECT group_id, coalesce(hour, '-infinity'), original_topic, pg_backend_pid() % 4, sum(n), min(oldest), max(newest)
    FROM unnest(p_groups, p_topics, p_hours, p_messages, p_oldest, p_newest)
        AS c (group_id, original_topic, hour, n, oldest, newest)
    GROUP BY GROUPING SETS ((group_id, original_topic, hour), (group_id, original_topic))
    HAVING sum(n) <> 0 ORDER BY 1, 2, 3
    ON CONFLICT (group_id, hour, original_topic, shard)
    DO UPDATE SET messages = a.messages + excluded.messages,
        first_seen = least(a.first_seen, excluded.first_seen), last_seen = greatest(a.last_seen, excluded.last_seen);

    -- A group that was purged, or whose fingerprint was not stored yet, has a row without a name until its fingerprint
    -- is stored. When a group was being purged while this function began, the loop notices that it is gone after
    -- waiting for its row.
    LOOP
        INSERT INTO dlq.error_groups (id)
        SELECT DISTINCT n.id FROM unnest(v_groups) AS n (id)
        WHERE NOT EXISTS (SELECT FROM dlq.error_groups g WHERE g.id = n.id)
        ORDER BY 1 ON CONFLICT (id) DO NOTHING;

        WITH arrived AS (
            SELECT group_id, sum(n) AS n, sum(opened) AS opened, min(oldest) AS oldest, max(newest) AS newest
            FROM unnest(p_groups, p_messages, p_opened, p_oldest, p_newest) AS c (group_id, n, opened, oldest, newest)
            WHERE group_id = ANY (v_groups) GROUP BY 1
        ), state AS MATERIALIZED (
            SELECT a.*, a.n > 0 AND g.first_seen IS NOT NULL AND (
                SELECT coalesce(sum(c.messages), 0) FROM dlq.group_counters c
                WHERE c.group_id = a.group_id AND c.status <> 'RESOLVED') <= coalesce(a.opened, 0) AS regressed
            FROM arrived a JOIN dlq.error_groups g ON g.id = a.group_id
        ), due AS MATERIALIZED (
            SELECT s.* FROM state s JOIN dlq.error_groups g ON g.id = s.group_id
            WHERE s.regressed OR g.first_seen IS NULL OR g.first_seen > s.oldest OR g.last_seen < s.newest - interval '1 minute'
            ORDER BY g.id FOR NO KEY UPDATE OF g
        )
        UPDATE dlq.error_groups g
        SET first_seen = least(g.first_seen, d.oldest), last_seen = greatest(g.last_seen, d.newest),
            regressed_at = CASE WHEN d.regressed THEN d.oldest ELSE g.regressed_at END
        FROM due d WHERE g.id = d.group_id;

        SELECT array_agg(n.id) INTO v_groups FROM unnest(v_groups) AS n (id)
        WHERE NOT EXISTS (SELECT FROM dlq.error_groups g WHERE g.id = n.id);
        EXIT WHEN v_groups IS NULL;
    END LOOP;
END;
$$;

-- The functions of the triggers write first the counters of topics, then the counters of groups, then arrivals, then
-- groups, each in the order of their keys.

CREATE FUNCTION dlq.count_inserted_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dlq.message_counters AS c
    SELECT original_topic, coalesce(dlq_topic_id, 0), status, pg_backend_pid() % 16, count(*)
    FROM new_rows GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (original_topic, dlq_topic_id, status, shard)
    DO UPDATE SET messages = c.messages + excluded.messages;

    INSERT INTO dlq.group_counters AS c
    SELECT group_id, original_topic, status, pg_backend_pid() % 4, count(*)
    FROM new_rows WHERE group_id IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (group_id, original_topic, status, shard)
    DO UPDATE SET messages = c.messages + excluded.messages;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;

    -- A message that was restored from the archive has arrived before, so it does not count as an arrival again. The
    -- audit trail says which messages were restored. It is read only for messages whose updated_at differs from
    -- created_at, because only restored messages, and those that were copied from elsewhere, have been changed before
    -- they are inserted.
    PERFORM dlq.count_arrivals(array_agg(group_id), array_agg(original_topic), array_agg(hour), array_agg(n),
        array_agg(opened), array_agg(oldest), array_agg(newest))
    FROM (
        SELECT group_id, original_topic, date_trunc('hour', created_at, 'UTC') AS hour, count(*) FILTER (WHERE fresh) AS n,
            count(*) FILTER (WHERE status <> 'RESOLVED') AS opened, min(created_at) AS oldest, max(created_at) AS newest
        FROM (
            SELECT group_id, original_topic, status, created_at, updated_at = created_at OR NOT EXISTS (
                SELECT FROM dlq.audit a WHERE a.object_id = r.id AND a.action = 'restore') AS fresh
            FROM new_rows r WHERE group_id IS NOT NULL AND isfinite(created_at)
        ) came
        GROUP BY 1, 2, 3
    ) arrived HAVING count(*) > 0;
    RETURN NULL;
END;
$$;

CREATE FUNCTION dlq.count_deleted_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dlq.message_counters AS c
    SELECT original_topic, coalesce(dlq_topic_id, 0), status, pg_backend_pid() % 16, -count(*)
    FROM old_rows GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (original_topic, dlq_topic_id, status, shard)
    DO UPDATE SET messages = c.messages + excluded.messages;

    INSERT INTO dlq.group_counters AS c
    SELECT group_id, original_topic, status, pg_backend_pid() % 4, -count(*)
    FROM old_rows WHERE group_id IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (group_id, original_topic, status, shard)
    DO UPDATE SET messages = c.messages + excluded.messages;
    RETURN NULL;
END;
$$;

-- Arrivals are computed only when the number of a group's messages in a topic changes; a claim or a result changes only
-- the status. An arrival stays in its hour when created_at changes. When a statement exchanges messages between two
-- groups, their arrivals stay too.
CREATE FUNCTION dlq.count_updated_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
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
    -- When a message gets its first group, it counts as an arrival in the hour of its created_at. When it gets another
    -- group or topic, its arrival moves there.
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

CREATE FUNCTION dlq.count_truncated_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM dlq.message_counters;
    DELETE FROM dlq.group_counters;
    RETURN NULL;
END;
$$;

-- Deletes counts of hours that are longer ago than p_days, at most p_batch rows, and returns the number of deleted
-- rows. The total numbers stay. Only through this function can the application change what the triggers count.
CREATE FUNCTION dlq.purge_arrivals(p_days INT, p_batch INT) RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_gone BIGINT;
BEGIN
    IF p_days IS NULL OR p_days < 0 OR p_batch IS NULL OR p_batch < 1 THEN
        RAISE EXCEPTION 'days must not be negative, the batch must be positive' USING ERRCODE = '22023';
    END IF;
    DELETE FROM dlq.group_arrivals WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM dlq.group_arrivals
        WHERE hour > '-infinity' AND hour < now() - make_interval(days => p_days)
        ORDER BY hour LIMIT p_batch FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    RETURN v_gone;
END;
$$;

-- The functions run with the rights of their owner. A user who could use them in a trigger on a table of his own could
-- write any number to the counters. A trigger that exists runs them without this right.
REVOKE EXECUTE ON FUNCTION dlq.count_inserted_messages(), dlq.count_deleted_messages(),
    dlq.count_updated_messages(), dlq.count_truncated_messages(), dlq.purge_arrivals(INT, INT),
    dlq.count_arrivals(UUID[], TEXT[], TIMESTAMPTZ[], BIGINT[], BIGINT[], TIMESTAMPTZ[], TIMESTAMPTZ[]) FROM PUBLIC;

CREATE TRIGGER trg_dlq_messages_count_insert AFTER INSERT ON dlq.dlq_messages
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.count_inserted_messages();
CREATE TRIGGER trg_dlq_messages_count_delete AFTER DELETE ON dlq.dlq_messages
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.count_deleted_messages();
CREATE TRIGGER trg_dlq_messages_count_update AFTER UPDATE ON dlq.dlq_messages
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.count_updated_messages();
CREATE TRIGGER trg_dlq_messages_count_truncate AFTER TRUNCATE ON dlq.dlq_messages
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.count_truncated_messages();

INSERT INTO dlq.message_counters
SELECT original_topic, coalesce(dlq_topic_id, 0), status, 0, count(*)
FROM dlq.dlq_messages GROUP BY 1, 2, 3;
