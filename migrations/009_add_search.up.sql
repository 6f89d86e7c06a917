-- dlq-db: the search index. A search engine outside of the database may have it. Then a row of dlq.message_documents
-- says only that the engine has the document, and which version of it.

SET LOCAL lock_timeout = '5s'; -- see 004

-- The documents: what searches for free text, keys, headers and fields read. A document is stored after its message, so
-- that storing messages does not wait for it. created_at is that of the message. A document whose version differs from
-- that of dlq.search_index is not searched. A document does not change when its message changes. To have it made again,
-- delete it and insert the message's id into dlq.late_messages.
--
-- The primary key begins with the time, because a search reads a part of a day by its time, and because new entries are
-- then inserted at the end.
CREATE TABLE dlq.message_documents (
    message_id UUID        NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    version    BIGINT      NOT NULL,
    text       TEXT        NOT NULL, -- in lower case
    terms      BIGINT[]    NOT NULL,
    PRIMARY KEY (created_at, message_id)
) PARTITION BY RANGE (created_at);

-- The down migration must drop pg_trgm only if this migration created it, so the comment of the table says whether it
-- did. gin_trgm_ops is in the schema of pg_trgm.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_trgm') THEN
        CREATE EXTENSION IF NOT EXISTS "pg_trgm";
        COMMENT ON TABLE dlq.message_documents IS 'search index; pg_trgm was installed with it';
    END IF;
    EXECUTE format('CREATE INDEX message_documents_words ON dlq.message_documents
        USING gin (text %s.gin_trgm_ops, terms) WITH (gin_pending_list_limit = 4096)',
        (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'pg_trgm'));
END;
$$;

-- Creates missing partitions for the days of the given times, and returns how many it created. The partition of
-- 1999-12-31 also has all earlier times, that of 2100-01-01 all later times. Several callers may run it at once. No
-- search waits for it.
CREATE FUNCTION dlq.create_document_partitions(p_times TIMESTAMPTZ[]) RETURNS INT LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' SET timezone = 'UTC' AS $$
DECLARE
    v_day DATE;
    v_name TEXT;
    v_reader REGROLE;
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
        FOR v_reader IN SELECT oid FROM pg_roles WHERE rolname IN ('dlq_rw', 'dlq_ro')
        LOOP
            EXECUTE format('GRANT SELECT ON dlq.%I TO %s', v_name, v_reader); -- searches name the partition itself
        END LOOP;
        v_created := v_created + 1;
    END LOOP;
    RETURN v_created;
END;
$$;

-- Drops the partitions of days before yesterday that have no document, and returns how many it dropped. When it would
-- have to wait for a search or for the indexer, it drops none; it will be called again.
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
    -- With this lock, no other session can insert a document.
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
    RETURN 0; -- undefined_table: another caller has dropped it
END;
$$;
-- The state of the search index, in one row.
CREATE TABLE dlq.search_index (
    one              BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    version          BIGINT,
    owner            UUID,
    lease_expires_at TIMESTAMPTZ,
    -- Every message that was created before mark, and every message that was archived before archive_mark, has a
    -- document of the present version, except those in late_messages.
    mark             TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    archive_mark     TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    -- Where the next poll begins. All messages between the marks and these positions had their document at the last
    -- poll. They are checked again from time to time, because open transactions may still store messages there.
    walked_at        TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    walked_id        UUID NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    archive_walked   TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    -- When the messages after the marks were last checked again.
    looked_at        TIMESTAMPTZ,
    -- At the last poll, every message that was created before found_until had its document.
    found_until      TIMESTAMPTZ,
    -- seen_xid is the first transaction that had not begun at seen_at. Once all transactions before it have ended, no
    -- more messages can appear whose created_at is more than ten seconds before seen_at.
    seen_at          TIMESTAMPTZ,
    seen_xid         XID8,
    -- The engine that the indexer fills. While it is filled for the first time, the database answers searches with the
    -- documents of served_version and of version. filling_since is when the engine was empty and the filling began. At
    -- the end of the filling, filled is set: no message waits any more that was created before it began.
    engine           TEXT NOT NULL DEFAULT 'postgres'
        CONSTRAINT chk_search_index_engine CHECK (engine IN ('postgres', 'opensearch')),
    served_version   BIGINT,
    filling_since    TIMESTAMPTZ,
    filled           BOOLEAN NOT NULL DEFAULT false
) WITH (fillfactor = 50);
INSERT INTO dlq.search_index DEFAULT VALUES;

-- Messages that were stored with an old created_at, by a restore, by SQL or after an outage; the indexer's position may
-- be after them. Sessions that store such messages do not wait for each other. Messages without an error group are not
-- in this table, because the indexer finds them by that.
CREATE TABLE dlq.late_messages (
    message_id UUID PRIMARY KEY
);

