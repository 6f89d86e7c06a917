SET LOCAL lock_timeout = '5s';

DROP TABLE dlq.revoked_sessions;
DROP TABLE dlq.signing_keys;
