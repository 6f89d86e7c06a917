-- dlq-db: removes the manifest. It refuses while there are objects with messages, or objects to delete, because nothing
-- else names them.
SET LOCAL lock_timeout = '5s';

DO $$ BEGIN
    LOCK TABLE dlq.archive_objects, dlq.archive_deletions IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM dlq.archive_objects) THEN
        RAISE EXCEPTION 'dlq.archive_objects names objects with archived messages, which this step would lose: restore or purge them first';
    END IF;
    IF EXISTS (SELECT FROM dlq.archive_deletions) THEN
        RAISE EXCEPTION 'dlq.archive_deletions names objects to delete, which this step would forget: run the archiver until it is empty; '
            'it has the objects that an object lock retains until their retained_until';
    END IF;
    IF to_regrole('dlq_rw') IS NOT NULL THEN
        REVOKE EXECUTE ON FUNCTION dlq.add_archive_object(JSONB, UUID[], TIMESTAMPTZ[], TEXT[]),
            dlq.hide_archived(UUID, UUID, TEXT, TEXT), dlq.replace_archive_object(UUID, TEXT, JSONB, UUID[]),
            dlq.purge_archive_objects(INT, INT), dlq.erase_archived(UUID, UUID, TEXT, TEXT, TIMESTAMPTZ),
            dlq.archive_object_ids(UUID) FROM dlq_rw;
    END IF;
END $$;
DROP FUNCTION dlq.erase_archived(UUID, UUID, TEXT, TEXT, TIMESTAMPTZ), dlq.purge_archive_objects(INT, INT), dlq.replace_archive_object(UUID, TEXT, JSONB, UUID[]),
    dlq.hide_archived(UUID, UUID, TEXT, TEXT), dlq.add_archive_object(JSONB, UUID[], TIMESTAMPTZ[], TEXT[]),
    dlq.keep_archive_object(TEXT), dlq.archive_object_ids(UUID);
CREATE OR REPLACE FUNCTION dlq.note_archive_truncated() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    TRUNCATE dlq.archive_ids;
    RETURN NULL;
END;
$$;
CREATE OR REPLACE FUNCTION dlq.refuse_audit_change() RETURNS TRIGGER LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('dlq.purging_audit', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'dlq.audit is append-only' USING ERRCODE = '42501';
END;
$$;
DROP INDEX dlq.idx_archive_ids_object;
ALTER TABLE dlq.archive_ids DROP COLUMN object_id, DROP COLUMN root_id, DROP COLUMN dlq_topic_id;
DROP TABLE dlq.archive_deletions, dlq.archive_hidden, dlq.archive_object_topics, dlq.archive_objects;
