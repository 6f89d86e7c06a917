package redrive

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
	// batchBytes is how many bytes of a batch are loaded at once. A larger message is loaded alone.
	batchBytes = 8 << 20

	// bytesUnderWay limits the memory, in bytes, of all messages that redrives, automatic retries and single large
	// retries load or hold. A message that needs more is sent while no other is in memory.
	bytesUnderWay = 32 << 20

	// copies is how often a large value is in memory at most: the row that the driver read and the value decoded from
	// it; later the value and its patched or compressed form. Sending makes no copy.
	copies     = 2
	largeRetry = entity.RetryValueLimit + 1 // size in bytes from which a single retry waits for memory too
)

// form is the number of copies of a value that are kept, for messages that are not large.
type form int64

const (
	plain   form = 1
	patched form = 2 // also the patched value
)

// room is memory reserved for messages. To avoid deadlock, a holder never requests more memory.
type room struct {
	of *semaphore.Weighted

	mu   sync.Mutex
	held int64
}

// roomFor waits for memory: for at most all of it, when bytes is more.
func (s *Service) roomFor(ctx context.Context, bytes int64) (*room, error) {
	r := &room{of: s.memory, held: min(bytes, bytesUnderWay)}
	if err := s.memory.Acquire(ctx, r.held); err != nil {
		return nil, fmt.Errorf("wait for memory: %w", err)
	}
	return r, nil
}

// shrink releases memory down to bytes; it never requests more.
func (r *room) shrink(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes < r.held {
		r.of.Release(r.held - bytes)
		r.held = bytes
	}
}

// release releases all memory. It may be called again.
func (r *room) release() { r.shrink(0) }

// load reads the first of ids, up to batchBytes, after waiting for the memory, which the caller must release. A
// larger message is loaded alone, or with others that fit into its size.
func (s *Service) load(ctx context.Context, ids []uuid.UUID, f form) (messages []entity.Message, taken int, r *room, err error) {
	limit, need := int64(batchBytes), int64(f)*batchBytes
	for {
		if r, err = s.roomFor(ctx, need); err != nil {
			return nil, 0, nil, err
		}
		messages, taken, err = s.store.Load(ctx, ids, limit)
		var large *repository.TooLargeError
		switch {
		case err == nil:
			if limit == batchBytes {
				r.shrink(int64(f) * weight(messages))
			}
			return messages, taken, r, nil
		case !errors.As(err, &large):
			r.release()
			return nil, 0, nil, fmt.Errorf("load messages: %w", err)
		}
		r.release()
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

// forget drops the records of sent messages: their results are stored without them.
func forget(sent []entity.Outgoing) {
	for i := range sent {
		sent[i].Message.Record, sent[i].Edit = entity.Record{}, nil
	}
}
