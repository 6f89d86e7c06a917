SET LOCAL lock_timeout = '5s';

DROP TRIGGER trg_dlq_messages_count_truncate ON dlq.dlq_messages;
DROP TRIGGER trg_dlq_messages_count_update ON dlq.dlq_messages;
DROP TRIGGER trg_dlq_messages_count_delete ON dlq.dlq_messages;
DROP TRIGGER trg_dlq_messages_count_insert ON dlq.dlq_messages;
DROP FUNCTION dlq.count_truncated_messages(), dlq.count_updated_messages(), dlq.count_deleted_messages(),
    dlq.count_inserted_messages(), dlq.purge_arrivals(INT, INT),
    dlq.count_arrivals(UUID[], TEXT[], TIMESTAMPTZ[], BIGINT[], BIGINT[], TIMESTAMPTZ[], TIMESTAMPTZ[]);
DROP TABLE dlq.group_arrivals, dlq.group_counters, dlq.message_counters;
