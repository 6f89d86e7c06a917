-- dlq-db: what messages are searched by.

SET LOCAL lock_timeout = '5s'; -- see 011

-- The search catalogue: what free text, keys, headers and fields of a message are
-- found by. It is made behind the messages, so that storing them waits for none of
-- it. Documents of another version than the catalogue's are not searched. One that
-- is made stays as it is: who changes a message's texts by hand deletes its document
-- and puts the id into catalogue_late.
CREATE TABLE dlq.message_documents (
    message_id UUID     PRIMARY KEY,
    version    BIGINT   NOT NULL,
    text       TEXT     NOT NULL, -- lower case
    terms      BIGINT[] NOT NULL
);

-- The way down removes pg_trgm only where this step brought it, so the table
-- remembers that it did. New entries wait in short lists: every search reads the
-- whole of them.
DO $$
DECLARE
    v_schema TEXT;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_trgm') THEN
        CREATE EXTENSION IF NOT EXISTS "pg_trgm";
        COMMENT ON TABLE dlq.message_documents IS 'search catalogue; pg_trgm was installed with it';
    END IF;
    SELECT extnamespace::regnamespace::text INTO v_schema FROM pg_extension WHERE extname = 'pg_trgm';
    EXECUTE format('CREATE INDEX idx_message_documents_text ON dlq.message_documents
        USING gin (text %s.gin_trgm_ops) WITH (gin_pending_list_limit = 1024)', v_schema);
END;
$$;
CREATE INDEX idx_message_documents_terms ON dlq.message_documents
    USING gin (terms) WITH (gin_pending_list_limit = 1024);

-- Where the catalogue stands: one row.
CREATE TABLE dlq.catalogue (
    one              BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    version          BIGINT,
    owner            UUID,
    lease_expires_at TIMESTAMPTZ,
    -- Every message created before mark, and every one archived before
    -- archive_mark, has a document of the version, except those in catalogue_late.
    mark             TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    archive_mark     TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    -- Where the next look begins: what lies between the marks and here had its
    -- document when somebody looked, and is looked at again from time to time, for
    -- transactions may still put messages there.
    walked_at        TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    walked_id        UUID NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    archive_walked   TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    -- When it was looked at again.
    looked_at        TIMESTAMPTZ,
    -- Every message created before found_until had one when somebody last looked.
    found_until      TIMESTAMPTZ,
    -- The first transaction that had not begun at seen_at: once all before it are
    -- over, nothing that seen_at is ten seconds past can appear any more.
    seen_at          TIMESTAMPTZ,
    seen_xid         XID8
) WITH (fillfactor = 50);
INSERT INTO dlq.catalogue DEFAULT VALUES;

-- Messages that came with a created_at of long ago, from a restore, by SQL or after
-- an outage: the catalogue may be past it. Whoever stores them waits for nobody.
-- Those without a group are found by that.
CREATE TABLE dlq.catalogue_late (
    message_id UUID PRIMARY KEY
);

CREATE FUNCTION dlq.note_late_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dlq.catalogue_late (message_id)
    SELECT id FROM new_rows
    WHERE created_at < clock_timestamp() - interval '10 seconds' AND group_id IS NOT NULL
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END;
$$;

-- Documents go with their message. A row that is in the other table by the end of
-- the statement was moved, by the archiver or by a restore; a statement moves all
-- of its rows or none, so one row tells. A trigger and not the statements that
-- delete: it sees documents that were stored while those waited for the row.
CREATE FUNCTION dlq.drop_documents() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_id UUID;
BEGIN
    SELECT id INTO v_id FROM old_rows LIMIT 1;
    IF v_id IS NULL OR EXISTS (SELECT FROM dlq.dlq_messages WHERE id = v_id)
        OR EXISTS (SELECT FROM dlq.dlq_messages_archive WHERE id = v_id) THEN
        RETURN NULL;
    END IF;
    DELETE FROM dlq.message_documents WHERE message_id = ANY (ARRAY(
        SELECT message_id FROM dlq.message_documents WHERE message_id = ANY (ARRAY(SELECT id FROM old_rows))
        ORDER BY message_id FOR UPDATE));
    RETURN NULL;
END;
$$;

CREATE FUNCTION dlq.drop_truncated_documents() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM dlq.message_documents d
    WHERE NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = d.message_id)
      AND NOT EXISTS (SELECT FROM dlq.dlq_messages_archive a WHERE a.id = d.message_id);
    RETURN NULL;
END;
$$;

-- They run as their owner; firing a trigger needs no right.
REVOKE EXECUTE ON FUNCTION dlq.note_late_messages(), dlq.drop_documents(), dlq.drop_truncated_documents() FROM PUBLIC;

CREATE TRIGGER trg_dlq_messages_note_late AFTER INSERT ON dlq.dlq_messages
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_late_messages();
CREATE TRIGGER trg_dlq_messages_drop_documents AFTER DELETE ON dlq.dlq_messages
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.drop_documents();
CREATE TRIGGER trg_dlq_messages_archive_drop_documents AFTER DELETE ON dlq.dlq_messages_archive
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.drop_documents();
CREATE TRIGGER trg_dlq_messages_truncate_documents AFTER TRUNCATE ON dlq.dlq_messages
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.drop_truncated_documents();
CREATE TRIGGER trg_dlq_messages_archive_truncate_documents AFTER TRUNCATE ON dlq.dlq_messages_archive
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.drop_truncated_documents();

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.message_documents TO dlq_rw;
        GRANT SELECT, UPDATE ON dlq.catalogue TO dlq_rw;
        GRANT SELECT, DELETE ON dlq.catalogue_late TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.message_documents, dlq.catalogue, dlq.catalogue_late TO dlq_ro;
    END IF;
END;
$$;
