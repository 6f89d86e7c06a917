-- dlq-db: error groups, and how many messages they have.

-- Whoever waits for a table makes all who come after wait: better give up and be
-- run again than hold everybody up behind one long reader.
SET LOCAL lock_timeout = '5s';

ALTER TABLE dlq.dlq_messages_archive ADD COLUMN group_id UUID;
ALTER TABLE dlq.dlq_messages ADD COLUMN group_id UUID;

-- What a group is called, and what an operator says of it. A row is made before the
-- first message of the group is stored; the triggers below write its times.
CREATE TABLE dlq.error_groups (
    id           UUID        PRIMARY KEY,
    class        TEXT        NOT NULL DEFAULT '',
    title        TEXT        NOT NULL DEFAULT '',
    frames       TEXT[]      NOT NULL DEFAULT '{}',
    rule         TEXT        NOT NULL DEFAULT '',
    first_seen   TIMESTAMPTZ, -- NULL: no message of it was stored yet
    last_seen    TIMESTAMPTZ, -- behind by up to a minute, lest all who store wait for this row
    regressed_at TIMESTAMPTZ, -- when one came though none was left but resolved ones
    note         TEXT        NOT NULL DEFAULT '',
    link         TEXT        NOT NULL DEFAULT '',
    muted        BOOLEAN     NOT NULL DEFAULT false
);
CREATE INDEX idx_error_groups_first_seen ON dlq.error_groups (first_seen, id);
CREATE INDEX idx_error_groups_last_seen ON dlq.error_groups (last_seen, id);

-- How many messages of each group there are, as message_counters has them of each
-- topic. Messages without a group are not in it.
CREATE TABLE dlq.group_counters (
    group_id       UUID     NOT NULL,
    original_topic TEXT     NOT NULL,
    status         TEXT     NOT NULL,
    shard          SMALLINT NOT NULL,
    messages       BIGINT   NOT NULL,
    PRIMARY KEY (group_id, original_topic, status, shard)
) WITH (fillfactor = 50);
CREATE INDEX idx_group_counters_topic ON dlq.group_counters (original_topic, group_id);

-- How many messages of each group ever came, by the hour, in UTC, in which they
-- were stored, and over all time in the row of the hour -infinity. Messages that
-- are deleted or archived stay counted.
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

-- Counts what came to groups, or went from one to another, and keeps the groups'
-- times: an element an hour of a group and a topic; opened is how many of them are
-- not RESOLVED. The counters must have been written before, by the same trigger.
--
-- Whether a group came back is decided in one snapshot: with another session that
-- brings the group its very first messages at this moment, either both its mark
-- and its counters are seen or none. Only who has something new to tell locks the
-- group's row, and everybody in one order.
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

    -- Groups that were purged, or never noted, have a row without a name until they
    -- are noted. One that was being purged when this began is seen to be gone after the
    -- wait for its row.
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

-- The triggers' functions of 005, which keep the groups too: the counters of topics
-- first, then those of groups, arrivals, and groups, each in the order of its keys.

CREATE OR REPLACE FUNCTION dlq.count_inserted_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
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

    -- What the trail says was restored comes back from the archive: it has arrived
    -- before. Only such messages were changed before they are put in, and others that
    -- somebody copies from elsewhere.
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

CREATE OR REPLACE FUNCTION dlq.count_deleted_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
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

CREATE OR REPLACE FUNCTION dlq.count_updated_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dlq.message_counters AS c
    SELECT original_topic, dlq_topic_id, status, pg_backend_pid() % 16, sum(n)
    FROM (
        SELECT original_topic, coalesce(dlq_topic_id, 0) AS dlq_topic_id, status, 1 AS n FROM new_rows
        UNION ALL
        SELECT original_topic, coalesce(dlq_topic_id, 0), status, -1 FROM old_rows
    ) changes
    GROUP BY 1, 2, 3 HAVING sum(n) <> 0 ORDER BY 1, 2, 3
    ON CONFLICT (original_topic, dlq_topic_id, status, shard)
    DO UPDATE SET messages = c.messages + excluded.messages;

    INSERT INTO dlq.group_counters AS c
    SELECT group_id, original_topic, status, pg_backend_pid() % 4, sum(n)
    FROM (
        SELECT group_id, original_topic, status, 1 AS n FROM new_rows WHERE group_id IS NOT NULL
        UNION ALL
        SELECT group_id, original_topic, status, -1 FROM old_rows WHERE group_id IS NOT NULL
    ) changes
    GROUP BY 1, 2, 3 HAVING sum(n) <> 0 ORDER BY 1, 2, 3
    ON CONFLICT (group_id, original_topic, status, shard)
    DO UPDATE SET messages = c.messages + excluded.messages;
    IF NOT FOUND THEN
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

