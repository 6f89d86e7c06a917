-- dlq-db: how much comes in over time, and notifications.

-- How many messages of each original topic arrived, and how many of them came back from a replay, by the five minutes
-- and by the hour, in UTC, in which they were stored. The statement that stores the first document of a message
-- counts it here: so sessions that store messages do not wait, and nothing is counted twice when all documents are
-- made again. Messages that are deleted, archived or given another topic stay counted where they are. Old rows are
-- deleted, those of five minutes after hours and those of hours after days.
CREATE TABLE dlq.activity (
    original_topic TEXT        NOT NULL,
    minutes        SMALLINT    NOT NULL CHECK (minutes IN (5, 60)),
    at             TIMESTAMPTZ NOT NULL,
    arrived        BIGINT      NOT NULL,
    returned       BIGINT      NOT NULL,
    PRIMARY KEY (original_topic, minutes, at)
) WITH (fillfactor = 50);
CREATE INDEX idx_activity_at ON dlq.activity (minutes, at);

-- How far the search for events is: one row. version counts up with every change, so that of two processes that
-- searched at once only one goes on.
CREATE TABLE dlq.notification_state (
    one        BOOLEAN     PRIMARY KEY DEFAULT true CHECK (one),
    version    BIGINT      NOT NULL DEFAULT 0,
    mark_xid   XID8        NOT NULL DEFAULT '0',
    mark_id    BIGINT      NOT NULL DEFAULT 0,
    began_at   TIMESTAMPTZ, -- no notification is made of earlier events
    watched_at TIMESTAMPTZ
) WITH (fillfactor = 50);
INSERT INTO dlq.notification_state DEFAULT VALUES;

-- The notifications. As long as one is open, more events of its kind are added to it; the first try closes it, since
-- a sink that gets it twice must get the same.
CREATE TABLE dlq.notifications (
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
CREATE UNIQUE INDEX idx_notifications_open ON dlq.notifications (sink, kind, object) WHERE open;
CREATE INDEX idx_notifications_due ON dlq.notifications (sink, due_at, id) WHERE ended_at IS NULL;
CREATE INDEX idx_notifications_taken ON dlq.notifications (sink, kind, object, taken_at) WHERE taken_at IS NOT NULL;
CREATE INDEX idx_notifications_ended ON dlq.notifications (ended_at) WHERE ended_at IS NOT NULL;

-- When any process may send to a sink again.
CREATE TABLE dlq.notification_sinks (
    sink    TEXT        PRIMARY KEY,
    next_at TIMESTAMPTZ NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

-- Topics of which much came, and when that was seen last.
CREATE TABLE dlq.notification_spikes (
    original_topic TEXT        PRIMARY KEY,
    seen_at        TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 50);

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, UPDATE ON dlq.notification_state TO dlq_rw;
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.activity, dlq.notifications, dlq.notification_sinks, dlq.notification_spikes TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.activity, dlq.notification_state, dlq.notifications, dlq.notification_sinks, dlq.notification_spikes TO dlq_ro;
    END IF;
END $$;
