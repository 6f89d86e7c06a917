-- dlq-db: how many error groups each dead-letter topic may create.

-- A row for each dead-letter topic that created a group.
CREATE TABLE dlq.error_group_limits (
    dlq_topic  TEXT        PRIMARY KEY,
    hour       TIMESTAMPTZ NOT NULL, -- in UTC
    created    INT         NOT NULL, -- groups, in that hour
    refused_at TIMESTAMPTZ           -- when a group was refused last; NULL when no message is unclassified
);

-- Creates the groups of failures within p_limit groups for each dead-letter topic and
-- hour, and returns the failures that it refused. A group without a name gets the name.
-- A call locks the limits in the order of the topics and writes the groups in the order
-- of their ids, so that calls cannot deadlock. A repeated call changes nothing.
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

        -- Another session may have created some of them while this one waited for the lock.
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

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.error_group_limits TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.error_group_limits TO dlq_ro;
    END IF;
END;
$$;
