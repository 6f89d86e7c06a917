-- dlq-db: partitions the archive by quarters of archived_at, so that a quarter that is due to be purged can be dropped
-- as a whole. The archive has a second tier: closed days of archived messages are in objects of an S3-compatible store.
-- Some of the tables have what the database keeps about the objects: the manifest.

SET LOCAL lock_timeout = '5s'; -- see 004

-- Drops the archive of 003, which must be empty.
DO $$
BEGIN
    LOCK TABLE dlq.dlq_messages_archive IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM dlq.dlq_messages_archive) THEN
        RAISE EXCEPTION 'dlq.dlq_messages_archive has rows, and this step replaces the table: keep them with CREATE TABLE public.dlq_archive_before AS TABLE dlq.dlq_messages_archive, empty it with TRUNCATE dlq.dlq_messages_archive, and run the migrations again';
    END IF;
END $$;
DROP TABLE dlq.dlq_messages_archive;

-- All columns of dlq_messages, and archived_at.
CREATE TABLE dlq.dlq_messages_archive (
    id UUID NOT NULL DEFAULT gen_random_uuid(), original_topic VARCHAR(255) NOT NULL,
    error_message TEXT STORAGE MAIN NOT NULL, retry_count INT NOT NULL DEFAULT 0, max_retries INT NOT NULL DEFAULT 3,
    payload JSONB STORAGE EXTERNAL, status VARCHAR(50) NOT NULL DEFAULT 'PENDING',
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), last_retry_at TIMESTAMPTZ,
    key BYTEA STORAGE MAIN, value BYTEA STORAGE EXTERNAL, headers BYTEA STORAGE EXTERNAL,
    payload_note TEXT, omitted_size BIGINT, omitted_sha256 BYTEA,
    dlq_topic_id INT, dlq_incarnation_id INT, dlq_partition INT, dlq_offset BIGINT, dlq_timestamp TIMESTAMPTZ,
    original_partition INT, original_offset BIGINT, original_timestamp TIMESTAMPTZ, origin_confidence TEXT,
    consumer_group TEXT, consumer_attempts INT, dialect TEXT, error_class TEXT, parent_id UUID, root_id UUID,
    attempt_no INT NOT NULL DEFAULT 0, rescues SMALLINT NOT NULL DEFAULT 0,
    claim_id UUID, claim_expires_at TIMESTAMPTZ, claim_topic TEXT, claim_topic_id TEXT, claim_partition INT,
    claim_end_offset BIGINT, unsettled BOOLEAN NOT NULL DEFAULT false, next_attempt_at TIMESTAMPTZ,
    last_publish_error TEXT, last_publish_error_class TEXT, outcome TEXT,
    archived_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    claim_redrive_id UUID, record_hash BIGINT, group_id UUID, dlq_timestamp_ms BIGINT, defect JSONB,
    PRIMARY KEY (id, archived_at),
    CONSTRAINT chk_dlq_messages_status CHECK (status IN ('PENDING', 'RETRYING', 'RESOLVED', 'DEAD'))
) PARTITION BY RANGE (archived_at);

-- The indexes of 003 keep their names and their leading columns.
CREATE INDEX dlq_messages_archive_original_topic_idx ON dlq.dlq_messages_archive (original_topic, created_at, id);
CREATE INDEX dlq_messages_archive_created_at_idx ON dlq.dlq_messages_archive (created_at, id);
CREATE INDEX dlq_messages_archive_status_idx ON dlq.dlq_messages_archive (status);
CREATE INDEX idx_dlq_messages_archive_archived_at ON dlq.dlq_messages_archive (archived_at);
CREATE INDEX idx_dlq_messages_archive_root ON dlq.dlq_messages_archive (root_id) WHERE root_id IS NOT NULL;
CREATE INDEX idx_dlq_messages_archive_group ON dlq.dlq_messages_archive (group_id, created_at, id) WHERE group_id IS NOT NULL;
CREATE INDEX idx_dlq_messages_archive_last_retry ON dlq.dlq_messages_archive (last_retry_at, id) WHERE last_retry_at IS NOT NULL;

