// Package ingest stores every record of every dead-letter topic exactly once. It finds those topics, shares their
// partitions with other ingesters through a consumer group, and continues from the positions in the store; Kafka's
// own offsets are committed for lag tools only. Package deadletter decodes the records, and the store persists them.
//
//	discovery ──▶ membership ──▶ generation ──▶ fetcher (one a leader)
//	(which topics)  (consumer      (assigned        │ chunks, bounded by bytes
//	                 group)         partitions)     ▼
//	                                            writers ──▶ store, then commit
//
// In reading order:
//
//   - ingest.go: New and Run
//   - discovery.go: which topics there are to read
//   - rules.go: the operators' mapping of topics
//   - member.go: membership in the consumer group
//   - generation.go: one assignment of partitions
//   - reader.go: gives partitions to their leaders' fetchers
//   - unpack.go: reads a batch that is too large for its share
//   - fetch.go: reads the partitions of one leader
//   - open.go: from which offset a partition is read
//   - writer.go: stores chunks in order
//   - quarantine.go: records that the store refused
//   - decode.go: records as messages of the store
//   - error_groups.go: which messages failed for the same cause
//   - consumer_groups.go: which consumer groups read which topics
//   - returns.go: replays that came back
//   - trace.go: the span of a batch
//   - store.go: calls to the store that survive its outages
//   - commit.go: commits offsets for lag tools
//   - chunk.go: a range of offsets with its records
//   - partition.go: the state of a partition
//   - ingester.go: the type Ingester, and what it needs
//   - config.go: settings
//   - metrics.go: metrics
package ingest
