// Package insight stores and reads what users want to know about messages, and what the replicas of a program share:
// error groups, topics, activity, the audit trail, idempotency keys and sessions, notifications, the mapping,
// redirects, runs of the archiver, and drafts. It also deletes rows that are kept for a limited time.
//
// Read it in this order:
//
//   - bookkeeping.go: Bookkeeping, the deletion of old rows
//   - runs.go: Runs of the archiver
//   - keys.go: Keys, and Sessions of people
//   - drafts.go: Drafts of the console's forms
//   - mappings.go: Mappings from dead-letter topics to original topics
//   - views.go: SavedViews, filters of lists
//   - redirects.go: RedirectStore, the redirects of original topics
//   - notifications.go: Notifications and their sinks
//   - events.go: Activity, events for notifications, and arrivals
//   - topics.go: Topics, summaries and totals
//   - audit.go: Audit, the audit trail
//   - unclassified.go: messages that got no error group of their own, because their topic has too many new error groups
//   - groups.go: Groups, error groups
//   - groups_query.go: the query for error groups
package insight
