-- migrate:no-transaction
-- What people did, without the messages of their redrives. Attempts are not in it, so they cost nothing.
CREATE INDEX CONCURRENTLY idx_audit_people ON dlq.audit (id) WHERE redrive_id IS NULL
    AND action NOT IN ('attempt', 'pass', 'stop', 'finish') AND actor NOT IN ('settler', 'auto', 'ingest', 'heartbeat');
