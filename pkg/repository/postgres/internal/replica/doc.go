// Package replica lets a streaming replica of the database answer reads. When the data of the replica are too old for a
// read, the database itself answers.
//
// Read it in this order:
//
//   - reads.go: Reads, whose methods choose between the replica and the database
//   - export.go: an export that the database continues when the replica ends it
//   - readers.go: the statements of reads
//   - follower.go: how much of the log the replica has replayed, and which reads it may answer
package replica
