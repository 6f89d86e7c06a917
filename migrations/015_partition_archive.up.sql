-- migrate:one-by-one
-- dlq-db: the archive by quarters of archived_at, so that what had its time is
-- taken off as a whole. The table that is there becomes the first partition and is
-- not written anew: what reads all of its rows runs beside its readers and writers,
-- and the last statement, with the version, changes names alone.

-- The partitions, and those that were taken off and are not forgotten yet. Each is
-- named for the quarter with which it ends; the first holds all before it too.
CREATE TABLE IF NOT EXISTS dlq.archive_partitions (
    name        TEXT        PRIMARY KEY,
    until_at    TIMESTAMPTZ NOT NULL,
    detached_at TIMESTAMPTZ, -- since then it is in no list, and goes bit by bit
    -- What belongs to its messages is deleted up to this id.
    forgotten   UUID        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'
);

-- Which messages are in the archive, and when they came: an id is in it once over
-- all partitions, and is looked for in one.
CREATE TABLE IF NOT EXISTS dlq.archive_ids (
    id          UUID        PRIMARY KEY,
    archived_at TIMESTAMPTZ NOT NULL
);

-- A day more than the quarter: the archiver may be at work while it ends.
DO $$
DECLARE
    v_last TIMESTAMPTZ;
    v_until TIMESTAMPTZ;
BEGIN
    PERFORM set_config('lock_timeout', '5s', true); -- see 011
    SELECT max(archived_at) INTO v_last FROM dlq.dlq_messages_archive;
    v_last := greatest(v_last, now() + interval '1 day');
    v_until := (date_trunc('quarter', v_last AT TIME ZONE 'UTC') + interval '3 months') AT TIME ZONE 'UTC';
    DELETE FROM dlq.archive_partitions;
    INSERT INTO dlq.archive_partitions (name, until_at)
    VALUES (to_char(v_last AT TIME ZONE 'UTC', '"dlq_messages_archive_"YYYY"q"Q'), v_until);
    ALTER TABLE dlq.dlq_messages_archive DROP CONSTRAINT IF EXISTS chk_dlq_messages_archive_until;
    EXECUTE format('ALTER TABLE dlq.dlq_messages_archive ADD CONSTRAINT chk_dlq_messages_archive_until
        CHECK (archived_at < %L) NOT VALID', v_until);
END;
$$;

ALTER TABLE dlq.dlq_messages_archive VALIDATE CONSTRAINT chk_dlq_messages_archive_until;

-- Of a way up that was given up.
DROP INDEX CONCURRENTLY IF EXISTS dlq.dlq_messages_archive_pkey_new;

CREATE UNIQUE INDEX CONCURRENTLY dlq_messages_archive_pkey_new
    ON dlq.dlq_messages_archive (id, archived_at);

DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('dlq.idx_dlq_messages_backdated') AND NOT indisvalid) THEN
        DROP INDEX dlq.idx_dlq_messages_backdated;
    END IF;
END;
$$;

-- Final messages that say they changed before they came: aged by hand, or put in with
-- a time yet to come. There are hardly ever any.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_dlq_messages_backdated
    ON dlq.dlq_messages (status, updated_at, id) WHERE updated_at < created_at AND status IN ('RESOLVED', 'DEAD');

CREATE OR REPLACE FUNCTION dlq.note_archived() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_which TEXT;
BEGIN
    INSERT INTO dlq.archive_ids (id, archived_at) SELECT id, archived_at FROM new_rows ORDER BY id;
    RETURN NULL;
EXCEPTION WHEN unique_violation THEN
    GET STACKED DIAGNOSTICS v_which = PG_EXCEPTION_DETAIL;
    RAISE EXCEPTION 'a message is in the archive already: %', v_which
        USING ERRCODE = '23505', SCHEMA = 'dlq', TABLE = 'archive_ids', CONSTRAINT = 'archive_ids_pkey', DETAIL = v_which;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.note_unarchived() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM dlq.archive_ids WHERE id = ANY (ARRAY(SELECT id FROM old_rows));
    RETURN NULL;
END;
$$;

