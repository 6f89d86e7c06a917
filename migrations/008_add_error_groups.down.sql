DROP FUNCTION dlq.purge_groups(INT, INT),
    dlq.admit_error_groups(TEXT[], UUID[], TEXT[], TEXT[], TEXT[], TEXT[], INT, TIMESTAMPTZ);
DROP TABLE dlq.error_group_limits, dlq.group_annotations, dlq.error_groups;
