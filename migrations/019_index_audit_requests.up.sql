-- migrate:no-transaction
-- The last entries of a request_id are found without reading the others.
CREATE INDEX CONCURRENTLY idx_audit_request_id ON dlq.audit (request_id, id) WHERE request_id IS NOT NULL;
