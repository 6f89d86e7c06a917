package ingest

import (
	"errors"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Config configures the reading and storing of records.
type Config struct {
	// MaxRetries is the number of attempts that a new message may have.
	MaxRetries int `mapstructure:"max_retries"`
	// MaxRecordBytes limits the size of a record's key and value together. Of a larger record, the parts that exceed the
	// limit are not stored; the SHA-256 of the value is.
	MaxRecordBytes int64 `mapstructure:"max_record_bytes"`
	// MaxHeaders limits the number of a record's headers. Of a record with more headers, the first headers are stored,
	// together with the SHA-256 of its value.
	MaxHeaders int `mapstructure:"max_headers"`
	// MaxHeaderBytes limits the size of all names and values of a record's headers together. Of a record with larger
	// headers, the first headers are stored, together with the SHA-256 of its value.
	MaxHeaderBytes int64 `mapstructure:"max_header_bytes"`
	// MaxBatchBytes limits the decompressed size of a batch; the records of a batch that lie after this size cannot be
	// read. MaxBatchBytes limits the time that a batch takes, not the memory.
	MaxBatchBytes int64 `mapstructure:"max_batch_bytes"`
	// Payload says when the column payload, which contains a value as JSON for SQL, is filled. With "background" it is
	// filled within seconds, with "inline" when the message is stored, with "never" not at all.
	Payload string `mapstructure:"payload"`
	// PayloadMaxBytes is the size of the largest value for which the column payload is filled; with 0 it is never
	// filled.
	PayloadMaxBytes int64 `mapstructure:"payload_max_bytes"`
	// DiscoveryInterval is the pause between two requests for the list of topics. The ingester begins to read a new
	// topic within three such intervals.
	DiscoveryInterval time.Duration `mapstructure:"discovery_interval"`
	// SessionTimeout is the time after which the partitions of a crashed ingester are given to other ingesters.
	SessionTimeout time.Duration `mapstructure:"session_timeout"`
	// BufferBytes limits the memory for records that are fetched but not stored yet.
	BufferBytes int64 `mapstructure:"buffer_bytes"`
	// Writers is the maximum number of batches that are stored at the same time.
	Writers int `mapstructure:"writers"`
	// ReturnWindow is the time after a replay in which a dead letter with the same key and value counts as the return
	// of that replay, although it has no dlq- headers; 0 means never.
	ReturnWindow time.Duration `mapstructure:"return_window"`
	// QuarantineMaxRows is the maximum number of a topic's records in quarantine. A topic with more records is not
	// read.
	QuarantineMaxRows int64 `mapstructure:"quarantine_max_rows"`
}

// DefaultConfig returns the default settings.
func DefaultConfig() Config {
	limits := broker.DefaultLimits()
	return Config{
		MaxRetries:        entity.DefaultMaxRetries,
		MaxRecordBytes:    limits.RecordBytes,
		MaxHeaders:        limits.Headers,
		MaxHeaderBytes:    limits.HeaderBytes,
		MaxBatchBytes:     limits.BatchBytes,
		Payload:           "background",
		PayloadMaxBytes:   64 << 10,
		DiscoveryInterval: 5 * time.Second,
		SessionTimeout:    15 * time.Second,
		BufferBytes:       24 << 20,
		Writers:           4,
		ReturnWindow:      24 * time.Hour,
		QuarantineMaxRows: 10_000,
	}
}

// Validate reports every invalid value.
func (c Config) Validate() error {
	var errs []error
	wrong := func(bad bool, key, reason string) {
		if bad {
			errs = append(errs, &entity.FieldError{Field: "ingest." + key, Reason: reason})
		}
	}
	wrong(c.MaxRetries < 0 || c.MaxRetries > 1000, "max_retries", "must be 0 to 1000")
	wrong(c.MaxRecordBytes < 1 || c.MaxRecordBytes > 512<<20, "max_record_bytes", "must be 1 to 512MiB")
	wrong(c.MaxHeaders < 1 || c.MaxHeaders > 1_000_000, "max_headers", "must be 1 to 1000000")
	wrong(c.MaxHeaderBytes < 1 || c.MaxHeaderBytes > 64<<20, "max_header_bytes", "must be 1 to 64MiB")
	wrong(c.MaxBatchBytes < 1<<20, "max_batch_bytes", "must be at least 1MiB")
	wrong(!slices.Contains([]string{"background", "inline", "never"}, c.Payload), "payload", "must be background, inline or never")
	wrong(c.PayloadMaxBytes < 0 || c.PayloadMaxBytes > 1<<20, "payload_max_bytes", "must be 0 to 1MiB")
	wrong(c.DiscoveryInterval < 100*time.Millisecond || c.DiscoveryInterval > 10*time.Second,
		"discovery_interval", "must be 100ms to 10s, so that a new topic is read within 30s")
	wrong(c.SessionTimeout < time.Second, "session_timeout", "must be at least 1s")
	wrong(c.BufferBytes < 1<<20, "buffer_bytes", "must be at least 1MiB")
	wrong(c.ReturnWindow < 0 || c.ReturnWindow > 30*24*time.Hour, "return_window", "must be 0s to 720h")
	wrong(c.QuarantineMaxRows < 1 || c.QuarantineMaxRows > 1_000_000, "quarantine_max_rows", "must be 1 to 1000000")
	wrong(c.Writers < 1 || c.Writers > 16, "writers", "must be 1 to 16")
	return errors.Join(errs...)
}

func (c Config) limits() broker.Limits {
	return broker.Limits{RecordBytes: c.MaxRecordBytes, Headers: c.MaxHeaders, HeaderBytes: c.MaxHeaderBytes, BatchBytes: c.MaxBatchBytes}
}

// largest returns the maximum number of bytes that a single record within the limits uses in memory.
func (c Config) largest() int64 {
	return c.MaxRecordBytes + c.MaxHeaderBytes + 3*int64(broker.HeaderMemory*c.MaxHeaders) + 1<<20
}

// unit returns the maximum size in bytes of one answer to a fetch request, and of one portion of a large batch.
func (c Config) unit() int64 { return min(fetchBytes, c.BufferBytes/4) }
