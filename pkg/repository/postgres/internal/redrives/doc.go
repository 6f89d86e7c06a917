// Package redrives stores redrives: the selection of messages, which is fixed when a redrive is created, the batches
// that workers lease, and the results of the messages.
//
// Read it in this order:
//
//   - items.go: Results, the messages of a redrive and what became of them
//   - batches.go: Batches, leases and results of batches
//   - overlaps.go: messages of several redrives, errors of messages that came back
//   - redrives.go: Lifecycle, redrives and their states
//   - selection.go: the messages that a redrive takes
//   - json.go: selections and options as JSON
package redrives
