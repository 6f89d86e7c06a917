-- migrate:no-transaction
DROP INDEX CONCURRENTLY dlq.idx_audit_call;
