SET LOCAL lock_timeout = '5s';

DROP TABLE dlq.quarantine;
