DROP TABLE dlq.committed_offsets, dlq.topic_groups, dlq.unconfirmed_returns, dlq.returns, dlq.idempotency_keys,
    dlq.redirects, dlq.redrive_batches, dlq.redrives;
DROP SEQUENCE dlq.redirect_versions;
