// Package replica answers reads from a streaming replica of the database, as far as the replica is fresh enough, and from
// the database itself otherwise.
//
// Read it in this order:
//
//   - reads.go: Reads, each of which chooses between the two
//   - export.go: an export that the database continues when the replica ends it
//   - readers.go: the statements of reads
//   - follower.go: how far the replica is, and what it may answer
package replica
