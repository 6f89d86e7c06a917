-- migrate:no-transaction
CREATE INDEX CONCURRENTLY idx_audit_request ON dlq.audit (request_id) WHERE request_id IS NOT NULL;
