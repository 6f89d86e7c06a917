DROP TABLE dlq.repeats, dlq.recent_records;
