package broker

import (
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
)

// The settings of the connections; see package conn.
type (
	Config     = conn.Config
	SASLConfig = conn.SASLConfig
	TLSConfig  = conn.TLSConfig
	Secret     = conn.Secret
	DialFunc   = conn.DialFunc
)

// DefaultConfig returns the settings of an unencrypted cluster, without brokers.
func DefaultConfig() Config { return conn.DefaultConfig() }

// Topics, records and answers as the wire protocol has them; see package protocol.
type (
	TopicPartition    = protocol.TopicPartition
	Topic             = protocol.Topic
	Partition         = protocol.Partition
	Record            = protocol.Record
	Defect            = protocol.Defect
	Limits            = protocol.Limits
	MemoryReservation = protocol.MemoryReservation
	FetchRequest      = protocol.FetchRequest
	FetchPartition    = protocol.FetchPartition
	FetchResponse     = protocol.FetchResponse
	FetchedPartition  = protocol.FetchedPartition
	Portions          = protocol.Portions
)

// The limits that a Defect may name, and the memory of a record's header without its name and value.
const (
	LimitRecordBytes = protocol.LimitRecordBytes
	LimitHeaders     = protocol.LimitHeaders
	LimitHeaderBytes = protocol.LimitHeaderBytes
	HeaderMemory     = protocol.HeaderMemory
)

// DefaultLimits returns the limits that Fetch uses where a request has none.
func DefaultLimits() Limits { return protocol.DefaultLimits() }

// Murmur2Partition returns the partition that Java's default partitioner chooses for a non-null key and n > 0
// partitions.
func Murmur2Partition(key []byte, n int) int32 { return protocol.Murmur2Partition(key, n) }