-- The archived messages with the bytes of their records, for queries that read the bytes.
CREATE VIEW dlq.archived_messages AS
SELECT
    m.id, m.original_topic, m.error_message, m.retry_count, m.max_retries, m.payload, m.status,
    m.created_at, m.updated_at, m.last_retry_at, CASE WHEN r.message_id IS NULL THEN m.key ELSE
    r.key END AS key, CASE WHEN r.message_id IS NULL THEN m.value ELSE r.value END AS value, CASE
    WHEN r.message_id IS NULL THEN m.headers ELSE r.headers END AS headers, m.payload_note,
    m.omitted_size, m.omitted_sha256, m.dlq_topic_id, m.dlq_incarnation_id, m.dlq_partition,
    m.dlq_offset, m.dlq_timestamp, m.original_partition, m.original_offset, m.original_timestamp,
    m.origin_confidence, m.consumer_group, m.consumer_attempts, m.dialect, m.error_class,
    m.parent_id, m.root_id, m.attempt_no, m.rescues, m.claim_id, m.claim_expires_at, m.claim_topic,
    m.claim_topic_id, m.claim_partition, m.claim_end_offset, m.unsettled, m.next_attempt_at,
    m.last_publish_error, m.last_publish_error_class, m.outcome, m.archived_at, m.claim_redrive_id,
    m.record_hash, m.group_id, m.dlq_timestamp_ms, m.defect
FROM dlq.dlq_messages_archive m LEFT JOIN dlq.records r ON r.message_id = m.id;

-- The partitions of the archive, including those that were detached and are not purged yet. A partition has the name of
-- the quarter with whose end it ends; the first partition also has all earlier times.
CREATE TABLE dlq.archive_partitions (
    name        TEXT        PRIMARY KEY,
    until_at    TIMESTAMPTZ NOT NULL,
    detached_at TIMESTAMPTZ, -- since then its messages are in no list, and are purged in batches
    -- What other tables have about the partition's messages has been deleted up to this message id.
    forgotten   UUID        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'
);

-- The id and the archived_at of every archived message. An id is here only once, although the archive has many
-- partitions, and a message can be read from one partition only.
CREATE TABLE dlq.archive_ids (
    id           UUID        PRIMARY KEY,
    archived_at  TIMESTAMPTZ NOT NULL,
    -- A message whose object_id is set is in that object and not in dlq_messages_archive. root_id and dlq_topic_id are
    -- for returns of its attempts.
    object_id    UUID,
    root_id      UUID,
    dlq_topic_id INT
);
CREATE INDEX idx_archive_ids_object ON dlq.archive_ids (object_id, id) WHERE object_id IS NOT NULL;

-- One row for each object. An object has messages of one day (in UTC) of archived_at, sorted by id. When the object is
-- written again without some of its messages, its row keeps the id and gets another key.
CREATE TABLE dlq.archive_objects (
    id                UUID        PRIMARY KEY,
    object_key        TEXT        NOT NULL UNIQUE,
    bucket            TEXT        NOT NULL,
    day               DATE        NOT NULL,
    stored_at         TIMESTAMPTZ NOT NULL DEFAULT now(),
    messages          BIGINT      NOT NULL, -- rows of the object, including hidden ones
    hidden            BIGINT      NOT NULL DEFAULT 0, -- rows in archive_hidden
    bytes             BIGINT      NOT NULL,
    sha256            BYTEA       NOT NULL,
    first_id          UUID        NOT NULL,
    last_id           UUID        NOT NULL,
    first_created_at  TIMESTAMPTZ NOT NULL,
    last_created_at   TIMESTAMPTZ NOT NULL,
    first_archived_at TIMESTAMPTZ NOT NULL,
    last_archived_at  TIMESTAMPTZ NOT NULL,
    purged_at         TIMESTAMPTZ -- since then its messages are in no list, and are purged in batches
);
CREATE INDEX idx_archive_objects_created_at ON dlq.archive_objects (last_created_at, id);
CREATE INDEX idx_archive_objects_archived_at ON dlq.archive_objects (last_archived_at);
CREATE INDEX idx_archive_objects_hidden ON dlq.archive_objects (id) WHERE hidden > 0;

-- How many messages of an object that are not hidden belong to which topics.
CREATE TABLE dlq.archive_object_topics (
    object_id      UUID   NOT NULL,
    original_topic TEXT   NOT NULL,
    dlq_topic      TEXT   NOT NULL, -- '' when it is not known
    messages       BIGINT NOT NULL,
    PRIMARY KEY (object_id, original_topic, dlq_topic)
);

-- Messages that are still in their object but no longer in the archive: they were restored or erased. The object is
-- written again without them.
CREATE TABLE dlq.archive_hidden (
    object_id  UUID        NOT NULL,
    message_id UUID        NOT NULL,
    hidden_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (object_id, message_id)
);

