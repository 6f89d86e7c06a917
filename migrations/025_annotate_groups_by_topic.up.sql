-- dlq-db: what operators say of an error group is kept for each of its original topics.

SET LOCAL lock_timeout = '5s'; -- see 011

-- The topic * stands for every topic that has no row of its own.
CREATE TABLE dlq.group_annotations (
    group_id       UUID    NOT NULL REFERENCES dlq.error_groups (id) ON DELETE CASCADE,
    original_topic TEXT    NOT NULL,
    note           TEXT    NOT NULL DEFAULT '',
    link           TEXT    NOT NULL DEFAULT '',
    muted          BOOLEAN NOT NULL DEFAULT false,
    PRIMARY KEY (group_id, original_topic)
);

-- The columns note, link and muted of error_groups stay for programs that run while this
-- is migrated; nothing else reads or writes them.
INSERT INTO dlq.group_annotations (group_id, original_topic, note, link, muted)
SELECT id, '*', note, link, muted FROM dlq.error_groups WHERE note <> '' OR link <> '' OR muted;

-- The original topics that a change is about; NULL: it is not about some topics only.
ALTER TABLE dlq.audit ADD COLUMN topics TEXT[];

-- purge_groups of 011 leaves a group alone of which somebody says something.
CREATE OR REPLACE FUNCTION dlq.purge_groups(p_days INT, p_batch INT) RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER
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
        WHERE g.last_seen < now() - make_interval(days => p_days) AND NOT EXISTS (
            SELECT FROM dlq.group_annotations n WHERE n.group_id = g.id AND (n.note <> '' OR n.link <> '' OR n.muted))
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
          AND g.last_seen < now() - make_interval(days => p_days) AND NOT EXISTS (
            SELECT FROM dlq.group_annotations n WHERE n.group_id = g.id AND (n.note <> '' OR n.link <> '' OR n.muted))
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

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE ON dlq.group_annotations TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.group_annotations TO dlq_ro;
    END IF;
END;
$$;
