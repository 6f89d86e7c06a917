// Package messages reads and changes messages: claims and results of attempts, pages, changes by operators, outcomes,
// and the archive. Every change is one statement, so it is atomic, unless the comment of its method says otherwise.
//
// Read it in this order:
//
//   - attempts.go: Attempts, which claims messages and finishes attempts
//   - restore.go: messages of the archive, read and restored
//   - archive.go: Archive, which moves and purges old messages
//   - operate.go: changes by operators
//   - map.go: a change of the original topic
//   - auto.go: AutoSends, what automatic retry has sent lately
//   - due.go: Schedule, messages whose next attempt is due
//   - outcomes.go: Outcomes, the committed offsets of consumer groups
//   - edits.go: stores the edits of attempts
//   - read.go: Messages, which reads pages and single messages
package messages
