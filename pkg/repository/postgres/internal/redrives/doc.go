// Package redrives stores redrives: the selection of messages, which is fixed when a redrive is created, the batches
// that workers lease, and the results of the messages.
//
// Read it in this order:
//
//   - bounds.go: Bounds, which bounds how many messages are sent while outcomes are not known
//   - items.go: Results, which reads the messages of redrives and their results
//   - batches.go: Batches, which leases batches and stores their results
//   - overlaps.go: redrives that select the same messages, and errors of messages that came back
//   - redrives.go: Lifecycle, which creates redrives and changes their states
//   - selection.go: the query for the messages that a redrive selects
//   - json.go: selections and options as JSON
package redrives
