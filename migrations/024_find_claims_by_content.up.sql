-- migrate:one-by-one
-- dlq-db: claimed messages are found by what their attempts send, so that a return
-- without our headers is known before its attempt has a result.

-- An interrupted build leaves an invalid index under the index's name.
DO $$
DECLARE
    v_name TEXT;
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    FOR v_name IN
        SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE NOT i.indisvalid
          AND i.indexrelid IN (to_regclass('dlq.idx_dlq_messages_claimed_hash'), to_regclass('dlq.idx_edits_record_hash'))
    LOOP
        EXECUTE format('DROP INDEX dlq.%I', v_name);
    END LOOP;
END;
$$;

-- The predicate is in a form that only this index answers: see claimQuery in the store.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_dlq_messages_claimed_hash
    ON dlq.dlq_messages (record_hash) WHERE (status = 'RETRYING') IS TRUE;

CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_edits_record_hash
    ON dlq.edits (record_hash) WHERE record_hash <> 0;
