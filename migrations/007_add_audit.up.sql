-- dlq-db: who changed what. Lines are appended in the statement that makes the
-- change, and are never changed after that: the application's role may only read
-- and append, and what is old goes by the purge below. Triggers refuse every other
-- change, so that nobody makes one by mistake. An owner of the table who means it
-- can get around them; the application's role cannot.

CREATE TABLE dlq.audit (
    id           BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           TIMESTAMPTZ NOT NULL,
    action       TEXT        NOT NULL,
    kind         TEXT        NOT NULL, -- message or redrive
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
    operation_id UUID                  -- of the request that asked for it
);

CREATE INDEX idx_audit_object ON dlq.audit (object_id, id);
CREATE INDEX idx_audit_operation ON dlq.audit (operation_id) WHERE operation_id IS NOT NULL;
CREATE INDEX idx_audit_request ON dlq.audit (request_id) WHERE request_id IS NOT NULL;
-- Lines lie in the order of their times, so ranges of pages are enough to find a
-- time, and cost an append nothing.
CREATE INDEX idx_audit_at ON dlq.audit USING brin (at) WITH (autosummarize = on);

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

-- Deletes lines older than so many days, at most p_batch_size, and says how many.
-- It runs as its owner, since its callers may not delete; and it refuses to
-- forget what is younger than a year.
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

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT, INSERT ON dlq.audit TO dlq_rw;
        GRANT EXECUTE ON FUNCTION dlq.purge_audit(INT, INT) TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.audit TO dlq_ro;
    END IF;
END;
$$;
