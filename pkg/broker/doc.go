// Package broker is the client for Kafka: it lists topics with their ids, reads and writes records byte for byte, and
// reports for every failed write whether the record can be in the log. Requests go to a leader by its broker id, so the
// client notices that a partition has a new leader as soon as the old leader says so, not only when a cache expires.
//
// Package internal/conn opens the connections, internal/token gets the tokens for signing in, internal/protocol
// contains the parts of the wire protocol that kafka-go lacks, and internal/inflate decompresses with bounded memory.
// In reading order:
//
//   - topics.go: the topics of the cluster, and whether the cluster answers
//   - fetch.go: reads records of many partitions from one leader
//   - read.go: one record, a range of a log, the time and the checksum that identify a batch
//   - offsets.go: the ends of logs, and committed offsets
//   - group.go: membership in a consumer group, and the states of consumer groups
//   - sharegroups.go: the configuration and the state of share groups, and configurations of topics and brokers
//   - producer.go: writes records so that a repeated try duplicates none
//   - produce_batch.go: sends one batch again and again until its result is known
//   - outcome.go: what an error of a write says about the record
//   - broker.go: the type Cluster, and how to open it
//   - leaders.go: the cache of partitions' leaders
//   - errors.go: the kinds of errors
//   - types.go: the types that internal/conn and internal/protocol define
package broker