-- Most updates change neither of the two.
CREATE OR REPLACE FUNCTION dlq.note_archive_changes() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT id, archived_at FROM new_rows EXCEPT SELECT id, archived_at FROM old_rows) THEN
        RETURN NULL;
    END IF;
    DELETE FROM dlq.archive_ids WHERE id = ANY (ARRAY(SELECT id FROM old_rows EXCEPT SELECT id FROM new_rows));
    INSERT INTO dlq.archive_ids AS a (id, archived_at)
    SELECT id, archived_at FROM new_rows WHERE id IN (SELECT id FROM old_rows)
    EXCEPT SELECT id, archived_at FROM old_rows ORDER BY id
    ON CONFLICT (id) DO UPDATE SET archived_at = excluded.archived_at;
    INSERT INTO dlq.archive_ids (id, archived_at)
    SELECT id, archived_at FROM new_rows WHERE id NOT IN (SELECT id FROM old_rows) ORDER BY id;
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.note_archive_truncated() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    TRUNCATE dlq.archive_ids;
    RETURN NULL;
END;
$$;

-- They run as their owner; firing a trigger needs no right.
REVOKE EXECUTE ON FUNCTION dlq.note_archived(), dlq.note_unarchived(), dlq.note_archive_changes(),
    dlq.note_archive_truncated() FROM PUBLIC;

-- Makes the partition of now and of p_ahead quarters behind it, where they are not
-- there, and says how many it made. Several callers are safe. It holds up nobody who
-- reads or writes the archive.
CREATE OR REPLACE FUNCTION dlq.create_archive_partitions(p_ahead INT) RETURNS INT LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' SET timezone = 'UTC' AS $$
DECLARE
    v_enough TIMESTAMPTZ;
    v_from TIMESTAMPTZ;
    v_until TIMESTAMPTZ;
    v_name TEXT;
    v_index RECORD;
    v_made INT := 0;
BEGIN
    IF p_ahead IS NULL OR p_ahead < 0 OR p_ahead > 40 THEN
        RAISE EXCEPTION 'p_ahead must be 0 to 40' USING ERRCODE = '22023';
    END IF;
    v_enough := date_trunc('quarter', clock_timestamp()) + (p_ahead + 1) * interval '3 months';
    SELECT max(until_at) INTO v_from FROM dlq.archive_partitions WHERE detached_at IS NULL;
    IF v_from >= v_enough THEN
        RETURN 0;
    END IF;
    PERFORM pg_advisory_xact_lock(x'646c7161727074'::bigint); -- "dlqarpt"
    LOOP
        SELECT max(until_at) INTO v_from FROM dlq.archive_partitions WHERE detached_at IS NULL;
        EXIT WHEN v_from >= v_enough;
        v_until := coalesce(v_from, date_trunc('quarter', clock_timestamp())) + interval '3 months';
        v_name := to_char(v_until - interval '1 day', '"dlq_messages_archive_"YYYY"q"Q');
        EXECUTE format('CREATE TABLE dlq.%I (LIKE dlq.dlq_messages_archive
            INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION)
            WITH (toast_tuple_target = 512)', v_name);
        EXECUTE format('ALTER TABLE dlq.dlq_messages_archive ATTACH PARTITION dlq.%I FOR VALUES FROM (%s) TO (%L)',
            v_name, coalesce(quote_literal(v_from), 'MINVALUE'), v_until);
        -- It is read through the archive. Who may read all may read it by itself.
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
            EXECUTE format('GRANT SELECT ON dlq.%I TO dlq_ro', v_name);
        END IF;
        FOR v_index IN
            SELECT c.relname AS own, replace(p.relname, 'dlq_messages_archive', v_name) AS new
            FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            JOIN pg_inherits h ON h.inhrelid = c.oid JOIN pg_class p ON p.oid = h.inhparent
            WHERE i.indrelid = format('dlq.%I', v_name)::regclass
              AND to_regclass(format('dlq.%I', replace(p.relname, 'dlq_messages_archive', v_name))) IS NULL
        LOOP
            EXECUTE format('ALTER INDEX dlq.%I RENAME TO %I', v_index.own, v_index.new);
        END LOOP;
        INSERT INTO dlq.archive_partitions (name, until_at) VALUES (v_name, v_until);
        v_made := v_made + 1;
    END LOOP;
    RETURN v_made;
