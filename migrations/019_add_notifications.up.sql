-- migrate:one-by-one
-- dlq-db: what people are told of, and where that stands.

-- The audit trail is the list of what happened. Its ids are given before their
-- transactions end, so a reader that remembers the highest id would miss what comes
-- below it later. It remembers a transaction instead: once all before that are over,
-- nothing of theirs can appear any more. What is in the trail already was before
-- anybody asked. And groups say whether they were told of: those that are known by
-- now count as told.
DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    ALTER TABLE dlq.audit ADD COLUMN IF NOT EXISTS xid XID8;
    ALTER TABLE dlq.audit ALTER COLUMN xid SET DEFAULT pg_current_xact_id();
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'dlq.error_groups'::regclass AND attname = 'told_new') THEN
        ALTER TABLE dlq.error_groups ADD COLUMN told_new BOOLEAN NOT NULL DEFAULT true, ADD COLUMN told_regressed_at TIMESTAMPTZ;
        ALTER TABLE dlq.error_groups ALTER COLUMN told_new SET DEFAULT false;
        UPDATE dlq.error_groups SET told_regressed_at = regressed_at WHERE regressed_at IS NOT NULL;
    END IF;
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('dlq.idx_audit_told') AND NOT indisvalid) THEN
        DROP INDEX dlq.idx_audit_told; -- what an interrupted build left
    END IF;
END;
$$;

-- Only what somebody may be told of is in it: other entries cost nothing.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_audit_told
    ON dlq.audit (xid, id) WHERE xid IS NOT NULL AND to_state IN ('DEAD', 'stopped', 'finished');

CREATE INDEX IF NOT EXISTS idx_error_groups_untold ON dlq.error_groups (id)
    WHERE first_seen IS NOT NULL AND (NOT told_new OR told_regressed_at IS DISTINCT FROM regressed_at);

-- migrate:with-version
DO $$
BEGIN
    -- How far somebody has looked: one row. version counts up with every change, so
    -- that of two who looked at once only one goes on.
    CREATE TABLE dlq.notice_state (
        one        BOOLEAN     PRIMARY KEY DEFAULT true CHECK (one),
        version    BIGINT      NOT NULL DEFAULT 0,
        mark_xid   XID8        NOT NULL DEFAULT '0',
        mark_id    BIGINT      NOT NULL DEFAULT 0,
        began_at   TIMESTAMPTZ, -- what happened before is nobody's news
        watched_at TIMESTAMPTZ
    ) WITH (fillfactor = 50);
    INSERT INTO dlq.notice_state DEFAULT VALUES;
    --
    -- What is to be said to whom. As long as it is open, more of the same is added to
    -- it; the first try closes it, since whoever gets it twice must get the same.
    CREATE TABLE dlq.notices (
        id               UUID        PRIMARY KEY,
        sink             TEXT        NOT NULL,
        kind             TEXT        NOT NULL,
        object           TEXT        NOT NULL, -- id of a group or a redrive, or name of a topic
        topics           TEXT[]      NOT NULL,
        events           BIGINT      NOT NULL,
        first_at         TIMESTAMPTZ NOT NULL,
        last_at          TIMESTAMPTZ NOT NULL,
        message_ids      UUID[]      NOT NULL, -- some of them
        detail           JSONB       NOT NULL,
        created_at       TIMESTAMPTZ NOT NULL,
        ready_at         TIMESTAMPTZ NOT NULL, -- when it was to be sent first
        due_at           TIMESTAMPTZ NOT NULL, -- when it is to be sent next
        open             BOOLEAN     NOT NULL DEFAULT true,
        attempts         INT         NOT NULL DEFAULT 0,
        taken_at         TIMESTAMPTZ,
        claim_id         UUID,
        claim_expires_at TIMESTAMPTZ,
        last_error       TEXT        NOT NULL DEFAULT '',
        ended_at         TIMESTAMPTZ,
        sent             BOOLEAN     NOT NULL DEFAULT false
    ) WITH (fillfactor = 50);
    CREATE UNIQUE INDEX idx_notices_open ON dlq.notices (sink, kind, object) WHERE open;
    CREATE INDEX idx_notices_due ON dlq.notices (sink, due_at, id) WHERE ended_at IS NULL;
    CREATE INDEX idx_notices_taken ON dlq.notices (sink, kind, object, taken_at) WHERE taken_at IS NOT NULL;
    CREATE INDEX idx_notices_ended ON dlq.notices (ended_at) WHERE ended_at IS NOT NULL;
    --
    -- When something may be sent to a sink again, by whichever process.
    CREATE TABLE dlq.notice_sinks (
        sink    TEXT        PRIMARY KEY,
        next_at TIMESTAMPTZ NOT NULL DEFAULT '-infinity'
    ) WITH (fillfactor = 50);
    --
    -- Topics of which much came, and when that was seen last.
    CREATE TABLE dlq.notice_spikes (
        original_topic TEXT        PRIMARY KEY,
        seen_at        TIMESTAMPTZ NOT NULL
    ) WITH (fillfactor = 50);
    --
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, UPDATE ON dlq.notice_state TO dlq_rw;
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.notices, dlq.notice_sinks, dlq.notice_spikes TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.notice_state, dlq.notices, dlq.notice_sinks, dlq.notice_spikes TO dlq_ro;
    END IF;
END;
$$;
