// Package objects keeps the manifest of the archive's second tier: which object of an object store contains which
// archived messages. pkg/archive/tier reads and writes the objects; this package contains the statements with which
// messages leave the database and come back to it. Every change is one statement, so it is atomic, unless the comment
// of its method says otherwise.
//
// Read it in this order:
//
//   - rewrite.go: Rewriter, which replaces, purges and deletes objects
//   - read.go: Reader, which finds objects, converts their rows to messages, and restores messages
//   - move.go: Mover, which selects archived messages, and deletes their rows when their object is in the manifest
package objects
