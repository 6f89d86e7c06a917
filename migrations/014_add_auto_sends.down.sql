DROP TABLE dlq.auto_sends, dlq.auto_topics;
