DROP INDEX dlq.idx_dlq_messages_due;
ALTER TABLE dlq.attempts DROP COLUMN target_topic_id, DROP COLUMN verdict, DROP COLUMN redrive_id;
ALTER TABLE dlq.dlq_messages_archive DROP COLUMN claim_redrive_id;
ALTER TABLE dlq.dlq_messages DROP COLUMN claim_redrive_id;
DROP TABLE dlq.redrive_batches;
DROP TABLE dlq.redrives;
