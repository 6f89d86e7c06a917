-- dlq-db: redrives, redirects, idempotency keys, and the outcomes of records that were sent.

-- A selection is stored as batches of message ids, not with one row for each message. A process leases a batch, and the
-- row of the batch is written once when it is created and once when it is done.
CREATE TABLE dlq.redrives (
    id            UUID        PRIMARY KEY,
    -- retry_patched is a retry that changes records with a JSON Patch. The actions archived_... first restore each
    -- message from the archive; archived_delete erases it.
    action        TEXT        NOT NULL CONSTRAINT chk_redrives_action
                  CHECK (action IN ('retry', 'retry_patched', 'requeue', 'dead', 'delete', 'map',
                      'archived_retry', 'archived_restore', 'archived_dead', 'archived_delete')),
    state         TEXT        NOT NULL CONSTRAINT chk_redrives_state
                  CHECK (state IN ('canary', 'running', 'paused', 'stopped', 'cancelled', 'finished')),
    note          TEXT        NOT NULL DEFAULT '',
    actor         TEXT        NOT NULL,
    reason        TEXT,
    request_id    TEXT,
    trace_id      TEXT,
    operation_id  UUID,
    selection     JSONB       NOT NULL, -- as it was requested; of ids only their number
    options       JSONB       NOT NULL,
    created_at    TIMESTAMPTZ NOT NULL,
    updated_at    TIMESTAMPTZ NOT NULL,
    ended_at      TIMESTAMPTZ,
    selected      INT         NOT NULL,
    left_out      JSONB       NOT NULL, -- number of messages that were skipped when the redrive was created, by reason
    canary_passed BOOLEAN     NOT NULL,
    ordered       BOOLEAN     NOT NULL, -- one batch after the other, one process at a time
    rate          DOUBLE PRECISION,     -- messages a second
    next_batch_at TIMESTAMPTZ,          -- when the rate allows the next batch
    waiting_since TIMESTAMPTZ,
    -- The counts at the last resume, which the shares of failures and returns leave out.
    forgiven_sent     INT NOT NULL DEFAULT 0,
    forgiven_failed   INT NOT NULL DEFAULT 0,
    forgiven_returned INT NOT NULL DEFAULT 0,
    call_id       UUID                  -- see dlq.audit
);
CREATE INDEX idx_redrives_created_at ON dlq.redrives (created_at, id);
CREATE INDEX idx_redrives_active ON dlq.redrives (created_at, id) WHERE state IN ('canary', 'running');
-- A user who may see only some topics sees only the redrives that this user created.
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
    -- Arrays with one element for each message: the number of its result, the reason, the index of its target in
    -- targets, and the offset of its record there.
    results          SMALLINT[],
    reasons          TEXT[],
    target           SMALLINT[],
    offsets          BIGINT[],
    targets          JSONB, -- [{topic, topic_id, partition, group}]
    succeeded        INT     NOT NULL DEFAULT 0,
    failed           INT     NOT NULL DEFAULT 0, -- including dead
    dead             INT     NOT NULL DEFAULT 0,
    in_doubt         INT     NOT NULL DEFAULT 0,
    skipped          INT     NOT NULL DEFAULT 0,
    -- How many failed and skipped messages have which reason. The counts of the whole redrive are the sums of these.
    reason_counts    JSONB,
    PRIMARY KEY (redrive_id, batch_no)
) WITH (fillfactor = 50);
-- Ids are nearly random, so compressing them saves nothing. Stored out of line, they are not copied when the rest of
-- the row changes.
ALTER TABLE dlq.redrive_batches ALTER COLUMN message_ids SET STORAGE EXTERNAL;
-- Batches that are leased, including those whose process died.
CREATE INDEX idx_redrive_batches_held ON dlq.redrive_batches (redrive_id, batch_no) WHERE owner IS NOT NULL;
CREATE INDEX idx_redrive_batches_open ON dlq.redrive_batches (redrive_id, batch_no) WHERE NOT done;

