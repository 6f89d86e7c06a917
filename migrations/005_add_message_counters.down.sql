DROP TRIGGER trg_dlq_messages_count_truncate ON dlq.dlq_messages;
DROP TRIGGER trg_dlq_messages_count_update ON dlq.dlq_messages;
DROP TRIGGER trg_dlq_messages_count_delete ON dlq.dlq_messages;
DROP TRIGGER trg_dlq_messages_count_insert ON dlq.dlq_messages;
DROP FUNCTION dlq.count_truncated_messages();
DROP FUNCTION dlq.count_updated_messages();
DROP FUNCTION dlq.count_deleted_messages();
DROP FUNCTION dlq.count_inserted_messages();
DROP TABLE dlq.message_counters;