-- Keys of objects to delete. A key is inserted before its object is written, and removed when the object enters the
-- manifest, so a process that dies leaves no unknown object.
CREATE TABLE dlq.archive_deletions (
    object_key     TEXT        PRIMARY KEY,
    bucket         TEXT        NOT NULL,
    created_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    message_ids    UUID[]      NOT NULL, -- whose bytes may be in the object
    replaced       BOOLEAN     NOT NULL DEFAULT false, -- the object was in the manifest
    begun          BOOLEAN     NOT NULL DEFAULT false, -- the object may be deleted already, so it cannot enter the manifest
    retained_until TIMESTAMPTZ -- Object Lock forbids the deletion until then
);

CREATE FUNCTION dlq.note_archived() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
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

CREATE FUNCTION dlq.note_unarchived() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM dlq.archive_ids WHERE id = ANY (ARRAY(SELECT id FROM old_rows));
    RETURN NULL;
END;
$$;

-- Updates dlq.archive_ids after an UPDATE. Most updates change neither id nor archived_at.
CREATE FUNCTION dlq.note_archive_changes() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
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

CREATE FUNCTION dlq.note_archive_truncated() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM dlq.archive_ids WHERE object_id IS NULL;
    RETURN NULL;
END;
$$;

CREATE FUNCTION dlq.note_archived_messages() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF dlq.uses_search_engine() THEN
        INSERT INTO dlq.search_changes (message_id) SELECT id FROM changed_rows;
    END IF;
    RETURN NULL;
END;
$$;

-- A ctid is a place in one partition, and other partitions have rows at the same place.
CREATE FUNCTION dlq.refuse_delete_by_ctid() RETURNS TRIGGER LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_query() ~* '\mctid\M' THEN
        RAISE EXCEPTION 'a ctid is a place in one partition of the archive, and names others too: delete by id'
            USING ERRCODE = '0A000';
    END IF;
    RETURN NULL;
END;
$$;

-- Creates missing partitions for the present quarter and for the p_ahead quarters after it, and returns how many it
-- created. Several callers may run it at once. Sessions that read or write the archive do not wait for it.
CREATE FUNCTION dlq.create_archive_partitions(p_ahead INT) RETURNS INT LANGUAGE plpgsql SECURITY DEFINER
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
        -- The application reads the partition only through the archive. The role for reports, which may read
        -- everything, may also read the partition directly.
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

-- Detaches the partitions whose messages were all archived longer ago than p_days, and returns how many. From then on
-- their messages are in no list. A partition that another session is reading is left for the next call, so that no
-- session waits long for this one.
CREATE FUNCTION dlq.detach_archive_partitions(p_days INT) RETURNS INT LANGUAGE plpgsql SECURITY DEFINER
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

