DROP TABLE dlq.views;
