-- dlq-db: roles without login, for the application (dlq_rw) and for reports
-- (dlq_ro) to be granted to; dlq_owner for migrations that change owners. Made
-- only where the migrator may make roles: elsewhere an administrator does it and
-- this step grants what exists. Roles belong to the whole cluster, so another
-- database may have made them already.
DO $$
DECLARE
    v_role TEXT;
BEGIN
    FOREACH v_role IN ARRAY ARRAY['dlq_owner', 'dlq_rw', 'dlq_ro'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', v_role);
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'role % was not made: the migrator may not make roles', v_role;
        END;
    END LOOP;

    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT USAGE ON SCHEMA dlq, dlq_migrations TO dlq_rw;
        GRANT SELECT ON ALL TABLES IN SCHEMA dlq_migrations TO dlq_rw;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dlq TO dlq_rw;
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA dlq TO dlq_rw;
        GRANT EXECUTE ON PROCEDURE dlq.archive_old_dlq_messages(INT, INT) TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT USAGE ON SCHEMA dlq, dlq_migrations TO dlq_ro;
        GRANT SELECT ON ALL TABLES IN SCHEMA dlq_migrations TO dlq_ro;
        GRANT SELECT ON ALL TABLES IN SCHEMA dlq TO dlq_ro;
    END IF;
END;
$$;

-- The counters are the triggers' business alone.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        REVOKE INSERT, UPDATE, DELETE ON dlq.message_counters FROM dlq_rw;
    END IF;
END;
$$;