-- Deletes what other tables have about up to p_batch messages of a detached partition, and returns the number of these
-- messages. After the last message it drops the partition. It returns 0 when nothing is left, or only a partition that
-- another caller is purging.
CREATE FUNCTION dlq.purge_detached(p_batch INT) RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    v_part dlq.archive_partitions;
    v_ids UUID[];
    v_times TIMESTAMPTZ[];
    v_first TIMESTAMPTZ;
    v_last TIMESTAMPTZ;
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
        EXECUTE format('SELECT array_agg(id ORDER BY id), array_agg(created_at ORDER BY id),
            min(created_at) FILTER (WHERE isfinite(created_at)), max(created_at) FILTER (WHERE isfinite(created_at))
            FROM (SELECT id, created_at FROM dlq.%I WHERE id > $1 ORDER BY id LIMIT $2) x', v_part.name)
            INTO v_ids, v_times, v_first, v_last USING v_part.forgotten, p_batch;
        IF v_ids IS NULL THEN
            EXECUTE format('DROP TABLE dlq.%I', v_part.name);
            DELETE FROM dlq.archive_partitions WHERE name = v_part.name;
            CONTINUE;
        END IF;
        WITH history AS (
            DELETE FROM dlq.attempts WHERE message_id = ANY (v_ids) RETURNING attempt_id
        )
        DELETE FROM dlq.returns WHERE attempt_id = ANY (ARRAY(SELECT attempt_id FROM history));
        DELETE FROM dlq.records WHERE message_id = ANY (v_ids);
        DELETE FROM dlq.edits WHERE message_id = ANY (v_ids);
        DELETE FROM dlq.message_documents d USING (
            SELECT o.message_id, o.created_at FROM dlq.message_documents o
            JOIN unnest(v_ids, v_times) AS m (id, created_at) ON m.id = o.message_id AND m.created_at = o.created_at
            WHERE o.created_at BETWEEN v_first AND v_last ORDER BY o.message_id FOR UPDATE OF o
        ) gone WHERE d.message_id = gone.message_id AND d.created_at = gone.created_at AND d.created_at BETWEEN v_first AND v_last;
        DELETE FROM dlq.archive_ids WHERE id = ANY (v_ids) AND archived_at < v_part.until_at;
        UPDATE dlq.archive_partitions SET forgotten = v_ids[cardinality(v_ids)] WHERE name = v_part.name;
        RETURN cardinality(v_ids);
    END LOOP;
END;
$$;

-- Cancels the deletion of an object that is about to enter the manifest.
CREATE FUNCTION dlq.keep_archive_object(p_key TEXT) RETURNS VOID LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM dlq.archive_deletions WHERE object_key = p_key AND NOT begun AND NOT replaced;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'object % took too long to write and is being deleted', p_key USING ERRCODE = '55000';
    END IF;
END;
$$;

-- Enters a new object into the manifest and deletes its messages from dlq_messages_archive, and returns how many. A
-- message that was restored, purged or changed since it was read (its version is its xmin) stays as it is, and is hidden
-- in the object. The attempts of the messages stay.
CREATE FUNCTION dlq.add_archive_object(p_object JSONB, p_ids UUID[], p_times TIMESTAMPTZ[], p_versions TEXT[])
RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_object dlq.archive_objects := jsonb_populate_record(NULL::dlq.archive_objects, p_object);
    v_gone UUID[];
    v_times TIMESTAMPTZ[];
    v_roots UUID[];
    v_numbers INT[];
    v_topics TEXT[];
    v_hidden BIGINT;
BEGIN
    PERFORM dlq.keep_archive_object(v_object.object_key);
    WITH gone AS (
        DELETE FROM dlq.dlq_messages_archive m
        USING unnest(p_ids, p_times, p_versions) AS x (id, archived_at, version)
        WHERE m.id = x.id AND m.archived_at = x.archived_at AND m.xmin::text = x.version
          AND m.archived_at BETWEEN v_object.first_archived_at AND v_object.last_archived_at
        RETURNING m.id, m.archived_at, m.root_id, m.dlq_topic_id, m.original_topic
    )
    SELECT array_agg(id), array_agg(archived_at), array_agg(root_id), array_agg(dlq_topic_id), array_agg(original_topic)
    INTO v_gone, v_times, v_roots, v_numbers, v_topics FROM gone;
    INSERT INTO dlq.archive_hidden (object_id, message_id)
    SELECT v_object.id, x.id FROM unnest(p_ids) AS x (id) WHERE NOT x.id = ANY (coalesce(v_gone, '{}'));
    GET DIAGNOSTICS v_hidden = ROW_COUNT;
    INSERT INTO dlq.archive_objects (id, object_key, bucket, day, messages, hidden, bytes, sha256, first_id, last_id,
        first_created_at, last_created_at, first_archived_at, last_archived_at)
    VALUES (v_object.id, v_object.object_key, v_object.bucket, v_object.day, v_object.messages, v_hidden, v_object.bytes, v_object.sha256,
        v_object.first_id, v_object.last_id, v_object.first_created_at, v_object.last_created_at,
        v_object.first_archived_at, v_object.last_archived_at);
    -- The trigger of the deletion has deleted the rows of these ids.
    INSERT INTO dlq.archive_ids (id, archived_at, object_id, root_id, dlq_topic_id)
    SELECT x.id, x.archived_at, v_object.id, x.root_id, x.dlq_topic_id
    FROM unnest(v_gone, v_times, v_roots, v_numbers) AS x (id, archived_at, root_id, dlq_topic_id) ORDER BY x.id;
    INSERT INTO dlq.archive_object_topics (object_id, original_topic, dlq_topic, messages)
    SELECT v_object.id, x.original_topic, coalesce(t.name, ''), count(*)
    FROM unnest(v_topics, v_numbers) AS x (original_topic, number) LEFT JOIN dlq.topics t ON t.id = x.number
    GROUP BY 2, 3;
    DELETE FROM dlq.undecoded_messages WHERE message_id = ANY (v_gone);
    RETURN coalesce(cardinality(v_gone), 0);
END;
$$;

-- Removes a message from the archive and hides it in its object. Returns false when the message is not in that object.
CREATE FUNCTION dlq.hide_archived(p_id UUID, p_object UUID, p_original_topic TEXT, p_dlq_topic TEXT)
RETURNS BOOLEAN LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM dlq.archive_objects WHERE id = p_object AND purged_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM dlq.archive_ids WHERE id = p_id AND object_id = p_object;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO dlq.archive_hidden (object_id, message_id) VALUES (p_object, p_id);
    UPDATE dlq.archive_objects SET hidden = hidden + 1 WHERE id = p_object;
    UPDATE dlq.archive_object_topics SET messages = messages - 1
    WHERE object_id = p_object AND original_topic = p_original_topic AND dlq_topic = p_dlq_topic;
    RETURN true;
END;
$$;

-- Returns the ids of the messages in an object, hidden ones included.
CREATE FUNCTION dlq.archive_object_ids(p_id UUID) RETURNS UUID[] LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(x.id), '{}') FROM (
        SELECT id FROM dlq.archive_ids WHERE object_id = p_id
        UNION ALL SELECT message_id FROM dlq.archive_hidden WHERE object_id = p_id
    ) x