END;
$$;

-- Takes off the partitions of which every message came longer ago than p_days, and
-- says how many. From then on they are in no list. One that somebody is reading is
-- left for the next time, so that nobody waits long behind this.
CREATE OR REPLACE FUNCTION dlq.detach_archive_partitions(p_days INT) RETURNS INT LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
DECLARE
    v_name TEXT;
    v_gone INT := 0;
BEGIN
    IF p_days IS NULL OR p_days < 0 THEN
        RAISE EXCEPTION 'p_days must not be negative' USING ERRCODE = '22023';
    END IF;
    FOR v_name IN
        SELECT name FROM dlq.archive_partitions
        WHERE detached_at IS NULL AND until_at <= now() - make_interval(days => p_days)
        ORDER BY until_at FOR UPDATE SKIP LOCKED
    LOOP
        EXECUTE format('ALTER TABLE dlq.dlq_messages_archive DETACH PARTITION dlq.%I', v_name);
        UPDATE dlq.archive_partitions SET detached_at = now() WHERE name = v_name;
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
            EXECUTE format('REVOKE ALL ON dlq.%I FROM dlq_ro', v_name);
        END IF;
        v_gone := v_gone + 1;
    END LOOP;
    RETURN v_gone;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END;
$$;

-- Deletes what belongs to up to p_batch messages of a partition that was taken off,
-- and says how many messages those were; drops the partition behind the last. 0 says
-- that nothing is left, but for a partition that another caller has in hand.
CREATE OR REPLACE FUNCTION dlq.purge_detached(p_batch INT) RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    v_part dlq.archive_partitions;
    v_ids UUID[];
BEGIN
    IF p_batch IS NULL OR p_batch < 1 THEN
        RAISE EXCEPTION 'p_batch must be positive' USING ERRCODE = '22023';
    END IF;
    LOOP
        SELECT * INTO v_part FROM dlq.archive_partitions
        WHERE detached_at IS NOT NULL ORDER BY until_at LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN 0;
        END IF;
        EXECUTE format('SELECT array_agg(id) FROM (SELECT id FROM dlq.%I WHERE id > $1 ORDER BY id LIMIT $2) x', v_part.name)
            INTO v_ids USING v_part.forgotten, p_batch;
        IF v_ids IS NULL THEN
            EXECUTE format('DROP TABLE dlq.%I', v_part.name);
            DELETE FROM dlq.archive_partitions WHERE name = v_part.name;
            CONTINUE;
        END IF;
        WITH history AS (
            DELETE FROM dlq.attempts WHERE message_id = ANY (v_ids) RETURNING attempt_id
        )
        DELETE FROM dlq.returns WHERE attempt_id = ANY (ARRAY(SELECT attempt_id FROM history));
        DELETE FROM dlq.edits WHERE message_id = ANY (v_ids);
        DELETE FROM dlq.message_documents WHERE message_id = ANY (ARRAY(
            SELECT message_id FROM dlq.message_documents WHERE message_id = ANY (v_ids) ORDER BY message_id FOR UPDATE));
        DELETE FROM dlq.archive_ids WHERE id = ANY (v_ids) AND archived_at < v_part.until_at;
        UPDATE dlq.archive_partitions SET forgotten = v_ids[cardinality(v_ids)] WHERE name = v_part.name;
        RETURN cardinality(v_ids);
    END LOOP;
END;
$$;

REVOKE EXECUTE ON FUNCTION dlq.create_archive_partitions(INT), dlq.detach_archive_partitions(INT),
    dlq.purge_detached(INT) FROM PUBLIC;

-- From here on the ids are kept; those of before come behind. What is deleted while
-- they are copied is found below.
DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    CREATE OR REPLACE TRIGGER trg_dlq_messages_archive_ids_insert AFTER INSERT ON dlq.dlq_messages_archive
        REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_archived();
    CREATE OR REPLACE TRIGGER trg_dlq_messages_archive_ids_delete AFTER DELETE ON dlq.dlq_messages_archive
        REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_unarchived();
    CREATE OR REPLACE TRIGGER trg_dlq_messages_archive_ids_update AFTER UPDATE ON dlq.dlq_messages_archive
        REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_archive_changes();
    CREATE OR REPLACE TRIGGER trg_dlq_messages_archive_ids_truncate AFTER TRUNCATE ON dlq.dlq_messages_archive
        FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_archive_truncated();
