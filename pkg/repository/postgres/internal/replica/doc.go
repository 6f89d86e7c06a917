// Package replica lets a streaming replica of the database answer reads. When the data of the replica are too old for a
// read, the database itself answers.
//
// Read it in this order:
//
//   - reads.go: Reads, in which each read chooses between the replica and the database
//   - follower.go: which changes the replica has, and which reads it may answer
package replica