$$;

-- Replaces the object with the key p_old by another one, which lacks the messages p_removed. Without p_object the object
-- has no messages left and leaves the manifest. Returns false, and changes nothing, when another session was faster.
CREATE FUNCTION dlq.replace_archive_object(p_id UUID, p_old TEXT, p_object JSONB, p_removed UUID[])
RETURNS BOOLEAN LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_new dlq.archive_objects := jsonb_populate_record(NULL::dlq.archive_objects, p_object);
    v_bucket TEXT;
    v_ids UUID[];
    v_removed BIGINT;
BEGIN
    SELECT bucket INTO v_bucket FROM dlq.archive_objects WHERE id = p_id AND object_key = p_old AND purged_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    v_ids := dlq.archive_object_ids(p_id);
    DELETE FROM dlq.archive_hidden WHERE object_id = p_id AND message_id = ANY (p_removed);
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    INSERT INTO dlq.archive_deletions (object_key, bucket, message_ids, replaced) VALUES (p_old, v_bucket, v_ids, true);
    IF p_object IS NULL THEN
        IF EXISTS (SELECT FROM dlq.archive_ids WHERE object_id = p_id) THEN
            RAISE EXCEPTION 'object % has messages of the archive', p_old USING ERRCODE = '55000';
        END IF;
        DELETE FROM dlq.archive_hidden WHERE object_id = p_id;
        DELETE FROM dlq.archive_object_topics WHERE object_id = p_id;
        DELETE FROM dlq.archive_objects WHERE id = p_id;
        RETURN true;
    END IF;
    PERFORM dlq.keep_archive_object(v_new.object_key);
    UPDATE dlq.archive_objects SET object_key = v_new.object_key, bucket = v_new.bucket, stored_at = now(), messages = v_new.messages,
        hidden = hidden - v_removed, bytes = v_new.bytes, sha256 = v_new.sha256, first_id = v_new.first_id,
        last_id = v_new.last_id, first_created_at = v_new.first_created_at, last_created_at = v_new.last_created_at,
        first_archived_at = v_new.first_archived_at, last_archived_at = v_new.last_archived_at
    WHERE id = p_id;
    RETURN true;
END;
$$;

-- Deletes up to p_batch messages of objects whose messages were all archived longer ago than p_days, with what other
-- tables have about them, and returns how many. After the last message the object leaves the manifest. It returns 0
-- when nothing is due, or only an object that another caller is purging.
CREATE FUNCTION dlq.purge_archive_objects(p_days INT, p_batch INT) RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    v_id UUID;
    v_key TEXT;
    v_bucket TEXT;
    v_ids UUID[];
BEGIN
    IF p_days IS NULL OR p_days < 0 OR p_batch IS NULL OR p_batch < 1 THEN
        RAISE EXCEPTION 'p_days must not be negative, p_batch must be positive' USING ERRCODE = '22023';
    END IF;
    LOOP
        SELECT id, object_key, bucket INTO v_id, v_key, v_bucket FROM dlq.archive_objects
        WHERE last_archived_at < now() - make_interval(days => p_days)
        ORDER BY last_archived_at LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN 0;
        END IF;
        v_ids := ARRAY(SELECT id FROM dlq.archive_ids WHERE object_id = v_id ORDER BY id LIMIT p_batch);
        IF cardinality(v_ids) = 0 THEN
            INSERT INTO dlq.archive_deletions (object_key, bucket, message_ids, replaced)
            VALUES (v_key, v_bucket, dlq.archive_object_ids(v_id), true);
            DELETE FROM dlq.archive_hidden WHERE object_id = v_id;
            DELETE FROM dlq.archive_object_topics WHERE object_id = v_id;
            DELETE FROM dlq.archive_objects WHERE id = v_id;
            CONTINUE;
        END IF;
        UPDATE dlq.archive_objects SET purged_at = coalesce(purged_at, now()) WHERE id = v_id;
        WITH history AS (
            DELETE FROM dlq.attempts WHERE message_id = ANY (v_ids) RETURNING attempt_id
        )
        DELETE FROM dlq.returns WHERE attempt_id = ANY (ARRAY(SELECT attempt_id FROM history));
        DELETE FROM dlq.edits WHERE message_id = ANY (v_ids);
        DELETE FROM dlq.archive_ids WHERE id = ANY (v_ids) AND object_id = v_id;
        RETURN cardinality(v_ids);
    END LOOP;
