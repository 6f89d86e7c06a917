package repository

import (
	"context"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// MemoryReservation limits the memory that a caller of a store may use for what it reads.
type MemoryReservation interface {
	// Take reserves bytes, or returns an error when they are not available now. The caller owns the reservation until
	// it releases it.
	Take(bytes int64) error
}

type reservationKey struct{}

// WithMemoryReservation returns a context whose reads of messages and attempts reserve their memory in reservation: an
// error of Take ends the read, and is returned wrapped.
func WithMemoryReservation(ctx context.Context, reservation MemoryReservation) context.Context {
	return context.WithValue(ctx, reservationKey{}, reservation)
}

// ReserveMemory reserves bytes in the reservation of ctx. Without a reservation there is no limit.
func ReserveMemory(ctx context.Context, bytes int64) error {
	reservation, ok := ctx.Value(reservationKey{}).(MemoryReservation)
	if !ok {
		return nil
	}
	return reservation.Take(bytes)
}

// Approximate memory of a message and of a header in addition to their bytes.
const (
	messageOverhead = 1 << 10
	headerOverhead  = 40
)

// SizeInMemory returns approximately how many bytes a message takes in memory, with the parts of its record that
// were loaded.
func SizeInMemory(m *entity.Message) int64 {
	n := messageOverhead + len(m.ErrorMessage) + len(m.Record.Key) + len(m.Record.Value) + headerOverhead*len(m.Record.Headers)
	for _, h := range m.Record.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return int64(n)
}

// EditSizeInMemory returns approximately how many bytes an attempt's edit takes in memory; 0 for none.
func EditSizeInMemory(e *entity.Edit) int64 {
	if e == nil {
		return 0
	}
	return SizeInMemory(&entity.Message{Record: entity.Record{Key: e.Key, Value: e.Value, Headers: e.Headers}}) + int64(len(e.Patch))
}