END;
$$;

INSERT INTO dlq.archive_ids (id, archived_at)
SELECT id, archived_at FROM dlq.dlq_messages_archive ORDER BY id
ON CONFLICT (id) DO NOTHING;

-- Waits for everybody who began to delete before the copies could be seen.
DO $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    LOCK TABLE dlq.dlq_messages_archive IN SHARE MODE;
END;
$$;

DELETE FROM dlq.archive_ids i
WHERE NOT EXISTS (SELECT FROM dlq.dlq_messages_archive a WHERE a.id = i.id);

ANALYZE dlq.archive_ids;

-- The partitions are written through the archive alone, or the ids would not be kept.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        GRANT SELECT ON dlq.archive_ids, dlq.archive_partitions TO dlq_rw;
        GRANT EXECUTE ON FUNCTION dlq.create_archive_partitions(INT), dlq.detach_archive_partitions(INT),
            dlq.purge_detached(INT) TO dlq_rw;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_ro') THEN
        GRANT SELECT ON dlq.archive_ids, dlq.archive_partitions TO dlq_ro;
    END IF;
END;
$$;

-- As in 011. It makes sure that there is a partition for what it moves, also when a
-- run sees a quarter end; and it deletes rows where it locked them, without looking
-- for each again. One that changed before it was locked is elsewhere by then, and is
-- left for the next run.
--
-- Nothing changes before it comes, so the walk of a status ends at the first message
-- that came after the cut-off. A second walk, of what is backdated, finds those that
-- are due though they came later; no message is in both.
CREATE OR REPLACE PROCEDURE dlq.archive_old_dlq_messages(
    p_retention_days INT DEFAULT 30,
    p_batch_size INT DEFAULT 1000
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_cutoff TIMESTAMPTZ;
    v_status TEXT;
    v_backdated BOOLEAN;
    v_after_time TIMESTAMPTZ;
    v_after_id UUID;
    v_archived BIGINT := 0;
    v_batch BIGINT;
    v_ready TIMESTAMPTZ;
BEGIN
    IF p_retention_days IS NULL OR p_retention_days < 0 THEN
        RAISE EXCEPTION 'p_retention_days must not be negative' USING ERRCODE = '22023';
    END IF;
    IF p_batch_size IS NULL OR p_batch_size < 1 THEN
        RAISE EXCEPTION 'p_batch_size must be positive' USING ERRCODE = '22023';
    END IF;
    v_cutoff := NOW() - make_interval(days => p_retention_days);
    PERFORM set_config('dlq.archived', '0', false);
    SELECT coalesce(max(until_at), '-infinity') INTO v_ready FROM dlq.archive_partitions WHERE detached_at IS NULL;
    FOR v_status, v_backdated IN VALUES ('RESOLVED', false), ('RESOLVED', true), ('DEAD', false), ('DEAD', true) LOOP
        v_after_time := '-infinity';
        v_after_id := '00000000-0000-0000-0000-000000000000';
        LOOP
            IF v_ready <= clock_timestamp() + interval '1 day' THEN
                PERFORM dlq.create_archive_partitions(1);
                SELECT max(until_at) INTO v_ready FROM dlq.archive_partitions WHERE detached_at IS NULL;
            END IF;
            WITH usual AS MATERIALIZED (
                SELECT m.ctid AS place, m.created_at AS walked, m.id FROM dlq.dlq_messages m
                WHERE NOT v_backdated AND m.status = v_status AND m.created_at < v_cutoff AND m.updated_at < v_cutoff
                  AND (m.created_at, m.id) > (v_after_time, v_after_id)
                ORDER BY m.created_at, m.id
                LIMIT p_batch_size FOR UPDATE SKIP LOCKED
            ), backdated AS MATERIALIZED (
                SELECT m.ctid AS place, m.updated_at AS walked, m.id FROM dlq.dlq_messages m
                WHERE v_backdated AND m.status = v_status AND m.status IN ('RESOLVED', 'DEAD')
                  AND m.updated_at < m.created_at AND m.created_at >= v_cutoff AND m.updated_at < v_cutoff
                  AND (m.updated_at, m.id) > (v_after_time, v_after_id)
                ORDER BY m.updated_at, m.id
                LIMIT p_batch_size FOR UPDATE SKIP LOCKED
            ), picked AS MATERIALIZED (
                SELECT place, walked, id FROM usual UNION ALL SELECT place, walked, id FROM backdated
            ), moved AS (
                DELETE FROM dlq.dlq_messages m WHERE m.ctid = ANY (ARRAY(SELECT place FROM picked))
                RETURNING m.*
            ), kept AS (
                INSERT INTO dlq.dlq_messages_archive
                    (id, original_topic, error_message, retry_count, max_retries, payload, status,
                     created_at, updated_at, last_retry_at,
                     key, value, headers, payload_note, omitted_size, omitted_sha256,
                     dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp,
                     original_partition, original_offset, original_timestamp, origin_confidence,
                     consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id,
                     attempt_no, rescues, claim_id, claim_expires_at, claim_topic, claim_topic_id, claim_partition,
                     claim_end_offset, unsettled, next_attempt_at, last_publish_error,
                     last_publish_error_class, outcome,
                     claim_redrive_id, record_hash, group_id, archived_at)
                SELECT id, original_topic, error_message, retry_count, max_retries, payload, status,
                     created_at, updated_at, last_retry_at,
                     key, value, headers, payload_note, omitted_size, omitted_sha256,
                     dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp,
                     original_partition, original_offset, original_timestamp, origin_confidence,
                     consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id,
                     attempt_no, rescues, claim_id, claim_expires_at, claim_topic, claim_topic_id, claim_partition,
                     claim_end_offset, unsettled, next_attempt_at, last_publish_error,
                     last_publish_error_class, outcome,
                     claim_redrive_id, record_hash, group_id, clock_timestamp()
                FROM moved
                RETURNING 1
            )
            SELECT (SELECT count(*) FROM kept), walked, id INTO v_batch, v_after_time, v_after_id
            FROM picked ORDER BY walked DESC, id DESC LIMIT 1;
            EXIT WHEN NOT FOUND;
            v_archived := v_archived + v_batch;
            PERFORM set_config('dlq.archived', v_archived::text, false);
            COMMIT;
        END LOOP;
        COMMIT;
    END LOOP;
    RAISE NOTICE 'Archived % DLQ messages older than % days', v_archived, p_retention_days;
END;
$$;

-- migrate:with-version
DO $$
DECLARE
    v_name TEXT;
    v_until TIMESTAMPTZ;
    v_index TEXT;
    v_indexes INT;
    v_grant TEXT;
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    SELECT name, until_at INTO STRICT v_name, v_until FROM dlq.archive_partitions;
    LOCK TABLE dlq.dlq_messages_archive IN ACCESS EXCLUSIVE MODE;
    DROP TRIGGER trg_dlq_messages_archive_ids_insert ON dlq.dlq_messages_archive;
    DROP TRIGGER trg_dlq_messages_archive_ids_delete ON dlq.dlq_messages_archive;
    DROP TRIGGER trg_dlq_messages_archive_ids_update ON dlq.dlq_messages_archive;
    DROP TRIGGER trg_dlq_messages_archive_ids_truncate ON dlq.dlq_messages_archive;
    DROP TRIGGER trg_dlq_messages_archive_drop_documents ON dlq.dlq_messages_archive;
    DROP TRIGGER trg_dlq_messages_archive_truncate_documents ON dlq.dlq_messages_archive;
    ALTER TABLE dlq.dlq_messages_archive DROP CONSTRAINT dlq_messages_archive_pkey;
    ALTER TABLE dlq.dlq_messages_archive ADD CONSTRAINT dlq_messages_archive_pkey
        PRIMARY KEY USING INDEX dlq_messages_archive_pkey_new;
    FOR v_index IN
        SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE i.indrelid = 'dlq.dlq_messages_archive'::regclass
    LOOP
        EXECUTE format('ALTER INDEX dlq.%I RENAME TO %I', v_index, replace(v_index, 'dlq_messages_archive', v_name));
    END LOOP;
    EXECUTE format('ALTER TABLE dlq.dlq_messages_archive RENAME TO %I', v_name);
    -- As a whole: the table, what it is read by, who may use it.
    EXECUTE format('CREATE TABLE dlq.dlq_messages_archive (LIKE dlq.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS
        INCLUDING STORAGE INCLUDING COMPRESSION) PARTITION BY RANGE (archived_at)', v_name);
    ALTER TABLE dlq.dlq_messages_archive DROP CONSTRAINT chk_dlq_messages_archive_until;
    ALTER TABLE dlq.dlq_messages_archive ADD CONSTRAINT dlq_messages_archive_pkey PRIMARY KEY (id, archived_at);
    CREATE INDEX dlq_messages_archive_original_topic_idx ON ONLY dlq.dlq_messages_archive (original_topic, created_at, id);
    CREATE INDEX dlq_messages_archive_created_at_idx ON ONLY dlq.dlq_messages_archive (created_at, id);
    CREATE INDEX dlq_messages_archive_status_idx ON ONLY dlq.dlq_messages_archive (status);
    CREATE INDEX idx_dlq_messages_archive_archived_at ON ONLY dlq.dlq_messages_archive (archived_at);
    CREATE INDEX idx_dlq_messages_archive_root ON ONLY dlq.dlq_messages_archive (root_id) WHERE root_id IS NOT NULL;
    CREATE INDEX idx_dlq_messages_archive_group ON ONLY dlq.dlq_messages_archive (group_id, created_at, id)
        WHERE group_id IS NOT NULL;
    CREATE INDEX idx_dlq_messages_archive_last_retry ON ONLY dlq.dlq_messages_archive (last_retry_at, id)
        WHERE last_retry_at IS NOT NULL;
    SELECT count(*) INTO v_indexes FROM pg_index WHERE indrelid = format('dlq.%I', v_name)::regclass;
    EXECUTE format('ALTER TABLE dlq.dlq_messages_archive ATTACH PARTITION dlq.%I FOR VALUES FROM (MINVALUE) TO (%L)',
        v_name, v_until);
    IF v_indexes <> (SELECT count(*) FROM pg_index WHERE indrelid = format('dlq.%I', v_name)::regclass) THEN
        RAISE EXCEPTION 'an index of dlq.% is not as this step knows it', v_name;
    END IF;
    EXECUTE format('ALTER TABLE dlq.%I DROP CONSTRAINT chk_dlq_messages_archive_until', v_name);
    FOR v_grant IN
        SELECT format('GRANT %s ON dlq.dlq_messages_archive TO %s%s', privilege_type,
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END, CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END)
        FROM pg_class, aclexplode(relacl) WHERE oid = format('dlq.%I', v_name)::regclass AND grantee <> relowner
    LOOP
        EXECUTE v_grant;
    END LOOP;
    CREATE TRIGGER trg_dlq_messages_archive_ids_insert AFTER INSERT ON dlq.dlq_messages_archive
        REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_archived();
    CREATE TRIGGER trg_dlq_messages_archive_ids_delete AFTER DELETE ON dlq.dlq_messages_archive
        REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_unarchived();
    CREATE TRIGGER trg_dlq_messages_archive_ids_update AFTER UPDATE ON dlq.dlq_messages_archive
        REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_archive_changes();
    CREATE TRIGGER trg_dlq_messages_archive_ids_truncate AFTER TRUNCATE ON dlq.dlq_messages_archive
        FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_archive_truncated();
    CREATE TRIGGER trg_dlq_messages_archive_drop_documents AFTER DELETE ON dlq.dlq_messages_archive
        REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.drop_documents();
    CREATE TRIGGER trg_dlq_messages_archive_truncate_documents AFTER TRUNCATE ON dlq.dlq_messages_archive
        FOR EACH STATEMENT EXECUTE FUNCTION dlq.drop_truncated_documents();
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlq_rw') THEN
        EXECUTE format('REVOKE ALL ON dlq.%I FROM dlq_rw', v_name);
    END IF;
    PERFORM dlq.create_archive_partitions(1);
END;
$$;
