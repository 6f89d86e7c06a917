-- migrate:no-transaction
-- A request may have a million entries: its first one is found without reading the others.
CREATE INDEX CONCURRENTLY idx_audit_call ON dlq.audit (call_id, id) WHERE call_id IS NOT NULL;
