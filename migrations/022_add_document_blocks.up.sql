-- migrate:one-by-one
-- dlq-db: what some hundred documents all lack is known without a look at them.

-- The block that says what letters a document has; none: it was stored by a program
-- of before, or changed since.
DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true); -- see 011
    ALTER TABLE dlq.message_documents ADD COLUMN IF NOT EXISTS block UUID;
END;
$$;

-- What a build left that was interrupted is no index, and has the name of one.
DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('dlq.idx_message_documents_unblocked') AND NOT indisvalid) THEN
        DROP INDEX dlq.idx_message_documents_unblocked;
    END IF;
END;
$$;

CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_message_documents_unblocked
    ON dlq.message_documents (created_at) WHERE block IS NULL;

-- migrate:with-version
SET LOCAL lock_timeout = '5s';
--
-- A block is some hundred documents that were stored one after the other. One that goes
-- leaves its block as it is: a block may say too much, never too little.
CREATE TABLE dlq.document_blocks (
    id        UUID        PRIMARY KEY,
    stored_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(), -- the last time that it got one
    oldest    TIMESTAMPTZ NOT NULL CHECK (isfinite(oldest)),  -- created_at of its documents
    newest    TIMESTAMPTZ NOT NULL CHECK (newest >= oldest AND isfinite(newest)),
    -- A bit for each four letters in a row of their texts, as many bits as are of use. A
    -- search reads a byte or two of them.
    letters   BYTEA       NOT NULL CHECK (octet_length(letters) BETWEEN 128 AND 32768
                                          AND octet_length(letters) & (octet_length(letters) - 1) = 0)
);
ALTER TABLE dlq.document_blocks ALTER COLUMN letters SET STORAGE EXTERNAL;
CREATE INDEX idx_document_blocks_newest ON dlq.document_blocks (newest);
CREATE INDEX idx_document_blocks_oldest ON dlq.document_blocks (oldest);
CREATE INDEX idx_document_blocks_around ON dlq.document_blocks USING gist (tstzrange(oldest, newest, '[]'));
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.document_blocks TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.document_blocks TO dlq_ro;
    END IF;
END;
$$;
--
-- Whoever changes what a document says, or when, and not its block, takes it out of the
-- block: programs of before know of none. Who stores it anew in the same block does so
-- too, although the block has its letters.
CREATE FUNCTION dlq.unblock_document() RETURNS TRIGGER LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.block := NULL;
    RETURN NEW;
END;
$$;
REVOKE EXECUTE ON FUNCTION dlq.unblock_document() FROM PUBLIC;
CREATE TRIGGER trg_message_documents_unblock BEFORE UPDATE OF text, created_at ON dlq.message_documents
    FOR EACH ROW WHEN (NEW.block = OLD.block AND (NEW.text, NEW.created_at) IS DISTINCT FROM (OLD.text, OLD.created_at))
    EXECUTE FUNCTION dlq.unblock_document();
--
-- Who gives an archived message another time by hand moves its document, as of a live one.
CREATE TRIGGER trg_dlq_messages_archive_move_document AFTER UPDATE OF created_at ON dlq.dlq_messages_archive
    FOR EACH ROW WHEN (NEW.created_at IS DISTINCT FROM OLD.created_at) EXECUTE FUNCTION dlq.move_document();