END;
$$;

-- Deletes a message of the archive for good, with everything that other tables have of its record or of its errors. With
-- p_object the message is in that object, with these topics and this created_at, and is hidden there. Returns false when
-- the message is not there. The position of its record stays, so it is not stored again.
CREATE FUNCTION dlq.erase_archived(p_id UUID, p_object UUID, p_original_topic TEXT, p_dlq_topic TEXT, p_created_at TIMESTAMPTZ)
RETURNS BOOLEAN LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF p_object IS NOT NULL THEN
        IF NOT dlq.hide_archived(p_id, p_object, p_original_topic, p_dlq_topic) THEN
            RETURN false;
        END IF;
        DELETE FROM dlq.message_documents WHERE message_id = p_id AND created_at = p_created_at;
    ELSE -- a trigger deletes the document
        DELETE FROM dlq.dlq_messages_archive m
        WHERE m.id = p_id AND m.archived_at = (SELECT k.archived_at FROM dlq.archive_ids k WHERE k.id = p_id);
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    WITH history AS (
        DELETE FROM dlq.attempts WHERE message_id = p_id RETURNING attempt_id
    )
    DELETE FROM dlq.returns WHERE attempt_id = ANY (ARRAY(SELECT attempt_id FROM history));
    DELETE FROM dlq.edits WHERE message_id = p_id;
    DELETE FROM dlq.undecoded_messages WHERE message_id = p_id;
    -- Answers are kept for a day. That of the present request is not stored yet.
    DELETE FROM dlq.idempotency_keys WHERE status IS NOT NULL AND position(convert_to(p_id::text, 'UTF8') IN body) > 0;
    UPDATE dlq.notifications SET message_ids = array_remove(message_ids, p_id),
        detail = CASE WHEN detail ? 'group' THEN jsonb_set(detail, '{group,title}', '""') ELSE detail END
    WHERE p_id = ANY (message_ids);
    PERFORM set_config('dlq.erasing', 'on', true);
    UPDATE dlq.audit SET last_error = NULL WHERE object_id = p_id AND kind = 'message' AND last_error IS NOT NULL;
    PERFORM set_config('dlq.erasing', 'off', true);
    RETURN true;
END;
$$;

-- The functions run with the rights of their owner. A trigger that exists runs them without this right.
REVOKE EXECUTE ON FUNCTION dlq.note_archived(), dlq.note_unarchived(), dlq.note_archive_changes(),
    dlq.note_archive_truncated(), dlq.note_archived_messages(), dlq.create_archive_partitions(INT),
    dlq.detach_archive_partitions(INT), dlq.purge_detached(INT), dlq.keep_archive_object(TEXT),
    dlq.add_archive_object(JSONB, UUID[], TIMESTAMPTZ[], TEXT[]), dlq.hide_archived(UUID, UUID, TEXT, TEXT),
    dlq.archive_object_ids(UUID), dlq.replace_archive_object(UUID, TEXT, JSONB, UUID[]),
    dlq.purge_archive_objects(INT, INT), dlq.erase_archived(UUID, UUID, TEXT, TEXT, TIMESTAMPTZ) FROM PUBLIC;

CREATE TRIGGER trg_dlq_messages_archive_refuse_ctid BEFORE DELETE ON dlq.dlq_messages_archive
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.refuse_delete_by_ctid();
CREATE TRIGGER trg_dlq_messages_archive_ids_insert AFTER INSERT ON dlq.dlq_messages_archive
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_archived();
CREATE TRIGGER trg_dlq_messages_archive_ids_delete AFTER DELETE ON dlq.dlq_messages_archive
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_unarchived();
CREATE TRIGGER trg_dlq_messages_archive_ids_update AFTER UPDATE ON dlq.dlq_messages_archive
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_archive_changes();
CREATE TRIGGER trg_dlq_messages_archive_ids_truncate AFTER TRUNCATE ON dlq.dlq_messages_archive
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_archive_truncated();
CREATE TRIGGER trg_archive_ids_note_archived AFTER INSERT ON dlq.archive_ids
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_archived_messages();
CREATE TRIGGER trg_archive_ids_note_restored AFTER DELETE ON dlq.archive_ids
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_archived_messages();
-- The same triggers as those of dlq_messages in 009.
CREATE TRIGGER trg_dlq_messages_archive_drop_documents AFTER DELETE ON dlq.dlq_messages_archive
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.drop_documents();
CREATE TRIGGER trg_dlq_messages_archive_truncate_documents AFTER TRUNCATE ON dlq.dlq_messages_archive
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.drop_truncated_documents();
CREATE TRIGGER trg_dlq_messages_archive_move_document AFTER UPDATE OF created_at ON dlq.dlq_messages_archive
    FOR EACH ROW WHEN (NEW.created_at IS DISTINCT FROM OLD.created_at) EXECUTE FUNCTION dlq.move_document();

