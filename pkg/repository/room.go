package repository

import (
	"context"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Room is the memory that a caller of a store may use for what it reads.
type Room interface {
	// Take reserves bytes, or says why they cannot be had now. What was reserved
	// belongs to the caller until the caller releases it.
	Take(bytes int64) error
}

type roomKey struct{}

// WithRoom returns a context whose reads of messages and attempts take their memory
// from room while they read: an error of Take ends the read, and is returned wrapped.
func WithRoom(ctx context.Context, room Room) context.Context {
	return context.WithValue(ctx, roomKey{}, room)
}

// TakeRoom takes bytes from the room of ctx. Without one there is no limit.
func TakeRoom(ctx context.Context, bytes int64) error {
	room, ok := ctx.Value(roomKey{}).(Room)
	if !ok {
		return nil
	}
	return room.Take(bytes)
}

// What a message and a header take in memory beside their bytes, about.
const (
	messageOverhead = 1 << 10
	headerOverhead  = 40
)

// SizeInMemory is about how many bytes a message takes, with all that was loaded of
// it.
func SizeInMemory(m *entity.Message) int64 {
	n := messageOverhead + len(m.ErrorMessage) + len(m.Record.Key) + len(m.Record.Value) + headerOverhead*len(m.Record.Headers)
	for _, h := range m.Record.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return int64(n)
}

// EditSizeInMemory is about how many bytes an attempt's edit takes; 0 for none.
func EditSizeInMemory(e *entity.Edit) int64 {
	if e == nil {
		return 0
	}
	return SizeInMemory(&entity.Message{Record: entity.Record{Key: e.Key, Value: e.Value, Headers: e.Headers}}) + int64(len(e.Patch))
}
