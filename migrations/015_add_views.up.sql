-- Saved views: filters of lists of messages. A shared view belongs to the principal who saved it first, and all
-- principals may see it.
CREATE TABLE dlq.views (
    id         UUID        PRIMARY KEY,
    name       TEXT        NOT NULL,
    owner      TEXT        NOT NULL,
    shared     BOOLEAN     NOT NULL,
    list       TEXT        NOT NULL CONSTRAINT chk_views_list CHECK (list IN ('messages', 'archive')),
    query      TEXT        NOT NULL, -- URL-encoded
    version    BIGINT      NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);
CREATE UNIQUE INDEX idx_views_own ON dlq.views (owner, name) WHERE NOT shared;
CREATE UNIQUE INDEX idx_views_shared ON dlq.views (name) WHERE shared;

DO $$
BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.views TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.views TO dlq_ro;
    END IF;
END $$;
