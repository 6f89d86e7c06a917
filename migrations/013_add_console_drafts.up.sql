-- dlq-db: forms of the console that are shown again.

-- The content is encrypted with a key that only the browser has. The oldest rows of an owner are deleted when new ones
-- are stored; expired ones also by the archiver.
CREATE TABLE dlq.console_drafts (
    id         TEXT        PRIMARY KEY,
    owner      TEXT        NOT NULL, -- principal; empty for a form that was sent after the session had ended
    content    BYTEA       NOT NULL CHECK (octet_length(content) <= 8388608),
    created_at TIMESTAMPTZ NOT NULL
);
-- Encrypted bytes cannot be compressed.
ALTER TABLE dlq.console_drafts ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX idx_console_drafts_owner ON dlq.console_drafts (owner, created_at);
CREATE INDEX idx_console_drafts_created_at ON dlq.console_drafts (created_at);

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.console_drafts TO dlq_rw;
    END IF;
END $$;
