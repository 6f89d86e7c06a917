-- dlq-db: a search engine outside of the database may have the search index. Then a row of dlq.message_documents says
-- only that the engine has the document, and which version of it.

SET LOCAL lock_timeout = '5s'; -- see 004

-- The engine that the indexer fills. While it is filled for the first time, the database answers searches with the
-- documents of served_version and of version. filling_since is when the engine was empty and the filling began. At the end
-- of the filling, filled is set: no message waits any more that was created before it began.
ALTER TABLE dlq.search_index
    ADD COLUMN engine TEXT NOT NULL DEFAULT 'postgres'
        CONSTRAINT chk_search_index_engine CHECK (engine IN ('postgres', 'opensearch')),
    ADD COLUMN served_version BIGINT,
    ADD COLUMN filling_since TIMESTAMPTZ,
    ADD COLUMN filled BOOLEAN NOT NULL DEFAULT false;

-- Messages whose document in the engine must be written again or deleted: their topic or error group has changed, or
-- they were archived, restored or deleted. A message may be in it several times.
CREATE TABLE dlq.search_changes (
    number     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id UUID   NOT NULL
);

-- Numbers the writes to the engine: of two writes of a document the one with the higher number wins.
CREATE SEQUENCE dlq.search_writes AS BIGINT;

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

CREATE FUNCTION dlq.note_archived_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF dlq.uses_search_engine() THEN
        INSERT INTO dlq.search_changes (message_id) SELECT id FROM changed_rows;
    END IF;
    RETURN NULL;
END;
$$;

REVOKE EXECUTE ON FUNCTION dlq.note_search_change(), dlq.note_deleted_documents(), dlq.note_archived_messages() FROM PUBLIC;

CREATE TRIGGER trg_dlq_messages_note_search_change AFTER UPDATE OF original_topic, group_id, created_at ON dlq.dlq_messages
    FOR EACH ROW WHEN ((NEW.original_topic, NEW.group_id, NEW.created_at) IS DISTINCT FROM (OLD.original_topic, OLD.group_id, OLD.created_at))
    EXECUTE FUNCTION dlq.note_search_change();
CREATE TRIGGER trg_message_documents_note_deleted AFTER DELETE ON dlq.message_documents
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_deleted_documents();
CREATE TRIGGER trg_archive_ids_note_archived AFTER INSERT ON dlq.archive_ids
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_archived_messages();
CREATE TRIGGER trg_archive_ids_note_restored AFTER DELETE ON dlq.archive_ids
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_archived_messages();

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, DELETE ON dlq.search_changes TO dlq_rw;
        GRANT USAGE ON SEQUENCE dlq.search_writes TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.search_changes TO dlq_ro;
    END IF;
END $$;
