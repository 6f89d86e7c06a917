SET LOCAL lock_timeout = '5s';

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

-- What holds for all topics is kept; what was said of some topics only is lost.
UPDATE dlq.error_groups g SET note = n.note, link = n.link, muted = n.muted
FROM dlq.group_annotations n WHERE n.group_id = g.id AND n.original_topic = '*';

ALTER TABLE dlq.audit DROP COLUMN topics;
DROP TABLE dlq.group_annotations;
