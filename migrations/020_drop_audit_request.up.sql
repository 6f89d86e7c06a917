-- migrate:no-transaction
DROP INDEX CONCURRENTLY dlq.idx_audit_request; -- 019 has its replacement
