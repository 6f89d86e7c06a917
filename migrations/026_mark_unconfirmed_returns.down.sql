SET LOCAL lock_timeout = '5s';

DROP TABLE dlq.unconfirmed_returns;
