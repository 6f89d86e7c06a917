-- dlq-db: redrives, answers to repeated requests, and what happened to records that were sent back.

-- A selection is stored as batches of message ids, not as a row a message: a batch is what a process leases, and its
-- row is written once when it is made and once when it is done.
CREATE TABLE dlq.redrives (
    id            UUID        PRIMARY KEY,
    -- retry_patched is a retry whose records are changed by a JSON Patch.
    action        TEXT        NOT NULL CONSTRAINT chk_redrives_action
                  CHECK (action IN ('retry', 'retry_patched', 'requeue', 'dead', 'delete', 'map')),
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
-- A user who may see only some topics lists his own redrives.
CREATE INDEX idx_redrives_actor ON dlq.redrives (actor, created_at, id);

CREATE TABLE dlq.redrive_batches (
    redrive_id       UUID    NOT NULL REFERENCES dlq.redrives (id) ON DELETE CASCADE,
    batch_no         INT     NOT NULL,
    first_item       INT     NOT NULL,
    canary           BOOLEAN NOT NULL,
    message_ids      UUID[]  NOT NULL,
    done             BOOLEAN NOT NULL DEFAULT false,
    owner            UUID,
    lease_expires_at TIMESTAMPTZ,
    -- One element a message: a number of the result, why, which of targets it was sent to, and the offset there.
    results          SMALLINT[],
    reasons          TEXT[],
    target           SMALLINT[],
    offsets          BIGINT[],
    targets          JSONB, -- [{topic, topic_id, partition, group}]
    succeeded        INT     NOT NULL DEFAULT 0,
    failed           INT     NOT NULL DEFAULT 0, -- dead of them
    dead             INT     NOT NULL DEFAULT 0,
    in_doubt         INT     NOT NULL DEFAULT 0,
    skipped          INT     NOT NULL DEFAULT 0,
    -- How many of the failed and skipped ones have which of reasons: the sums of the whole redrive are made of it.
    reason_counts    JSONB,
    PRIMARY KEY (redrive_id, batch_no)
) WITH (fillfactor = 50);
-- Ids are as good as random: to compress them is work for nothing, and out of line they are not copied when the rest
-- of the row changes.
ALTER TABLE dlq.redrive_batches ALTER COLUMN message_ids SET STORAGE EXTERNAL;
-- Leased batches, also of processes that died.
CREATE INDEX idx_redrive_batches_held ON dlq.redrive_batches (redrive_id, batch_no) WHERE owner IS NOT NULL;
CREATE INDEX idx_redrive_batches_open ON dlq.redrive_batches (redrive_id, batch_no) WHERE NOT done;

-- Answers to requests with an Idempotency-Key.
CREATE TABLE dlq.idempotency_keys (
    principal        TEXT        NOT NULL,
    key              TEXT        NOT NULL,
    request          BYTEA       NOT NULL, -- digest of method, path and body
    operation_id     UUID        NOT NULL, -- of the work that it began
    owner            UUID        NOT NULL, -- the process at work
    lease_expires_at TIMESTAMPTZ NOT NULL,
    status           INT,                  -- NULL while a process is at work
    location         TEXT,
    body             BYTEA,
    created_at       TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (principal, key)
);
CREATE INDEX idx_idempotency_keys_created_at ON dlq.idempotency_keys (created_at);

-- Attempts whose record failed again and came back. The key makes sure that only one message is known as an attempt's
-- return.
CREATE TABLE dlq.returns (
    attempt_id  UUID        PRIMARY KEY,
    parent_id   UUID        NOT NULL,
    child_id    UUID        NOT NULL,
    redrive_id  UUID,
    by_content  BOOLEAN     NOT NULL, -- known by key and value, not by headers
    returned_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX idx_returns_redrive ON dlq.returns (redrive_id, parent_id) WHERE redrive_id IS NOT NULL;

-- Returns that arrive in a dead-letter topic that has nothing to do with their parent's. They inherit their attempt's
-- count and change no outcome.
CREATE TABLE dlq.unconfirmed_returns (
    child_id    UUID        PRIMARY KEY,
    attempt_id  UUID        NOT NULL,
    parent_id   UUID        NOT NULL,
    by_content  BOOLEAN     NOT NULL, -- known by key and value, not by headers
    returned_at TIMESTAMPTZ NOT NULL
);
-- As with dlq.returns, only one message is known by content as an attempt's return.
CREATE UNIQUE INDEX idx_unconfirmed_returns_content ON dlq.unconfirmed_returns (attempt_id) WHERE by_content;

-- Which consumer groups failed on records of a topic, and which group an operator named for topics whose records name
-- none; a group may be both.
CREATE TABLE dlq.topic_groups (
    topic          TEXT    NOT NULL,
    consumer_group TEXT    NOT NULL,
    noted          BOOLEAN NOT NULL DEFAULT false,
    configured     BOOLEAN NOT NULL DEFAULT false,
    PRIMARY KEY (topic, consumer_group)
);

-- How far the groups have come, a row a partition: a record below that offset has been consumed. A topic that was
-- created again is another row.
CREATE TABLE dlq.committed_offsets (
    consumer_group TEXT        NOT NULL,
    topic          TEXT        NOT NULL,
    topic_id       TEXT        NOT NULL,
    partition      INT         NOT NULL,
    committed      BIGINT      NOT NULL,
    seen_at        TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (consumer_group, topic, topic_id, partition)
) WITH (fillfactor = 50);

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.redrives, dlq.redrive_batches, dlq.idempotency_keys,
            dlq.returns, dlq.unconfirmed_returns, dlq.topic_groups, dlq.committed_offsets TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.redrives, dlq.redrive_batches, dlq.idempotency_keys,
            dlq.returns, dlq.unconfirmed_returns, dlq.topic_groups, dlq.committed_offsets TO dlq_ro;
    END IF;
END $$;
