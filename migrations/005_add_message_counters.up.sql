-- dlq-db: how many messages there are by topic and status, kept exact by
-- statement triggers, so that totals never scan the table. Writers of different
-- connections use different shards and do not wait for one another.

CREATE TABLE dlq.message_counters (
    original_topic TEXT     NOT NULL,
    dlq_topic_id   INT      NOT NULL, -- 0: put in by SQL
    status         TEXT     NOT NULL,
    shard          SMALLINT NOT NULL,
    messages       BIGINT   NOT NULL,
    PRIMARY KEY (original_topic, dlq_topic_id, status, shard)
) WITH (fillfactor = 50);

CREATE INDEX idx_message_counters_dlq_topic ON dlq.message_counters (dlq_topic_id);

CREATE FUNCTION dlq.count_inserted_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dlq.message_counters AS c
    SELECT original_topic, coalesce(dlq_topic_id, 0), status, pg_backend_pid() % 16, count(*)
    FROM new_rows GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (original_topic, dlq_topic_id, status, shard)
    DO UPDATE SET messages = c.messages + excluded.messages;
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
    RETURN NULL;
END;
$$;

CREATE FUNCTION dlq.count_updated_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
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
    RETURN NULL;
END;
$$;

CREATE FUNCTION dlq.count_truncated_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM dlq.message_counters;
    RETURN NULL;
END;
$$;

-- They run as their owner: whoever may name them in a trigger on a table of his
-- own could write any counter. Firing a trigger needs no right.
REVOKE EXECUTE ON FUNCTION dlq.count_inserted_messages(), dlq.count_deleted_messages(),
    dlq.count_updated_messages(), dlq.count_truncated_messages() FROM PUBLIC;

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