-- Redirects: original topics whose replays are sent to another topic. The versions of all redirects come from one
-- sequence, so that a redirect that is deleted and created again gets another version.
CREATE SEQUENCE dlq.redirect_versions;
CREATE TABLE dlq.redirects (
    topic      TEXT        PRIMARY KEY, -- original topic
    target     TEXT        NOT NULL CONSTRAINT chk_redirects_target CHECK (target <> topic),
    version    BIGINT      NOT NULL DEFAULT nextval('dlq.redirect_versions'),
    reason     TEXT,
    updated_at TIMESTAMPTZ NOT NULL,
    updated_by TEXT        NOT NULL
);

-- The stored answers to requests with an Idempotency-Key.
CREATE TABLE dlq.idempotency_keys (
    principal        TEXT        NOT NULL,
    key              TEXT        NOT NULL,
    request          BYTEA       NOT NULL, -- digest of method, path and body
    operation_id     UUID        NOT NULL, -- identifies the work that the request began
    owner            UUID        NOT NULL, -- the process that works on the request
    lease_expires_at TIMESTAMPTZ NOT NULL,
    status           INT,                  -- NULL while a process works on the request
    location         TEXT,
    body             BYTEA,
    created_at       TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (principal, key)
);
CREATE INDEX idx_idempotency_keys_created_at ON dlq.idempotency_keys (created_at);

-- Attempts whose record failed again and came back. With this primary key, an attempt has only one row, however many
-- messages name it as their attempt.
CREATE TABLE dlq.returns (
    attempt_id  UUID        PRIMARY KEY,
    parent_id   UUID        NOT NULL,
    child_id    UUID        NOT NULL,
    redrive_id  UUID,
    by_content  BOOLEAN     NOT NULL, -- recognised by key and value, not by headers
    returned_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX idx_returns_redrive ON dlq.returns (redrive_id, parent_id) WHERE redrive_id IS NOT NULL;

-- Unconfirmed returns: they arrived in a dead-letter topic that is neither that of their parent nor declared for the
-- topic of the attempt. They continue the retry count of the attempt, but change no outcome.
CREATE TABLE dlq.unconfirmed_returns (
    child_id    UUID        PRIMARY KEY,
    attempt_id  UUID        NOT NULL,
    parent_id   UUID        NOT NULL,
    by_content  BOOLEAN     NOT NULL, -- recognised by key and value, not by headers
    returned_at TIMESTAMPTZ NOT NULL
);
-- Only one message can be recognised by its content as the return of an attempt, as in dlq.returns.
CREATE UNIQUE INDEX idx_unconfirmed_returns_content ON dlq.unconfirmed_returns (attempt_id) WHERE by_content;

-- The consumer groups that failed on records of a topic (noted), and those that the configuration names for topics
-- whose records name none (configured). A consumer group may be both.
CREATE TABLE dlq.topic_groups (
    topic          TEXT    NOT NULL,
    consumer_group TEXT    NOT NULL,
    noted          BOOLEAN NOT NULL DEFAULT false,
    configured     BOOLEAN NOT NULL DEFAULT false,
    PRIMARY KEY (topic, consumer_group)
);

-- The committed offset of each consumer group and partition: records with a lower offset were consumed. A topic that
-- was created again has another topic_id, and so another row.
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
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.redrives, dlq.redrive_batches, dlq.redirects,
            dlq.idempotency_keys, dlq.returns, dlq.unconfirmed_returns, dlq.topic_groups, dlq.committed_offsets TO dlq_rw;
        GRANT USAGE ON SEQUENCE dlq.redirect_versions TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.redrives, dlq.redrive_batches, dlq.redirects,
            dlq.idempotency_keys, dlq.returns, dlq.unconfirmed_returns, dlq.topic_groups, dlq.committed_offsets TO dlq_ro;
    END IF;
END $$;
