// Package ingest stores incoming records: it moves positions and stores messages in one statement, recognises returns
// of attempts, keeps refused records in quarantine, fills the column payload, and completes the dead letters of share
// groups.
//
// Read it in this order:
//
//   - quarantine.go: Quarantine, the records that could not be stored
//   - shares.go: Shares, which completes the dead letters of share groups
//   - ingest.go: Ingester, which stores batches
//   - refused.go: bisecting a batch with a refused message
//   - positions.go: Positions, numbers of topics and the next offset of each partition
//   - repeats.go: dead letters of share groups that repeat another one
//   - args.go: a batch as arguments
//   - lineage.go: returns, by headers and by content
//   - payloads.go: Payloads, which fills the column payload later
//   - projection.go: which values the column payload can hold
//   - batch.go: a batch with what was computed for its messages
package ingest
