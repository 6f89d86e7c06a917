-- dlq-db: redrives. A selection is stored as batches of message ids, not as a row
-- a message: a batch is what a process leases, and its row is written once when
-- it is made and once when it is done.

CREATE TABLE dlq.redrives (
    id            UUID        PRIMARY KEY,
    action        TEXT        NOT NULL CONSTRAINT chk_redrives_action CHECK (action IN ('retry', 'requeue', 'dead', 'delete')),
    state         TEXT        NOT NULL CONSTRAINT chk_redrives_state
                  CHECK (state IN ('canary', 'running', 'paused', 'stopped', 'cancelled', 'finished')),
    note          TEXT        NOT NULL DEFAULT '',
    actor         TEXT        NOT NULL,
    reason        TEXT,
    request_id    TEXT,
    trace_id      TEXT,
    operation_id  UUID,
    selection     JSONB       NOT NULL, -- as it was asked for; ids are only counted
    options       JSONB       NOT NULL,
    created_at    TIMESTAMPTZ NOT NULL,
    updated_at    TIMESTAMPTZ NOT NULL,
    ended_at      TIMESTAMPTZ,
    selected      INT         NOT NULL,
    left_out      JSONB       NOT NULL, -- reason: messages that were skipped at once
    canary_passed BOOLEAN     NOT NULL,
    ordered       BOOLEAN     NOT NULL, -- batch after batch, one process at a time
    rate          DOUBLE PRECISION,     -- messages a second
    next_batch_at TIMESTAMPTZ,          -- when the rate allows another batch
    waiting_since TIMESTAMPTZ,
    -- What the shares of failures and returns no longer count, since a resume.
    forgiven_sent     INT NOT NULL DEFAULT 0,
    forgiven_failed   INT NOT NULL DEFAULT 0,
    forgiven_returned INT NOT NULL DEFAULT 0
);

CREATE INDEX idx_redrives_created_at ON dlq.redrives (created_at, id);
CREATE INDEX idx_redrives_active ON dlq.redrives (created_at, id) WHERE state IN ('canary', 'running');

CREATE TABLE dlq.redrive_batches (
    redrive_id       UUID    NOT NULL REFERENCES dlq.redrives (id) ON DELETE CASCADE,
    batch_no         INT     NOT NULL,
    first_item       INT     NOT NULL,
    canary           BOOLEAN NOT NULL,
    message_ids      UUID[]  NOT NULL,
    done             BOOLEAN NOT NULL DEFAULT false,
    owner            UUID,
    lease_expires_at TIMESTAMPTZ,
    -- One element a message: a number of the result, why, which of places it was
    -- sent to, and the offset there.
    results          SMALLINT[],
    reasons          TEXT[],
    place            SMALLINT[],
    offsets          BIGINT[],
    places           JSONB, -- [{topic, topic_id, partition, group}]
    succeeded        INT     NOT NULL DEFAULT 0,
    failed           INT     NOT NULL DEFAULT 0, -- dead of them
    dead             INT     NOT NULL DEFAULT 0,
    in_doubt         INT     NOT NULL DEFAULT 0,
    skipped          INT     NOT NULL DEFAULT 0,
    -- How many of the failed and skipped ones have which of reasons: what a look at
    -- the whole redrive sums up.
    reason_counts    JSONB,
    PRIMARY KEY (redrive_id, batch_no)
) WITH (fillfactor = 50);

-- Ids are as good as random: to compress them is work for nothing, and out of line
-- they are not copied when the rest of the row changes.
ALTER TABLE dlq.redrive_batches ALTER COLUMN message_ids SET STORAGE EXTERNAL;

-- What somebody has in hand, or died with.
CREATE INDEX idx_redrive_batches_held ON dlq.redrive_batches (redrive_id, batch_no) WHERE owner IS NOT NULL;
CREATE INDEX idx_redrive_batches_open ON dlq.redrive_batches (redrive_id, batch_no) WHERE NOT done;

ALTER TABLE dlq.dlq_messages ADD COLUMN claim_redrive_id UUID;
ALTER TABLE dlq.dlq_messages_archive ADD COLUMN claim_redrive_id UUID;

ALTER TABLE dlq.attempts
    ADD COLUMN redrive_id      UUID,
    ADD COLUMN verdict         SMALLINT,
    ADD COLUMN target_topic_id TEXT;

-- A failed message waits for its next automatic attempt here; one that was never
-- attempted has no such time and is not in it, so that arrivals cost nothing. By
-- topic, because those that nobody retries stay in it, however many they are.
CREATE INDEX idx_dlq_messages_due ON dlq.dlq_messages (original_topic, next_attempt_at)
    WHERE status = 'PENDING' AND next_attempt_at IS NOT NULL;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.redrives, dlq.redrive_batches TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.redrives, dlq.redrive_batches TO dlq_ro;
    END IF;
END;
$$;
