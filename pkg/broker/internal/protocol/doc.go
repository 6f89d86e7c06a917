// Package protocol has the parts of Kafka's wire protocol that kafka-go lacks, does with unbounded memory, or hides: a
// Request writes itself to a connection and reads its answer; Fetch answers are decoded batch by batch within a
// reservation of memory; batches are encoded without a copy of large values. It opens no connection and starts no
// goroutine. In reading order:
//
//   - metadata.go: topics with their ids, and the states of consumer groups
//   - sharegroups.go: the configuration and the state of share groups
//   - fetch.go: records of many partitions of one leader
//   - cursor.go: one partition's answer, read in portions; transactions
//   - legacy.go: the records of formats 0 and 1
//   - records.go: the records of a batch of format 2
//   - source.go: decompressed bytes within limits
//   - encode.go: batches and Produce requests
//   - batch.go: the header of a batch
//   - record.go: a record and its memory
//   - limits.go: limits, defects and reservations of memory
//   - wire.go: primitive types
//   - request.go: Request, and requests that kafka-go can encode
//   - errors.go: error codes and their kinds
//   - murmur2.go: the partition of a key
package protocol
