DROP TABLE dlq.idempotency_keys;
