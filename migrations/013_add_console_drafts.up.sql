-- dlq-db: drafts: forms of the console that can be shown again.

-- The content is encrypted with a key that only the browser has. When a new draft is stored, the oldest drafts of its
-- owner may be deleted. The archiver also deletes drafts that have expired.
CREATE TABLE dlq.console_drafts (
    id         TEXT        PRIMARY KEY,
    owner      TEXT        NOT NULL, -- principal; empty when the form was sent after the session had ended
    content    BYTEA       NOT NULL CHECK (octet_length(content) <= 8388608),
    created_at TIMESTAMPTZ NOT NULL
);
-- Compressing encrypted bytes saves nothing.
ALTER TABLE dlq.console_drafts ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX idx_console_drafts_owner ON dlq.console_drafts (owner, created_at);
CREATE INDEX idx_console_drafts_created_at ON dlq.console_drafts (created_at);

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.console_drafts TO dlq_rw;
    END IF;
END $$;