-- Moves RESOLVED and DEAD rows whose updated_at is older than the retention to the archive. One statement deletes and
-- inserts a row, so the row is in exactly one of the two tables at every moment. Rows that another session has locked,
-- and rows that changed before they were locked, are left for the next run. CALL the procedure outside a transaction.
-- The number of moved rows is stored for the caller in the setting dlq.archived of the session.
--
-- A message cannot change before it was stored, so its updated_at is normally not before its created_at. Reading the
-- messages of a status along the index of created_at can therefore end at the first message that was stored after the
-- cut-off. A second query reads the index of backdated messages and finds the messages that are due although they were
-- stored later. No message is in both.
--
-- p_batch_size is the maximum number of rows that a transaction moves. A row stays locked until its transaction ends,
-- so a batch becomes smaller after one that took longer than 20 ms, and larger again after one that took less. The
-- first batch is small, because the cost of a row is not known yet. Each transaction also has a fixed cost, and a slow
-- commit is no faster for fewer rows. So fewer than a hundred rows are moved only when a hundred take longer than 40 ms
-- without the commit.
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
    v_size BIGINT;
    v_began TIMESTAMPTZ;
    v_moved DOUBLE PRECISION; -- milliseconds since the transaction began
    v_ended DOUBLE PRECISION; -- milliseconds including the commit
BEGIN
    IF p_retention_days IS NULL OR p_retention_days < 0 THEN
        RAISE EXCEPTION 'p_retention_days must not be negative' USING ERRCODE = '22023';
    END IF;
    IF p_batch_size IS NULL OR p_batch_size < 1 THEN
        RAISE EXCEPTION 'p_batch_size must be positive' USING ERRCODE = '22023';
    END IF;
    v_size := least(p_batch_size, 10);
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
            v_began := clock_timestamp();
            WITH usual AS MATERIALIZED (
                SELECT m.ctid AS place, m.created_at AS walked, m.id FROM dlq.dlq_messages m
                WHERE NOT v_backdated AND m.status = v_status AND m.created_at < v_cutoff AND m.updated_at < v_cutoff
                  AND (m.created_at, m.id) > (v_after_time, v_after_id)
                ORDER BY m.created_at, m.id
                LIMIT v_size FOR UPDATE SKIP LOCKED
            ), backdated AS MATERIALIZED (
                SELECT m.ctid AS place, m.updated_at AS walked, m.id FROM dlq.dlq_messages m
                WHERE v_backdated AND m.status = v_status AND m.status IN ('RESOLVED', 'DEAD')
                  AND m.updated_at < m.created_at AND m.created_at >= v_cutoff AND m.updated_at < v_cutoff
                  AND (m.updated_at, m.id) > (v_after_time, v_after_id)
                ORDER BY m.updated_at, m.id
                LIMIT v_size FOR UPDATE SKIP LOCKED
            ), picked AS MATERIALIZED (
                SELECT place, walked, id FROM usual UNION ALL SELECT place, walked, id FROM backdated
            ), moved AS (
                DELETE FROM dlq.dlq_messages m WHERE m.ctid = ANY (ARRAY(SELECT place FROM picked))
                RETURNING m.*
            ), kept AS (
                INSERT INTO dlq.dlq_messages_archive
                    (id, original_topic, error_message, retry_count, max_retries, payload, status,
                     created_at, updated_at, last_retry_at,
                     key, value, headers, payload_note, omitted_size, omitted_sha256, defect,
                     dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp,
                     original_partition, original_offset, original_timestamp, origin_confidence,
                     consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id,
                     attempt_no, rescues, claim_id, claim_expires_at, claim_topic, claim_topic_id, claim_partition,
                     claim_end_offset, unsettled, next_attempt_at, last_publish_error,
                     last_publish_error_class, outcome,
                     claim_redrive_id, record_hash, group_id, dlq_timestamp_ms, archived_at)
                SELECT id, original_topic, error_message, retry_count, max_retries, payload, status,
                     created_at, updated_at, last_retry_at,
                     key, value, headers, payload_note, omitted_size, omitted_sha256, defect,
                     dlq_topic_id, dlq_incarnation_id, dlq_partition, dlq_offset, dlq_timestamp,
                     original_partition, original_offset, original_timestamp, origin_confidence,
                     consumer_group, consumer_attempts, dialect, error_class, parent_id, root_id,
                     attempt_no, rescues, claim_id, claim_expires_at, claim_topic, claim_topic_id, claim_partition,
                     claim_end_offset, unsettled, next_attempt_at, last_publish_error,
                     last_publish_error_class, outcome,
                     claim_redrive_id, record_hash, group_id, dlq_timestamp_ms, clock_timestamp()
                FROM moved
                RETURNING 1
            )
            SELECT (SELECT count(*) FROM kept), walked, id INTO v_batch, v_after_time, v_after_id
            FROM picked ORDER BY walked DESC, id DESC LIMIT 1;
            EXIT WHEN NOT FOUND;
            v_archived := v_archived + v_batch;
            PERFORM set_config('dlq.archived', v_archived::text, false);
            v_moved := 1000 * extract(epoch FROM clock_timestamp() - v_began);
            COMMIT;
            v_ended := 1000 * extract(epoch FROM clock_timestamp() - v_began);
            IF v_batch = v_size OR v_ended > 20 THEN
                v_size := greatest(1, least(p_batch_size, 2 * v_size, greatest(floor(v_size * 20 / greatest(v_ended, 1)),
                    least(100, floor(v_size * 40 / greatest(v_moved, 1))))));
            END IF;
        END LOOP;
        COMMIT;
    END LOOP;
    RAISE NOTICE 'Archived % DLQ messages older than % days', v_archived, p_retention_days;
