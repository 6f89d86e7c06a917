DROP TABLE dlq.undecoded_messages;
