DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        REVOKE INSERT ON dlq.records FROM dlq_rw;
    END IF;
END;
$$;
