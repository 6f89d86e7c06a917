SET LOCAL lock_timeout = '5s';

DROP TABLE dlq.notice_spikes;
DROP TABLE dlq.notice_sinks;
DROP TABLE dlq.notices;
DROP TABLE dlq.notice_state;
DROP INDEX dlq.idx_error_groups_untold;
ALTER TABLE dlq.error_groups DROP COLUMN told_regressed_at, DROP COLUMN told_new;
DROP INDEX dlq.idx_audit_told;
ALTER TABLE dlq.audit DROP COLUMN xid;
