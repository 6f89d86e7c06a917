// Package objects keeps the manifest of the archive's second tier: which object of an object store has which archived
// messages. pkg/archive/tier reads and writes the objects; this package has the statements with which messages leave
// and enter the database. Every method sends one statement, so it is atomic, unless its comment says otherwise.
//
// Read it in this order:
//
//   - rewrite.go: Rewriter, which replaces, purges and deletes objects
//   - read.go: Reader, which finds objects and makes messages of their rows, and restores messages
//   - move.go: Mover, which selects rows, and deletes them when their object is in the manifest
package objects
