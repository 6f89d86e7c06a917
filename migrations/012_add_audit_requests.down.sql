SET LOCAL lock_timeout = '5s'; -- see 004

ALTER TABLE dlq.redrives DROP COLUMN call_id;
ALTER TABLE dlq.audit DROP COLUMN call_id, DROP COLUMN redrive_id;
