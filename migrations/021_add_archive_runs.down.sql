SET LOCAL lock_timeout = '5s';

DROP INDEX dlq.idx_error_groups_regressed_at;
DROP TABLE dlq.archive_runs;
