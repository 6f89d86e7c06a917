-- dlq-db: redrives of archived messages.

SET LOCAL lock_timeout = '5s'; -- see 004

-- The actions archived_... first restore each message from the archive; archived_delete erases it.
ALTER TABLE dlq.redrives DROP CONSTRAINT chk_redrives_action, ADD CONSTRAINT chk_redrives_action
    CHECK (action IN ('retry', 'retry_patched', 'requeue', 'dead', 'delete', 'map',
        'archived_retry', 'archived_restore', 'archived_dead', 'archived_delete'));
