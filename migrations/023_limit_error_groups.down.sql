DROP FUNCTION dlq.admit_error_groups(TEXT[], UUID[], TEXT[], TEXT[], TEXT[], TEXT[], INT, TIMESTAMPTZ);
DROP TABLE dlq.error_group_limits;