CREATE OR REPLACE FUNCTION dlq.count_truncated_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM dlq.message_counters;
    DELETE FROM dlq.group_counters;
    RETURN NULL;
END;
$$;

REVOKE EXECUTE ON FUNCTION dlq.count_arrivals(UUID[], TEXT[], TIMESTAMPTZ[], BIGINT[], BIGINT[], TIMESTAMPTZ[], TIMESTAMPTZ[]) FROM PUBLIC;

-- Forgets the hours that are longer ago than p_days, at most p_batch rows of them,
-- and says how many; what came over all time stays known. It is the only way in
-- which the application may change what the triggers count.
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
REVOKE EXECUTE ON FUNCTION dlq.purge_arrivals(INT, INT) FROM PUBLIC;

-- Forgets up to p_batch groups, and says how many, of which there is no message in
-- either table, of which nothing came for p_days, and of which nobody said anything.
-- What somebody is counting at this moment is left alone. Locks are taken as those
-- take them who count: counters, arrivals, the group. What is locked can be deleted
-- whatever comes beside it: the counters add up to nothing, and arrivals that are not
-- seen yet are of a new life of the group, which count_arrivals begins.
CREATE FUNCTION dlq.purge_groups(p_days INT, p_batch INT) RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_id UUID;
    v_counters TID[];
    v_arrivals TID[];
    v_gone BIGINT := 0;
BEGIN
    IF p_days IS NULL OR p_days < 0 OR p_batch IS NULL OR p_batch < 1 THEN
        RAISE EXCEPTION 'days must not be negative, the batch must be positive' USING ERRCODE = '22023';
    END IF;
    FOR v_id IN
        SELECT g.id FROM dlq.error_groups g
        WHERE g.last_seen < now() - make_interval(days => p_days) AND g.note = '' AND g.link = '' AND NOT g.muted
          AND NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.group_id = g.id)
          AND NOT EXISTS (SELECT FROM dlq.dlq_messages_archive a WHERE a.group_id = g.id)
        ORDER BY g.last_seen, g.id LIMIT p_batch
    LOOP
        BEGIN
            v_counters := ARRAY(SELECT ctid FROM dlq.group_counters WHERE group_id = v_id FOR UPDATE NOWAIT);
            v_arrivals := ARRAY(SELECT ctid FROM dlq.group_arrivals WHERE group_id = v_id FOR UPDATE NOWAIT);
            PERFORM FROM dlq.error_groups WHERE id = v_id FOR UPDATE NOWAIT;
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
        DELETE FROM dlq.error_groups g
        WHERE g.id = v_id
          AND g.last_seen < now() - make_interval(days => p_days) AND g.note = '' AND g.link = '' AND NOT g.muted
          AND NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.group_id = v_id)
          AND NOT EXISTS (SELECT FROM dlq.dlq_messages_archive a WHERE a.group_id = v_id)
          AND NOT EXISTS (
            SELECT FROM dlq.group_counters c WHERE c.group_id = v_id AND c.ctid = ANY (v_counters)
            GROUP BY c.original_topic, c.status HAVING sum(c.messages) <> 0);
        CONTINUE WHEN NOT FOUND;
        DELETE FROM dlq.group_counters WHERE ctid = ANY (v_counters);
        DELETE FROM dlq.group_arrivals WHERE ctid = ANY (v_arrivals);
        v_gone := v_gone + 1;
    END LOOP;
    RETURN v_gone;
END;
$$;
REVOKE EXECUTE ON FUNCTION dlq.purge_groups(INT, INT) FROM PUBLIC;

