// Package replica lets a streaming replica of the database answer reads. When the data of the replica are too old for a
// read, the database itself answers.
//
// Read it in this order:
//
//   - reads.go: Reads, each of which chooses between the two
//   - export.go: an export that the database continues when the replica ends it
//   - readers.go: the statements of reads
//   - follower.go: how far the replica is, and what it may answer
package replica
