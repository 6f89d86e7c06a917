-- dlq-db: the audit trail can show one row for each request of a person.

SET LOCAL lock_timeout = '5s'; -- see 004

ALTER TABLE dlq.audit
    ADD COLUMN redrive_id UUID, -- redrive that changed the message; NULL for none
    ADD COLUMN call_id    UUID; -- made by the server for each HTTP request, because clients may repeat a request_id
ALTER TABLE dlq.redrives ADD COLUMN call_id UUID; -- see dlq.audit
