DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        REVOKE UPDATE (key, value, headers) ON dlq.records FROM dlq_rw;
        REVOKE INSERT ON dlq.late_messages FROM dlq_rw;
    END IF;
END $$;
DROP TABLE dlq.share_records;
