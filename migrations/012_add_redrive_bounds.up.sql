-- dlq-db: how many records of a redrive may be in a topic while their outcomes are not known.

-- retry_bounded is a retry whose sent messages are bounded. An earlier version of the program, which would not keep the
-- bound, does not know the name and sends nothing for such a redrive.
ALTER TABLE dlq.redrives DROP CONSTRAINT chk_redrives_action, ADD CONSTRAINT chk_redrives_action
    CHECK (action IN ('retry', 'retry_patched', 'retry_bounded', 'requeue', 'dead', 'delete', 'map',
        'archived_retry', 'archived_retry_bounded', 'archived_restore', 'archived_dead', 'archived_delete'));

ALTER TABLE dlq.redrive_batches
    ADD COLUMN topic    TEXT,  -- original topic of all messages of the batch; NULL: of several topics, or not noted
    ADD COLUMN admitted JSONB, -- {target topic: number}: messages that the owner may send, beside those with a result
    ADD COLUMN settled  JSONB; -- {target topic: number}: sent messages, once the outcomes of all of them are known

-- The bounds of a redrive, one row for each target topic. admitted - known - presumed messages were sent, or may be
-- sent at any moment, and their outcomes are not known; a process may send more only up to the bound. A batch that is
-- saved gives back what it was admitted and has not sent.
CREATE TABLE dlq.redrive_topics (
    redrive_id  UUID        NOT NULL REFERENCES dlq.redrives (id) ON DELETE CASCADE,
    topic       TEXT        NOT NULL, -- target topic
    bound       INT         NOT NULL,
    admitted    INT         NOT NULL,
    granted     INT         NOT NULL, -- what the last admission allowed
    admitted_at TIMESTAMPTZ NOT NULL, -- the last admission that allowed something
    known       INT         NOT NULL DEFAULT 0, -- messages whose outcome is known for long enough
    seen        INT         NOT NULL DEFAULT 0, -- messages whose outcome was known at seen_at
    seen_at     TIMESTAMPTZ,
    presumed    INT         NOT NULL DEFAULT 0, -- messages whose outcome cannot be known, and that did not come back in time
    counted     INT         NOT NULL DEFAULT 0, -- known + presumed when the bound last changed
    looks       INT         NOT NULL DEFAULT 0, -- how often messages were presumed
    lifted      TEXT, -- why the topic is no longer bounded; NULL: it is
    PRIMARY KEY (redrive_id, topic)
) WITH (fillfactor = 50);

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.redrive_topics TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.redrive_topics TO dlq_ro;
    END IF;
END $$;
