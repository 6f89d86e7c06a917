-- dlq-db: redirects: original topics whose replays are sent to another topic.

-- The versions of all redirects come from one sequence, so that a redirect that is deleted and created again gets
-- another version.
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
