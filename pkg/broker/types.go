package broker

import (
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/token"
)

// The settings of the connections.
type (
	// Config holds the settings of the connection to one Kafka cluster.
	Config = conn.Config
	// SASLConfig holds the user's credentials.
	SASLConfig = conn.SASLConfig
	// OAuthConfig says where tokens come from.
	OAuthConfig = token.Config
	// OAuthExtension is a name and a value that brokers get with a token.
	OAuthExtension = token.Extension
	// TLSConfig names certificates in PEM files.
	TLSConfig = conn.TLSConfig
	// Secret is a text that logs, dumps and JSON do not show.
	Secret = conn.Secret
	// DialFunc opens one network connection to a broker.
	DialFunc = conn.DialFunc
)

// DefaultConfig returns the settings of an unencrypted cluster, without brokers.
func DefaultConfig() Config { return conn.DefaultConfig() }

// Topics, records and answers of Kafka.
type (
	// TopicPartition names one log of a cluster.
	TopicPartition = protocol.TopicPartition
	// Topic is a broker's description of a topic.
	Topic = protocol.Topic
	// Partition is one log of a Topic.
	Partition = protocol.Partition
	// Record is one record of a log, as its producer wrote it.
	Record = protocol.Record
	// Defect describes the missing parts of a Record.
	Defect = protocol.Defect
	// Limits limit the memory of one record and the work of one batch.
	Limits = protocol.Limits
	// MemoryReservation is memory that is reserved for decoding.
	MemoryReservation = protocol.MemoryReservation
	// FetchRequest asks one broker for records of partitions that it leads.
	FetchRequest = protocol.FetchRequest
	// FetchPartition is a partition and the offset to read from.
	FetchPartition = protocol.FetchPartition
	// FetchResponse has one entry for each partition of the request, in its order.
	FetchResponse = protocol.FetchResponse
	// FetchedPartition is the answer for one partition.
	FetchedPartition = protocol.FetchedPartition
	// Portions reads a broker's answer for one partition piece by piece.
	Portions = protocol.Portions
)

// The limits that a Defect may name.
const (
	LimitRecordBytes = protocol.LimitRecordBytes
	LimitHeaders     = protocol.LimitHeaders
	LimitHeaderBytes = protocol.LimitHeaderBytes

	// HeaderMemory is the memory of a record's header without its name and value.
	HeaderMemory = protocol.HeaderMemory
)

// DefaultLimits returns the limits that Fetch uses where a request has none.
func DefaultLimits() Limits { return protocol.DefaultLimits() }

// Murmur2Partition returns the partition that Java's default partitioner chooses for a non-null key and n > 0
// partitions.
func Murmur2Partition(key []byte, n int) int32 { return protocol.Murmur2Partition(key, n) }
