-- The trail shows one row for each request of a person.

SET LOCAL lock_timeout = '5s'; -- see 004

ALTER TABLE dlq.audit
    ADD COLUMN redrive_id UUID, -- of the redrive that changed the message; NULL: none
    ADD COLUMN call_id    UUID; -- of the HTTP request, made by the server: clients may send one request_id twice
ALTER TABLE dlq.redrives ADD COLUMN call_id UUID; -- as in dlq.audit
