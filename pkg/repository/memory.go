package repository

import (
	"context"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// MemoryReservation limits the memory for the messages and attempts that one caller reads from a store.
type MemoryReservation interface {
	// Take reserves bytes of memory, or returns an error when they are not available now. The bytes stay reserved until
	// the owner of the reservation releases it.
	Take(bytes int64) error
}

type reservationKey struct{}

// WithMemoryReservation returns a context for reads from a store. A read with this context reserves, in the given
// reservation, the memory of the messages and attempts that it reads. When Take returns an error, the read ends and
// returns that error wrapped.
func WithMemoryReservation(ctx context.Context, reservation MemoryReservation) context.Context {
	return context.WithValue(ctx, reservationKey{}, reservation)
}

// ReserveMemory reserves bytes in the MemoryReservation of ctx. When ctx contains no MemoryReservation, the memory is
// not limited.
func ReserveMemory(ctx context.Context, bytes int64) error {
	reservation, ok := ctx.Value(reservationKey{}).(MemoryReservation)
	if !ok {
		return nil
	}
	return reservation.Take(bytes)
}

// Approximate memory that a message and a header use in addition to their bytes.
const (
	messageOverhead = 1 << 10
	headerOverhead  = 40
)

// SizeInMemory returns the approximate number of bytes that a message uses in memory. Parts of its record that were not
// loaded do not count.
func SizeInMemory(m *entity.Message) int64 {
	n := messageOverhead + len(m.ErrorMessage) + len(m.Record.Key) + len(m.Record.Value) + headerOverhead*len(m.Record.Headers)
	for _, h := range m.Record.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return int64(n)
}

// EditSizeInMemory returns the approximate number of bytes that the edit of an attempt uses in memory; 0 when e is nil.
func EditSizeInMemory(e *entity.Edit) int64 {
	if e == nil {
		return 0
	}
	return SizeInMemory(&entity.Message{Record: entity.Record{Key: e.Key, Value: e.Value, Headers: e.Headers}}) + int64(len(e.Patch))
}
