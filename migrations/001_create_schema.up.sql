-- dlq-db: schema, extension and common function (PostgreSQL 17).

CREATE SCHEMA IF NOT EXISTS dlq;

-- The way down removes pgcrypto only where this step brought it, so the schema
-- remembers that it did.
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

-- An UPDATE that names updated_at itself keeps what it says; every other one
-- gets the time of its transaction.
CREATE OR REPLACE FUNCTION dlq.update_updated_at()
RETURNS TRIGGER AS $$
BEGIN
    IF NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at THEN
        NEW.updated_at = NOW();
    END IF;
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;
