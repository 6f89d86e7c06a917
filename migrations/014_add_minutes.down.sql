DELETE FROM dlq.activity WHERE minutes = 1;
ALTER TABLE dlq.activity DROP CONSTRAINT activity_minutes_check,
    ADD CONSTRAINT activity_minutes_check CHECK (minutes IN (5, 60));
DROP TABLE dlq.group_minutes;
