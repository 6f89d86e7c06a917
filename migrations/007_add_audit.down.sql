DROP FUNCTION dlq.purge_audit(INT, INT);
DROP TABLE dlq.audit;
DROP FUNCTION dlq.refuse_audit_change();
