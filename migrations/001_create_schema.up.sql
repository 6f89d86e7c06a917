-- dlq-db: schema, extension and common function (PostgreSQL 17).

CREATE SCHEMA IF NOT EXISTS dlq;

-- The down migration must drop pgcrypto only if this migration created it, so the comment of the schema says whether it
-- did.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'pgcrypto') THEN
        CREATE EXTENSION IF NOT EXISTS "pgcrypto";
        COMMENT ON SCHEMA dlq IS 'dead letters; pgcrypto was installed with it';
    ELSE
        COMMENT ON SCHEMA dlq IS 'dead letters';
    END IF;
END;
$$;

-- An UPDATE that sets updated_at keeps the value that it sets; any other UPDATE sets updated_at to the time of its
-- transaction.
CREATE OR REPLACE FUNCTION dlq.update_updated_at()
RETURNS TRIGGER AS $$
BEGIN
    IF NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at THEN
        NEW.updated_at = NOW();
    END IF;
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;