-- Messages whose document in the engine must be written again or deleted: their topic or error group has changed, or
-- they were archived, restored or deleted. A message may be in it several times.
CREATE TABLE dlq.search_changes (
    number     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id UUID   NOT NULL
);

-- Numbers the writes to the engine: of two writes of a document the one with the higher number wins.
CREATE SEQUENCE dlq.search_writes AS BIGINT;

CREATE FUNCTION dlq.note_late_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dlq.late_messages (message_id)
    SELECT id FROM new_rows
    WHERE created_at < clock_timestamp() - interval '10 seconds' AND group_id IS NOT NULL
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END;
$$;

-- Deletes the documents and records of deleted messages. A message that is in the other table at the end of the
-- statement was moved by the archiver or by a restore, and keeps them. A statement moves either all of its messages or
-- none, so checking one message is enough. This is a trigger and not a part of the statements that delete, because a
-- trigger also sees documents that were stored while those statements waited for the row. The conditions on the times
-- exclude partitions that can have none of the documents.
CREATE FUNCTION dlq.drop_documents() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
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

CREATE FUNCTION dlq.drop_truncated_documents() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM dlq.records r
    WHERE NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = r.message_id)
      AND NOT EXISTS (SELECT FROM dlq.dlq_messages_archive a WHERE a.id = r.message_id);
    DELETE FROM dlq.message_documents d
    WHERE NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = d.message_id)
      AND NOT EXISTS (SELECT FROM dlq.dlq_messages_archive a WHERE a.id = d.message_id);
    RETURN NULL;
END;
$$;

-- When the created_at of a message is changed by SQL, its document moves too. A message with an infinite time is in no
-- list and has no document.
CREATE FUNCTION dlq.move_document() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
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

CREATE FUNCTION dlq.uses_search_engine() RETURNS BOOLEAN LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$ SELECT EXISTS (SELECT FROM dlq.search_index WHERE engine <> 'postgres') $$;

CREATE FUNCTION dlq.note_search_change() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF dlq.uses_search_engine() THEN
        INSERT INTO dlq.search_changes (message_id) VALUES (NEW.id);
    END IF;
    RETURN NULL;
END;
$$;

CREATE FUNCTION dlq.note_deleted_documents() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF dlq.uses_search_engine() THEN
        INSERT INTO dlq.search_changes (message_id) SELECT message_id FROM changed_rows;
    END IF;
    RETURN NULL;
END;
$$;

-- The functions run with the rights of their owner. A trigger that exists runs them without this right.
REVOKE EXECUTE ON FUNCTION dlq.note_late_messages(), dlq.drop_documents(), dlq.drop_truncated_documents(),
    dlq.move_document(), dlq.note_search_change(), dlq.note_deleted_documents(),
    dlq.create_document_partitions(TIMESTAMPTZ[]), dlq.drop_document_partitions() FROM PUBLIC;

CREATE TRIGGER trg_dlq_messages_note_late AFTER INSERT ON dlq.dlq_messages
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_late_messages();
CREATE TRIGGER trg_dlq_messages_drop_documents AFTER DELETE ON dlq.dlq_messages
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.drop_documents();
CREATE TRIGGER trg_dlq_messages_truncate_documents AFTER TRUNCATE ON dlq.dlq_messages
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.drop_truncated_documents();
CREATE TRIGGER trg_dlq_messages_move_document AFTER UPDATE OF created_at ON dlq.dlq_messages
    FOR EACH ROW WHEN (NEW.created_at IS DISTINCT FROM OLD.created_at) EXECUTE FUNCTION dlq.move_document();
CREATE TRIGGER trg_dlq_messages_note_search_change AFTER UPDATE OF original_topic, group_id, created_at ON dlq.dlq_messages
    FOR EACH ROW WHEN ((NEW.original_topic, NEW.group_id, NEW.created_at) IS DISTINCT FROM (OLD.original_topic, OLD.group_id, OLD.created_at))
    EXECUTE FUNCTION dlq.note_search_change();
CREATE TRIGGER trg_message_documents_note_deleted AFTER DELETE ON dlq.message_documents
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_deleted_documents();

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.message_documents TO dlq_rw;
        GRANT SELECT, UPDATE ON dlq.search_index TO dlq_rw;
        GRANT SELECT, INSERT, DELETE ON dlq.late_messages TO dlq_rw;
        GRANT SELECT, DELETE ON dlq.search_changes TO dlq_rw;
        GRANT USAGE ON SEQUENCE dlq.search_writes TO dlq_rw;
        GRANT EXECUTE ON FUNCTION dlq.create_document_partitions(TIMESTAMPTZ[]), dlq.drop_document_partitions() TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.message_documents, dlq.search_index, dlq.late_messages, dlq.search_changes TO dlq_ro;
    END IF;
END $$;
