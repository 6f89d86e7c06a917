// Package republisher sends dead letters back to their original topic, or to the topic of an edit or a redirect. Key
// and value are sent byte for byte unless an edit or a setting changes them. It first decides to which partition a
// message would go, or why the message must not be sent. It sends the record with headers that mark it as a replay. If
// a process has died, it finds out whether the record of its attempt is in the target's log. Package redrive decides
// when attempts start, and handles their results.
//
// In reading order:
//
//   - plan.go: where a message would go, or why it must not be sent
//   - publish.go: sends claimed messages
//   - find.go: whether the record of an earlier claim is in the log
//   - settings.go: what a topic's own settings forbid, and how a large record is made to fit
//   - topic_ids.go: whether a topic was deleted and created again
//   - inspect.go: whether topics accept replays, and what their consumer groups do
//   - lag.go: how many dead letters are not stored yet
//   - committed.go: committed offsets of a consumer group
//   - disabled.go: takes the place of a Republisher when Kafka is not configured
//   - record.go: the record that is sent: key, headers, partition
//   - fetch.go: records that the store does not hold
//   - pointers.go: which dead letters may point to their record
//   - trace.go: the span of a send
//   - republisher.go: the type Republisher, and what it needs
//   - config.go: settings
//   - errors.go: translates Kafka's errors
package republisher