END;
$$;

-- The runs of the archiver. Its process ends before it could be scraped for metrics, so it stores the results here. A
-- run is 'running' from its beginning; a run that stays 'running' was killed. Later runs of the archiver delete old
-- rows, but not the last complete run.
CREATE TABLE dlq.archive_runs (
    id          UUID        PRIMARY KEY,
    started_at  TIMESTAMPTZ NOT NULL,
    finished_at TIMESTAMPTZ,
    result      TEXT        NOT NULL CHECK (result IN ('running', 'complete', 'incomplete', 'stopped')),
    moved       BIGINT      NOT NULL DEFAULT 0, -- messages moved to the archive
    purged      BIGINT      NOT NULL DEFAULT 0, -- messages deleted from the archive for good
    bookkept    BIGINT      NOT NULL DEFAULT 0, -- deleted rows of other kinds: keys, redrives, audit entries and so on
    error       TEXT        NOT NULL DEFAULT '' CHECK (octet_length(error) <= 2000),
    CHECK ((result = 'running') = (finished_at IS NULL))
);
CREATE INDEX idx_archive_runs_started_at ON dlq.archive_runs (started_at, id);
CREATE INDEX idx_archive_runs_complete ON dlq.archive_runs (finished_at, id) WHERE result = 'complete';

-- The application may write partitions only through the archive, because otherwise dlq.archive_ids would not be
-- updated.
DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT ON dlq.archived_messages, dlq.archive_ids, dlq.archive_partitions, dlq.archive_objects,
            dlq.archive_object_topics, dlq.archive_hidden TO dlq_rw;
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.dlq_messages_archive, dlq.archive_deletions, dlq.archive_runs TO dlq_rw;
        GRANT EXECUTE ON PROCEDURE dlq.archive_old_dlq_messages(INT, INT) TO dlq_rw;
        GRANT EXECUTE ON FUNCTION dlq.create_archive_partitions(INT), dlq.detach_archive_partitions(INT),
            dlq.purge_detached(INT), dlq.add_archive_object(JSONB, UUID[], TIMESTAMPTZ[], TEXT[]),
            dlq.hide_archived(UUID, UUID, TEXT, TEXT), dlq.archive_object_ids(UUID),
            dlq.replace_archive_object(UUID, TEXT, JSONB, UUID[]), dlq.purge_archive_objects(INT, INT),
            dlq.erase_archived(UUID, UUID, TEXT, TEXT, TIMESTAMPTZ) TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.dlq_messages_archive, dlq.archived_messages, dlq.archive_ids, dlq.archive_partitions,
            dlq.archive_objects, dlq.archive_object_topics, dlq.archive_hidden, dlq.archive_deletions,
            dlq.archive_runs TO dlq_ro;
    END IF;
END $$;

SELECT dlq.create_archive_partitions(1);
