DROP TABLE dlq.activity;
