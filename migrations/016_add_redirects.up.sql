-- dlq-db: original topics whose replays go to another topic.

-- Versions of redirects. All share one sequence, so that a redirect that was removed and made again has another one.
CREATE SEQUENCE dlq.redirect_versions;

CREATE TABLE dlq.redirects (
    topic      TEXT        PRIMARY KEY, -- original topic
    target     TEXT        NOT NULL CONSTRAINT chk_redirects_target CHECK (target <> topic),
    version    BIGINT      NOT NULL DEFAULT nextval('dlq.redirect_versions'),
    reason     TEXT,
    updated_at TIMESTAMPTZ NOT NULL,
    updated_by TEXT        NOT NULL
);

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.redirects TO dlq_rw;
        GRANT USAGE ON SEQUENCE dlq.redirect_versions TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.redirects TO dlq_ro;
    END IF;
END $$;
