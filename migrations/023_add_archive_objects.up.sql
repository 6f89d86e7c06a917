-- dlq-db: a second tier of the archive. Closed days of archived messages are in objects of an S3-compatible store; these
-- tables have what the database keeps about them: the manifest.

SET LOCAL lock_timeout = '5s'; -- see 004

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

-- A message whose object_id is set is in that object and not in dlq_messages_archive. root_id and dlq_topic_id are for
-- returns of its attempts.
ALTER TABLE dlq.archive_ids ADD COLUMN object_id UUID, ADD COLUMN root_id UUID, ADD COLUMN dlq_topic_id INT;
CREATE INDEX idx_archive_ids_object ON dlq.archive_ids (object_id, id) WHERE object_id IS NOT NULL;

CREATE OR REPLACE FUNCTION dlq.note_archive_truncated() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM dlq.archive_ids WHERE object_id IS NULL;
    RETURN NULL;
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

-- An erasure may remove the error texts of the entries of a message, and change nothing else.
CREATE OR REPLACE FUNCTION dlq.refuse_audit_change() RETURNS TRIGGER LANGUAGE plpgsql
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

-- Deletes a message of the archive for good, with everything that other tables have of its record or of its errors. With
-- p_object the message is in that object, with these topics and this created_at, and is hidden there. Returns false when the message is not there. The position
-- of its record stays, so it is not stored again.
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

-- The functions run with the rights of their owner.
REVOKE EXECUTE ON FUNCTION dlq.keep_archive_object(TEXT), dlq.add_archive_object(JSONB, UUID[], TIMESTAMPTZ[], TEXT[]),
    dlq.hide_archived(UUID, UUID, TEXT, TEXT), dlq.replace_archive_object(UUID, TEXT, JSONB, UUID[]),
    dlq.purge_archive_objects(INT, INT), dlq.erase_archived(UUID, UUID, TEXT, TEXT, TIMESTAMPTZ), dlq.archive_object_ids(UUID) FROM PUBLIC;

DO $$ BEGIN
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        GRANT SELECT ON dlq.archive_objects, dlq.archive_object_topics, dlq.archive_hidden TO dlq_rw;
        GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.archive_deletions TO dlq_rw;
        GRANT EXECUTE ON FUNCTION dlq.add_archive_object(JSONB, UUID[], TIMESTAMPTZ[], TEXT[]),
            dlq.hide_archived(UUID, UUID, TEXT, TEXT), dlq.replace_archive_object(UUID, TEXT, JSONB, UUID[]),
            dlq.purge_archive_objects(INT, INT), dlq.erase_archived(UUID, UUID, TEXT, TEXT, TIMESTAMPTZ), dlq.archive_object_ids(UUID) TO dlq_rw;
    END IF;
    IF to_regrole('dlq_ro') IS NOT NULL THEN
        GRANT SELECT ON dlq.archive_objects, dlq.archive_object_topics, dlq.archive_hidden, dlq.archive_deletions TO dlq_ro;
    END IF;
END $$;
