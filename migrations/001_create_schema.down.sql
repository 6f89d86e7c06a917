DO $$
DECLARE
    v_ours BOOLEAN := obj_description(to_regnamespace('dlq'), 'pg_namespace') LIKE '%pgcrypto was installed with it';
BEGIN
    DROP FUNCTION IF EXISTS dlq.update_updated_at();
    DROP SCHEMA IF EXISTS dlq CASCADE;
    IF v_ours THEN
        BEGIN
            DROP EXTENSION IF EXISTS "pgcrypto";
        EXCEPTION WHEN dependent_objects_still_exist THEN
            RAISE NOTICE 'pgcrypto is used by something else and stays';
        END;
    END IF;
END;
$$;
