-- dlq-db: no redrives of archived messages. Those that exist are cancelled, so that earlier programs do not take them
-- for redrives of live messages.

SET LOCAL lock_timeout = '5s'; -- see 004
UPDATE dlq.redrives SET
    action = CASE action WHEN 'archived_restore' THEN 'requeue' ELSE substr(action, length('archived_') + 1) END,
    state = CASE WHEN state = 'finished' THEN state ELSE 'cancelled' END, ended_at = coalesce(ended_at, now())
WHERE starts_with(action, 'archived_');
ALTER TABLE dlq.redrives DROP CONSTRAINT chk_redrives_action, ADD CONSTRAINT chk_redrives_action
    CHECK (action IN ('retry', 'retry_patched', 'requeue', 'dead', 'delete', 'map'));
