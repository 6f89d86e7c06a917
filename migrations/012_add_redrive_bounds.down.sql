DROP TABLE dlq.redrive_topics;

ALTER TABLE dlq.redrive_batches DROP COLUMN topic, DROP COLUMN admitted, DROP COLUMN settled;

-- A redrive that has not ended would go on without its bound.
UPDATE dlq.redrives SET state = 'cancelled', ended_at = now(), waiting_since = NULL, note = 'the schema went back to a version without bounds'
WHERE action IN ('retry_bounded', 'archived_retry_bounded') AND state NOT IN ('cancelled', 'finished');
UPDATE dlq.redrives SET action = replace(action, '_bounded', '') WHERE action LIKE '%\_bounded';

ALTER TABLE dlq.redrives DROP CONSTRAINT chk_redrives_action, ADD CONSTRAINT chk_redrives_action
    CHECK (action IN ('retry', 'retry_patched', 'requeue', 'dead', 'delete', 'map',
        'archived_retry', 'archived_restore', 'archived_dead', 'archived_delete'));
