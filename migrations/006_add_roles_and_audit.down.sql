DROP TABLE dlq.views, dlq.console_drafts, dlq.revoked_sessions, dlq.signing_keys;
DROP FUNCTION dlq.purge_audit(INT, INT);
DROP TABLE dlq.audit;
DROP FUNCTION dlq.refuse_audit_change();

DO $$
DECLARE
    v_role TEXT;
BEGIN
    FOREACH v_role IN ARRAY ARRAY['dlq_rw', 'dlq_ro'] LOOP
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = v_role) THEN
            EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA dlq, dlq_migrations FROM %I', v_role);
            EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA dlq FROM %I', v_role);
            EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dlq FROM %I', v_role);
            EXECUTE format('REVOKE ALL ON SCHEMA dlq, dlq_migrations FROM %I', v_role);
        END IF;
    END LOOP;
    -- A role is not dropped while another database of the cluster uses it.
    FOREACH v_role IN ARRAY ARRAY['dlq_owner', 'dlq_rw', 'dlq_ro'] LOOP
        BEGIN
            EXECUTE format('DROP ROLE IF EXISTS %I', v_role);
        EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege
            OR internal_error THEN -- another session is dropping the role or what uses it
            RAISE NOTICE 'role % stays', v_role;
        END;
    END LOOP;
END;
$$;
