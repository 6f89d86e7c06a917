DROP TABLE dlq.console_drafts;