-- As in 010, with the new column.
CREATE OR REPLACE PROCEDURE dlq.archive_old_dlq_messages(
    p_retention_days INT DEFAULT 30,
    p_batch_size INT DEFAULT 1000
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_cutoff TIMESTAMPTZ;
    v_status TEXT;
    v_after_time TIMESTAMPTZ;
    v_after_id UUID;
    v_picked INT;
    v_archived BIGINT := 0;
    v_batch BIGINT;
BEGIN
    IF p_retention_days IS NULL OR p_retention_days < 0 THEN
        RAISE EXCEPTION 'p_retention_days must not be negative' USING ERRCODE = '22023';
    END IF;
    IF p_batch_size IS NULL OR p_batch_size < 1 THEN
        RAISE EXCEPTION 'p_batch_size must be positive' USING ERRCODE = '22023';
    END IF;
    v_cutoff := NOW() - make_interval(days => p_retention_days);
    PERFORM set_config('dlq.archived', '0', false);

    FOREACH v_status IN ARRAY ARRAY['RESOLVED', 'DEAD'] LOOP
        v_after_time := '-infinity';
        v_after_id := '00000000-0000-0000-0000-000000000000';
        LOOP
            WITH picked AS MATERIALIZED (
                SELECT m.id, m.created_at FROM dlq.dlq_messages m
                WHERE m.status = v_status AND m.updated_at < v_cutoff
                  AND (m.created_at, m.id) > (v_after_time, v_after_id)
                ORDER BY m.created_at, m.id
                LIMIT p_batch_size FOR UPDATE SKIP LOCKED
            ), moved AS (
                DELETE FROM dlq.dlq_messages m USING picked p WHERE m.id = p.id
                RETURNING m.*
            ), kept AS (
                INSERT INTO dlq.dlq_messages_archive
                    (id, original_topic, error_message, retry_count, max_retries, payload, status,
                     created_at, updated_at, last_retry_at,
                     key, value, headers, payload_note, omitted_size, omitted_sha256,
                     dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp,
                     original_partition, original_offset, original_timestamp, origin_confidence,
                     consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id,
                     attempt_no, rescues, claim_id, claim_expires_at, claim_topic, claim_topic_id, claim_partition,
                     claim_end_offset, unsettled, next_attempt_at, last_publish_error,
                     last_publish_error_class, outcome,
                     claim_redrive_id, record_hash, group_id, archived_at)
                SELECT id, original_topic, error_message, retry_count, max_retries, payload, status,
                     created_at, updated_at, last_retry_at,
                     key, value, headers, payload_note, omitted_size, omitted_sha256,
                     dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp,
                     original_partition, original_offset, original_timestamp, origin_confidence,
                     consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id,
                     attempt_no, rescues, claim_id, claim_expires_at, claim_topic, claim_topic_id, claim_partition,
                     claim_end_offset, unsettled, next_attempt_at, last_publish_error,
                     last_publish_error_class, outcome,
                     claim_redrive_id, record_hash, group_id, clock_timestamp()
                FROM moved
                RETURNING 1
            )
            SELECT count(*), (SELECT count(*) FROM kept),
                   max(created_at), (array_agg(id ORDER BY created_at DESC, id DESC))[1]
            INTO v_picked, v_batch, v_after_time, v_after_id
            FROM picked;

            v_archived := v_archived + v_batch;
            PERFORM set_config('dlq.archived', v_archived::text, false);
            EXIT WHEN v_picked = 0;
            COMMIT;
        END LOOP;
        COMMIT;
    END LOOP;

    RAISE NOTICE 'Archived % DLQ messages older than % days', v_archived, p_retention_days;
END;
$$;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE ON dlq.error_groups TO dlq_rw;
        GRANT SELECT ON dlq.group_counters, dlq.group_arrivals TO dlq_rw;
        GRANT EXECUTE ON FUNCTION dlq.purge_arrivals(INT, INT), dlq.purge_groups(INT, INT) TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.error_groups, dlq.group_counters, dlq.group_arrivals TO dlq_ro;
    END IF;
END;
$$;
