// Package insight stores and reads what users look up about messages, and what replicas share: error groups, topics,
// activity, the audit trail, idempotency keys and sessions, notifications, the mapping, redirects, runs of the
// archiver, and drafts. It also deletes rows that are kept for a limited time.
package insight
