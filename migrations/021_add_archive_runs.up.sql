-- migrate:one-by-one
-- dlq-db: how the archiver's runs ended, and which error groups came back lately.

-- What a build left that was interrupted is no index, and has the name of one.
DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true); -- see 011
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('dlq.idx_error_groups_regressed_at') AND NOT indisvalid) THEN
        DROP INDEX dlq.idx_error_groups_regressed_at;
    END IF;
END;
$$;

-- Most groups never come back.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_error_groups_regressed_at
    ON dlq.error_groups (regressed_at) WHERE regressed_at IS NOT NULL;

-- migrate:with-version
-- The archiver is a program that is gone before anybody could ask it, so it leaves
-- here what became of a run. A run is 'running' from its beginning; one that stays so
-- was killed. Old rows are deleted by later runs, but the last complete one.
CREATE TABLE dlq.archive_runs (
    id          UUID        PRIMARY KEY,
    started_at  TIMESTAMPTZ NOT NULL,
    finished_at TIMESTAMPTZ,
    result      TEXT        NOT NULL CHECK (result IN ('running', 'complete', 'incomplete', 'stopped')),
    moved       BIGINT      NOT NULL DEFAULT 0, -- messages, to the archive
    purged      BIGINT      NOT NULL DEFAULT 0, -- messages, out of the archive for good
    bookkept    BIGINT      NOT NULL DEFAULT 0, -- keys, redrives, audit entries and the like that were deleted
    error       TEXT        NOT NULL DEFAULT '' CHECK (octet_length(error) <= 2000),
    CHECK ((result = 'running') = (finished_at IS NULL))
);
CREATE INDEX idx_archive_runs_started_at ON dlq.archive_runs (started_at, id);
CREATE INDEX idx_archive_runs_complete ON dlq.archive_runs (finished_at, id) WHERE result = 'complete';
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.archive_runs TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.archive_runs TO dlq_ro;
    END IF;
END;
$$;
