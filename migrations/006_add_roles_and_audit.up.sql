-- dlq-db: the audit trail, signing keys, ended sessions, and the roles of the database.

-- The audit trail has all changes. The statement that makes a change also appends an entry, which never changes after
-- that. The application's role may only read and append entries; the function below deletes old ones. Triggers refuse
-- every other change, to protect against mistakes. An owner of the table can get around the triggers; the application's
-- role cannot.
--
-- The id of an entry is assigned before its transaction ends. A reader that remembered the highest id would miss
-- entries with lower ids that appear later. So readers of events remember a transaction id: once all transactions
-- before it have ended, no entry of these transactions can appear any more.
CREATE TABLE dlq.audit (
    id           BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           TIMESTAMPTZ NOT NULL,
    action       TEXT        NOT NULL,
    kind         TEXT        NOT NULL, -- kind of the object, such as message or redrive
    object_id    UUID        NOT NULL,
    from_state   TEXT,
    to_state     TEXT,
    retry_count  INT,
    error_class  TEXT,
    last_error   TEXT,
    actor        TEXT        NOT NULL,
    reason       TEXT,
    request_id   TEXT,
    trace_id     TEXT,
    operation_id UUID,                 -- operation of the request that caused the change
    xid          XID8        DEFAULT pg_current_xact_id(),
    topics       TEXT[]                -- original topics to which the change is limited; NULL for no such limit
);
CREATE INDEX idx_audit_object ON dlq.audit (object_id, id);
CREATE INDEX idx_audit_operation ON dlq.audit (operation_id) WHERE operation_id IS NOT NULL;
CREATE INDEX idx_audit_request ON dlq.audit (request_id) WHERE request_id IS NOT NULL;
-- Entries are stored in the order of their times, so this small index by ranges of pages is enough to find a time. It
-- makes appending an entry no slower.
CREATE INDEX idx_audit_at ON dlq.audit USING brin (at) WITH (autosummarize = on);
-- Only entries for which notifications may be sent are in this index, so other entries cost nothing.
CREATE INDEX idx_audit_notified ON dlq.audit (xid, id) WHERE xid IS NOT NULL AND to_state IN ('DEAD', 'stopped', 'finished');

CREATE FUNCTION dlq.refuse_audit_change() RETURNS TRIGGER LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('dlq.purging_audit', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'dlq.audit is append-only' USING ERRCODE = '42501';
END;
$$;

CREATE TRIGGER trg_audit_append_only BEFORE UPDATE OR DELETE ON dlq.audit
    FOR EACH ROW EXECUTE FUNCTION dlq.refuse_audit_change();
CREATE TRIGGER trg_audit_no_truncate BEFORE TRUNCATE ON dlq.audit
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.refuse_audit_change();

-- Deletes entries older than p_days, at most p_batch_size, and returns the number of deleted entries. The function runs
-- with the rights of its owner, because its callers may not delete entries, and it refuses to delete entries that are
-- younger than a year.
CREATE FUNCTION dlq.purge_audit(p_days INT, p_batch_size INT) RETURNS BIGINT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_gone BIGINT;
BEGIN
    IF p_days IS NULL OR p_days < 365 THEN
        RAISE EXCEPTION 'p_days must be at least 365' USING ERRCODE = '22023';
    END IF;
    IF p_batch_size IS NULL OR p_batch_size < 1 THEN
        RAISE EXCEPTION 'p_batch_size must be positive' USING ERRCODE = '22023';
    END IF;
    PERFORM set_config('dlq.purging_audit', 'on', true);
    DELETE FROM dlq.audit WHERE id = ANY (ARRAY(
        SELECT a.id FROM (SELECT id, at FROM dlq.audit ORDER BY id LIMIT p_batch_size) a
        WHERE a.at < now() - make_interval(days => p_days)));
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    PERFORM set_config('dlq.purging_audit', 'off', true);
    RETURN v_gone;
END;
$$;

REVOKE EXECUTE ON FUNCTION dlq.purge_audit(INT, INT) FROM PUBLIC;

-- The keys that sign cursors when auth.signing_key_file names no file; the first process stores one. The key with the
-- highest id signs, and all keys verify.
CREATE TABLE dlq.signing_keys (
    id         INTEGER     PRIMARY KEY,
    key        BYTEA       NOT NULL CHECK (octet_length(key) = 32),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- The sessions of the console that people have ended, and the tokens that ended with these sessions, as SHA-256
-- digests. A row is kept until the token would have expired anyway.
CREATE TABLE dlq.revoked_sessions (
    digest     BYTEA       PRIMARY KEY CHECK (octet_length(digest) = 32),
    ends_at    TIMESTAMPTZ NOT NULL,
    revoked_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX idx_revoked_sessions_ends_at ON dlq.revoked_sessions (ends_at);

-- Roles that cannot log in: an administrator grants dlq_rw to the application's login and dlq_ro to that for reports;
-- dlq_owner is for migrations that change owners. This migration creates the roles only if the migrator may create
-- roles. Otherwise an administrator creates them, and every migration grants rights to those that exist. Roles belong
-- to the whole cluster, so another database may have created them already.
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

    -- Only triggers write the counters. Reports must read neither keys nor sessions.
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA dlq, dlq_migrations TO dlq_rw;
        GRANT SELECT ON dlq_migrations.schema_migrations, dlq.messages, dlq.payload_progress,
            dlq.message_counters, dlq.group_counters, dlq.group_arrivals TO dlq_rw;
        GRANT SELECT, INSERT ON dlq.records, dlq.audit, dlq.signing_keys TO dlq_rw;
        GRANT SELECT, UPDATE ON dlq.topic_mapping TO dlq_rw;
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.dlq_messages, dlq.topics, dlq.topic_incarnations,
            dlq.ingest_positions, dlq.payload_queue, dlq.quarantine, dlq.attempts, dlq.edits, dlq.revoked_sessions TO dlq_rw;
        GRANT USAGE ON SEQUENCE dlq.topics_id_seq, dlq.topic_incarnations_id_seq TO dlq_rw;
        GRANT EXECUTE ON FUNCTION dlq.purge_audit(INT, INT), dlq.purge_arrivals(INT, INT) TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA dlq, dlq_migrations TO dlq_ro;
        GRANT SELECT ON dlq_migrations.schema_migrations, dlq.messages, dlq.payload_progress, dlq.message_counters,
            dlq.group_counters, dlq.group_arrivals, dlq.records, dlq.audit, dlq.topic_mapping, dlq.dlq_messages, dlq.topics,
            dlq.topic_incarnations, dlq.ingest_positions, dlq.payload_queue, dlq.quarantine, dlq.attempts, dlq.edits TO dlq_ro;
    END IF;
END $$;
