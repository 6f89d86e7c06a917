-- dlq-db: the arrivals of messages over time, and notifications.

-- How many messages of each original topic arrived, and how many of these are returns: by the minute, by five minutes
-- and by the hour, in UTC, in which they were stored. The statement that stores the first document of a message counts
-- the message here. So sessions that store messages do not wait, and no message is counted twice when all documents are
-- made again. A message that is deleted, archived or given another topic stays counted as it was. Old rows are deleted:
-- those of one minute after a day, those of five minutes after hours, those of hours after days.
CREATE TABLE dlq.activity (
    original_topic TEXT        NOT NULL,
    minutes        SMALLINT    NOT NULL CHECK (minutes IN (1, 5, 60)),
    at             TIMESTAMPTZ NOT NULL,
    arrived        BIGINT      NOT NULL,
    returned       BIGINT      NOT NULL,
    PRIMARY KEY (original_topic, minutes, at)
) WITH (fillfactor = 50);
CREATE INDEX idx_activity_at ON dlq.activity (minutes, at);

-- How many messages of each error group arrived, by the minute. The statement that stores the first document of a
-- message counts the message here, as in dlq.activity. The same statement deletes rows after a day.
CREATE TABLE dlq.group_minutes (
    group_id       UUID        NOT NULL,
    at             TIMESTAMPTZ NOT NULL, -- beginning of the minute
    original_topic TEXT        NOT NULL,
    messages       BIGINT      NOT NULL,
    PRIMARY KEY (group_id, at, original_topic)
) WITH (fillfactor = 50);
CREATE INDEX idx_group_minutes_at ON dlq.group_minutes (at);

-- Up to where events were found: one row. Each change increases version, so that when two processes have searched at
-- the same time, only one of them can store its result.
CREATE TABLE dlq.notification_state (
    one        BOOLEAN     PRIMARY KEY DEFAULT true CHECK (one),
    version    BIGINT      NOT NULL DEFAULT 0,
    mark_xid   XID8        NOT NULL DEFAULT '0',
    mark_id    BIGINT      NOT NULL DEFAULT 0,
    began_at   TIMESTAMPTZ, -- no notification is made of events before this time
    watched_at TIMESTAMPTZ
) WITH (fillfactor = 50);
INSERT INTO dlq.notification_state DEFAULT VALUES;

-- The notifications. While a notification is open, further events of the same kind are added to it. The first try to
-- send it closes it, because a sink that gets it twice must get the same content.
CREATE TABLE dlq.notifications (
    id               UUID        PRIMARY KEY,
    sink             TEXT        NOT NULL,
    kind             TEXT        NOT NULL,
    object           TEXT        NOT NULL, -- id of an error group or a redrive, or name of a topic
    topics           TEXT[]      NOT NULL,
    events           BIGINT      NOT NULL,
    first_at         TIMESTAMPTZ NOT NULL,
    last_at          TIMESTAMPTZ NOT NULL,
    message_ids      UUID[]      NOT NULL, -- some of the messages
    detail           JSONB       NOT NULL,
    created_at       TIMESTAMPTZ NOT NULL,
    ready_at         TIMESTAMPTZ NOT NULL, -- when the notification should first be sent
    due_at           TIMESTAMPTZ NOT NULL, -- when the notification should be sent next
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

-- When the next notification may be sent to each sink, by any process.
CREATE TABLE dlq.notification_sinks (
    sink    TEXT        PRIMARY KEY,
    next_at TIMESTAMPTZ NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

-- Topics with a spike, and when the spike was last seen.
CREATE TABLE dlq.notification_spikes (
    original_topic TEXT        PRIMARY KEY,
    seen_at        TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 50);

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT, UPDATE ON dlq.notification_state TO dlq_rw;
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.activity, dlq.group_minutes, dlq.notifications,
            dlq.notification_sinks, dlq.notification_spikes TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.activity, dlq.group_minutes, dlq.notification_state, dlq.notifications,
            dlq.notification_sinks, dlq.notification_spikes TO dlq_ro;
    END IF;
END $$;
