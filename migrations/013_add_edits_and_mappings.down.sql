SET LOCAL lock_timeout = '5s';

DROP INDEX dlq.idx_redrives_actor;

-- The schema before cannot hold redrives that map or patch; the messages keep the
-- topics that they were given.
DELETE FROM dlq.redrives WHERE action IN ('map', 'retry_patched');
ALTER TABLE dlq.redrives DROP CONSTRAINT chk_redrives_action,
    ADD CONSTRAINT chk_redrives_action CHECK (action IN ('retry', 'requeue', 'dead', 'delete'));

DROP TABLE dlq.topic_mapping;
DROP TABLE dlq.edits;
