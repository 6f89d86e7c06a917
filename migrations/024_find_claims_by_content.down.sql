-- migrate:one-by-one

DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_dlq_messages_claimed_hash;

DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_edits_record_hash;
