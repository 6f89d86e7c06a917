// Package ingest stores incoming records: it stores messages and moves positions in one statement, recognises returns
// of attempts, keeps refused records in quarantine, fills the column payload, and completes the dead letters of share
// groups.
//
// Read it in this order:
//
//   - quarantine.go: Quarantine, the records that could not be stored
//   - shares.go: Shares, which completes the dead letters of share groups
//   - ingest.go: Ingester, which stores batches
//   - refused.go: finds the message that PostgreSQL refuses, by bisecting its batch
//   - positions.go: Positions, the store's ids of topics and the next offset of each partition
//   - repeats.go: dead letters of share groups that repeat another one
//   - recent.go: other dead letters that repeat another one
//   - args.go: a batch as the arguments of a statement
//   - lineage.go: finds returns, by headers and by content
//   - payloads.go: Payloads, which fills the column payload later
//   - projection.go: which values the column payload can hold
//   - batch.go: a batch, together with what was computed for its messages
package ingest
