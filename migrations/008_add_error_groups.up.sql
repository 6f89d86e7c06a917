-- dlq-db: error groups, the annotations of operators, and limits for the number of new groups.

-- A row is inserted before the first message of the group is stored; the triggers of 005 set its times.
CREATE TABLE dlq.error_groups (
    id           UUID        PRIMARY KEY,
    class        TEXT        NOT NULL DEFAULT '',
    title        TEXT        NOT NULL DEFAULT '',
    frames       TEXT[]      NOT NULL DEFAULT '{}',
    rule         TEXT        NOT NULL DEFAULT '',
    first_seen   TIMESTAMPTZ, -- NULL until a message of the group is stored
    last_seen    TIMESTAMPTZ, -- up to a minute late, so that storing messages does not wait for this row
    regressed_at TIMESTAMPTZ, -- when a message last arrived while all messages of the group were RESOLVED
    -- Whether notifications of the group's first arrival, and of its last regression, were made.
    new_notified          BOOLEAN NOT NULL DEFAULT false,
    notified_regressed_at TIMESTAMPTZ
);
CREATE INDEX idx_error_groups_first_seen ON dlq.error_groups (first_seen, id);
CREATE INDEX idx_error_groups_last_seen ON dlq.error_groups (last_seen, id);
CREATE INDEX idx_error_groups_unnotified ON dlq.error_groups (id)
    WHERE first_seen IS NOT NULL AND (NOT new_notified OR notified_regressed_at IS DISTINCT FROM regressed_at);
-- Most groups never regress, so they are not in this index.
CREATE INDEX idx_error_groups_regressed_at ON dlq.error_groups (regressed_at) WHERE regressed_at IS NOT NULL;

-- The annotations of a group, one for each original topic. The topic * means all topics that have no row of their own.
CREATE TABLE dlq.group_annotations (
    group_id       UUID    NOT NULL REFERENCES dlq.error_groups (id) ON DELETE CASCADE,
    original_topic TEXT    NOT NULL,
    note           TEXT    NOT NULL DEFAULT '',
    link           TEXT    NOT NULL DEFAULT '',
    muted          BOOLEAN NOT NULL DEFAULT false,
    PRIMARY KEY (group_id, original_topic)
);

-- One row for each dead-letter topic that has created an error group.
CREATE TABLE dlq.error_group_limits (
    dlq_topic  TEXT        PRIMARY KEY,
    hour       TIMESTAMPTZ NOT NULL, -- beginning of the hour in UTC
    created    INT         NOT NULL, -- groups created in that hour
    refused_at TIMESTAMPTZ           -- when a group was last refused; NULL when the topic has no unclassified messages
);

-- Creates the error groups of failures, at most p_limit for each dead-letter topic in an hour, and returns the failures
-- that it refused. A group that has no name yet gets its name. The function locks the limits in the order of their
-- topics and writes the groups in the order of their ids, so that calls cannot deadlock. Repeating a call changes
-- nothing.
CREATE FUNCTION dlq.admit_error_groups(
    p_topics TEXT[], p_ids UUID[], p_classes TEXT[], p_titles TEXT[], p_frames TEXT[], p_rules TEXT[],
    p_limit INT, p_now TIMESTAMPTZ
) RETURNS TABLE (dlq_topic TEXT, group_id UUID) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    v_now      TIMESTAMPTZ := coalesce(p_now, clock_timestamp());
    v_hour     TIMESTAMPTZ := date_trunc('hour', v_now, 'UTC');
    v_topic    TEXT;
    v_created  INT;
    v_new      UUID[];
    v_admitted UUID[] := ARRAY(SELECT g.id FROM dlq.error_groups g WHERE g.id = ANY (p_ids));
BEGIN
    FOR v_topic IN
        SELECT DISTINCT f.topic FROM unnest(p_topics, p_ids) AS f (topic, id) WHERE f.id <> ALL (v_admitted) ORDER BY 1
    LOOP
        INSERT INTO dlq.error_group_limits AS l (dlq_topic, hour, created) VALUES (v_topic, v_hour, 0)
        ON CONFLICT (dlq_topic) DO UPDATE
        SET hour = excluded.hour, created = CASE WHEN l.hour = excluded.hour THEN l.created ELSE 0 END
        RETURNING l.created INTO v_created;

        -- While this session waited for the lock, another session may have created some of these groups.
        v_admitted := v_admitted || ARRAY(SELECT g.id FROM dlq.error_groups g WHERE g.id = ANY (p_ids) AND g.id <> ALL (v_admitted));
        v_new := ARRAY(
            SELECT f.id FROM unnest(p_topics, p_ids) WITH ORDINALITY AS f (topic, id, place)
            WHERE f.topic = v_topic AND f.id <> ALL (v_admitted)
            GROUP BY f.id ORDER BY min(f.place));
        UPDATE dlq.error_group_limits l
        SET created = v_created + least(cardinality(v_new), greatest(p_limit - v_created, 0)),
            refused_at = CASE WHEN cardinality(v_new) > p_limit - v_created THEN v_now ELSE l.refused_at END
        WHERE l.dlq_topic = v_topic AND v_new <> '{}';
        v_admitted := v_admitted || v_new[:greatest(p_limit - v_created, 0)];
    END LOOP;

    INSERT INTO dlq.error_groups AS g (id, class, title, frames, rule)
    SELECT DISTINCT ON (f.id) f.id, f.class, f.title, ARRAY(SELECT jsonb_array_elements_text(f.frames::jsonb)), f.rule
    FROM unnest(p_ids, p_classes, p_titles, p_frames, p_rules) AS f (id, class, title, frames, rule)
    WHERE f.id = ANY (v_admitted)
      AND NOT EXISTS (SELECT FROM dlq.error_groups k WHERE k.id = f.id AND (k.class, k.title, k.rule) <> ('', '', ''))
    ORDER BY f.id
    ON CONFLICT (id) DO UPDATE SET class = excluded.class, title = excluded.title, frames = excluded.frames, rule = excluded.rule
    WHERE (g.class, g.title, g.rule) = ('', '', '') AND (excluded.class, excluded.title, excluded.rule) <> ('', '', '');

    RETURN QUERY SELECT f.topic, f.id FROM unnest(p_topics, p_ids) AS f (topic, id) WHERE f.id <> ALL (v_admitted);
END;
$$;

-- Deletes up to p_batch error groups and returns how many. A group is deleted when no live or archived message has it,
-- no message arrived for p_days, and it has no annotation. A group that another session is counting now is left for the
-- next call. Locks are taken in the order of the counting functions: counters, arrivals, group. The locked rows can be
-- deleted whatever other sessions store meanwhile: the counters add up to 0, and arrivals that are not visible yet
-- belong to a new group with the same id, which count_arrivals will create.
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
REVOKE EXECUTE ON FUNCTION dlq.purge_groups(INT, INT) FROM PUBLIC;

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE ON dlq.error_groups, dlq.group_annotations TO dlq_rw;
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.error_group_limits TO dlq_rw;
        GRANT EXECUTE ON FUNCTION dlq.purge_groups(INT, INT) TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.error_groups, dlq.group_annotations, dlq.error_group_limits TO dlq_ro;
    END IF;
END $$;
