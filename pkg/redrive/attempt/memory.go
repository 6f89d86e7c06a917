package attempt

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	// batchBytes is the number of bytes of a batch that Load reads at once. A larger message is loaded alone.
	batchBytes = 8 << 20

	// bytesUnderWay limits the memory, in bytes, of all messages that redrives, automatic retries and single large retries
	// load or hold. A message that needs more is sent while no other message is in memory.
	bytesUnderWay = 32 << 20

	// copies is the largest number of copies of a large value that are in memory at the same time: first the row that
	// the database driver has read and the value decoded from it, later the value and its patched or compressed form.
	// Sending the value makes no further copy.
	copies = 2
	// size in bytes from which a retry of a single message waits for memory, as redrives do.
	largeRetry = entity.RetryValueLimit + 1
)

// Loader reads messages with their records. It limits the memory that all loaded messages take.
type Loader struct {
	store  Store
	memory *semaphore.Weighted
}

func newLoader(store Store) *Loader {
	return &Loader{store: store, memory: semaphore.NewWeighted(bytesUnderWay)}
}

// ValueCopies is the number of copies of each value that a caller of Load keeps in memory: Unpatched or Patched.
type ValueCopies int64

// The number of copies that a caller of Load keeps: without a patch, and with a patch.
const (
	Unpatched ValueCopies = 1
	Patched   ValueCopies = 2 // the original value and the patched value
)

// Reservation is memory reserved for messages. To avoid deadlock, a holder never requests more memory.
type Reservation struct {
	of *semaphore.Weighted

	mu   sync.Mutex
	held int64
}

// reserve waits until the given number of bytes can be reserved. If the number exceeds bytesUnderWay, it reserves all
// of bytesUnderWay.
func (l *Loader) reserve(ctx context.Context, bytes int64) (*Reservation, error) {
	r := &Reservation{of: l.memory, held: min(bytes, bytesUnderWay)}
	if err := l.memory.Acquire(ctx, r.held); err != nil {
		return nil, fmt.Errorf("wait for memory: %w", err)
	}
	return r, nil
}

// shrink releases memory until the reservation has only the given number of bytes; it never requests further memory.
func (r *Reservation) shrink(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes < r.held {
		r.of.Release(r.held - bytes)
		r.held = bytes
	}
}

// Release releases all memory. A second call has no effect.
func (r *Reservation) Release() { r.shrink(0) }

// Load reads the first of ids, up to batchBytes, after waiting for the memory that they need; the caller must release
// the reservation. A larger message is loaded alone, or together with others that fit into the memory reserved for it.
func (l *Loader) Load(ctx context.Context, ids []uuid.UUID, n ValueCopies) (messages []entity.Message, taken int, r *Reservation, err error) {
	limit, need := int64(batchBytes), int64(n)*batchBytes
	for {
		if r, err = l.reserve(ctx, need); err != nil {
			return nil, 0, nil, err
		}
		messages, taken, err = l.store.Load(ctx, ids, limit)
		var large *repository.TooLargeError
		switch {
		case err == nil:
			if limit == batchBytes {
				r.shrink(int64(n) * weight(messages))
			}
			return messages, taken, r, nil
		case !errors.As(err, &large):
			r.Release()
			return nil, 0, nil, fmt.Errorf("load messages: %w", err)
		}
		r.Release()
		limit, need = large.Bytes, copies*large.Bytes
	}
}

// weight returns the memory that messages take, in bytes.
func weight(messages []entity.Message) int64 {
	var n int64
	for i := range messages {
		r := &messages[i].Record
		n += int64(len(r.Value) + len(r.Key))
		for _, h := range r.Headers {
			n += int64(len(h.Key) + len(h.Value))
		}
	}
	return n
}
