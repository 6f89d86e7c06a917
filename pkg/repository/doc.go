// Package repository defines what a store must do (the storage contract); it has no implementation. The PostgreSQL
// store implements all of it, the memory store only Core; package repositorytest tests each promise of the contract on
// the stores that implement it.
//
// Read it in this order:
//
//   - repository.go: Repository, Core and Reader
//   - features.go: topics, outcomes, audit trail, mapping, quarantine and other features
//   - index.go: the search index
//   - attempts.go: claims and results of attempts
//   - auto.go: what automatic retry has sent, and its pauses
//   - ingest.go: incoming records
//   - shares.go: the records to which dead letters of share groups point
//   - redrives.go: redrives and their batches, and changes of many messages
//   - keys.go: Idempotency-Keys
//   - engine.go: what a store and a search engine outside of it exchange
//   - facets.go: the values of matching messages
//   - objects.go: archived messages in objects
//   - search.go: searches, counts, exports and the archive
//   - reading.go: reads that a replica of the database may answer
//   - notifications.go: events and notifications
//   - groups.go: error groups
//   - cursor.go: the cursor after which the next page of a list begins
//   - memory.go: how much memory readers may use
package repository
