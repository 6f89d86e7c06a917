-- migrate:no-transaction
DROP INDEX CONCURRENTLY dlq.idx_audit_request_id;
