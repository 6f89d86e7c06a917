-- dlq-db: the audit trail, signing keys, ended sessions, drafts, saved views, and the roles of the database.

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
    topics       TEXT[],               -- original topics to which the change is limited; NULL for no such limit
    redrive_id   UUID,                 -- redrive that changed the message; NULL for none
    call_id      UUID                  -- made by the server for each HTTP request, because clients may repeat a request_id
);
CREATE INDEX idx_audit_object ON dlq.audit (object_id, id);
CREATE INDEX idx_audit_operation ON dlq.audit (operation_id) WHERE operation_id IS NOT NULL;
-- The last entries of a request_id are found without reading the others.
CREATE INDEX idx_audit_request_id ON dlq.audit (request_id, id) WHERE request_id IS NOT NULL;
-- A request may have a million entries: its first one is found without reading the others.
CREATE INDEX idx_audit_call ON dlq.audit (call_id, id) WHERE call_id IS NOT NULL;
-- What people did, without the messages of their redrives. Attempts are not in it, so they cost nothing.
CREATE INDEX idx_audit_people ON dlq.audit (id) WHERE redrive_id IS NULL
    AND action NOT IN ('attempt', 'pass', 'stop', 'finish') AND actor NOT IN ('settler', 'auto', 'ingest', 'heartbeat');
-- Entries are stored in the order of their times, so this small index by ranges of pages is enough to find a time. It
-- makes appending an entry no slower.
CREATE INDEX idx_audit_at ON dlq.audit USING brin (at) WITH (autosummarize = on);
-- Only entries for which notifications may be sent are in this index, so other entries cost nothing.
CREATE INDEX idx_audit_notified ON dlq.audit (xid, id) WHERE xid IS NOT NULL AND to_state IN ('DEAD', 'stopped', 'finished');

-- An erasure may remove the error texts of the entries of a message, and change nothing else.
CREATE FUNCTION dlq.refuse_audit_change() RETURNS TRIGGER LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('dlq.purging_audit', true) = 'on' THEN
        RETURN OLD;
    END IF;
    IF TG_OP = 'UPDATE' AND current_setting('dlq.erasing', true) = 'on' AND NEW.last_error IS NULL
        AND to_jsonb(NEW) - 'last_error' = to_jsonb(OLD) - 'last_error' THEN
        RETURN NEW;
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

-- Drafts: forms of the console that can be shown again. The content is encrypted with a key that only the browser has.
-- When a new draft is stored, the oldest drafts of its owner may be deleted. The archiver also deletes drafts that have
-- expired.
CREATE TABLE dlq.console_drafts (
    id         TEXT        PRIMARY KEY,
    owner      TEXT        NOT NULL, -- principal; empty when the form was sent after the session had ended
    content    BYTEA       NOT NULL CHECK (octet_length(content) <= 8388608),
    created_at TIMESTAMPTZ NOT NULL
);
-- Compressing encrypted bytes saves nothing.
ALTER TABLE dlq.console_drafts ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX idx_console_drafts_owner ON dlq.console_drafts (owner, created_at);
CREATE INDEX idx_console_drafts_created_at ON dlq.console_drafts (created_at);

-- Saved views: filters of lists of messages. A shared view belongs to the principal who saved it first, and all
-- principals may see it.
CREATE TABLE dlq.views (
    id         UUID        PRIMARY KEY,
    name       TEXT        NOT NULL,
    owner      TEXT        NOT NULL,
    shared     BOOLEAN     NOT NULL,
    list       TEXT        NOT NULL CONSTRAINT chk_views_list CHECK (list IN ('messages', 'archive')),
    query      TEXT        NOT NULL, -- URL-encoded
    version    BIGINT      NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);
CREATE UNIQUE INDEX idx_views_own ON dlq.views (owner, name) WHERE NOT shared;
CREATE UNIQUE INDEX idx_views_shared ON dlq.views (name) WHERE shared;

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

    -- Only triggers write the counters. Reports must not read keys, sessions and drafts.
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA dlq, dlq_migrations TO dlq_rw;
        GRANT SELECT ON dlq_migrations.schema_migrations, dlq.messages, dlq.payload_progress,
            dlq.message_counters, dlq.group_counters, dlq.group_arrivals TO dlq_rw;
        GRANT SELECT, INSERT ON dlq.records, dlq.audit, dlq.signing_keys TO dlq_rw;
        GRANT UPDATE (key, value, headers) ON dlq.records TO dlq_rw;
        GRANT SELECT, UPDATE ON dlq.topic_mapping TO dlq_rw;
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.dlq_messages, dlq.topics, dlq.topic_incarnations,
            dlq.ingest_positions, dlq.payload_queue, dlq.quarantine, dlq.undecoded_messages, dlq.share_records,
            dlq.attempts, dlq.edits, dlq.revoked_sessions, dlq.console_drafts, dlq.views TO dlq_rw;
        GRANT USAGE ON SEQUENCE dlq.topics_id_seq, dlq.topic_incarnations_id_seq TO dlq_rw;
        GRANT EXECUTE ON FUNCTION dlq.purge_audit(INT, INT), dlq.purge_arrivals(INT, INT) TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA dlq, dlq_migrations TO dlq_ro;
        GRANT SELECT ON dlq_migrations.schema_migrations, dlq.messages, dlq.payload_progress, dlq.message_counters,
            dlq.group_counters, dlq.group_arrivals, dlq.records, dlq.audit, dlq.topic_mapping, dlq.dlq_messages, dlq.topics,
            dlq.topic_incarnations, dlq.ingest_positions, dlq.payload_queue, dlq.quarantine, dlq.undecoded_messages,
            dlq.share_records, dlq.attempts, dlq.edits, dlq.views TO dlq_ro;
    END IF;
END $$;
