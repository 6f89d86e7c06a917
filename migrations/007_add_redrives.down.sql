DROP TABLE dlq.committed_offsets, dlq.topic_groups, dlq.unconfirmed_returns, dlq.returns, dlq.idempotency_keys,
    dlq.redrive_batches, dlq.redrives;
