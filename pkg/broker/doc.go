// Package broker is the client for Kafka: it lists topics with their ids, reads and writes records byte for byte, and
// reports for every failed write whether the record can be in the log. Requests go to a leader by its broker id, so the
// client notices that a partition has a new leader as soon as the old leader says so, not only when a cache expires.
//
// Package internal/conn has the connections, internal/token the tokens to sign in with, internal/protocol the parts of
// the wire protocol that kafka-go lacks, internal/inflate the decompression with bounded memory. In reading order:
//
//   - topics.go: the topics of the cluster, and whether it answers
//   - fetch.go: records of many partitions of one leader
//   - read.go: one record, a range of a log, the mark of a batch
//   - offsets.go: the ends of logs, and committed offsets
//   - group.go: membership in a consumer group, and the states of consumer groups
//   - sharegroups.go: the configuration and the state of share groups, and configurations of topics and brokers
//   - producer.go: writes without duplicates
//   - produce_batch.go: one batch, until its result is known
//   - outcome.go: what a failed write means
//   - broker.go: the type Cluster, and how to open it
//   - leaders.go: the cache of partitions' leaders
//   - errors.go: the kinds of errors
//   - types.go: the types that conn and protocol define
package broker
