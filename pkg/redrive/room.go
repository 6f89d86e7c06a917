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
	// batchBytes is how much of a batch is loaded at once. A message that is larger is loaded alone.
	batchBytes = 8 << 20

	// bytesUnderWay bounds what all messages that redrives, automatic retries and single large retries have in
	// memory take, loaded or being loaded. A message for which that is too little travels when nothing else does.
	bytesUnderWay = 32 << 20

	// copies is how often a large value is in memory at the worst moment: the row that the driver read and what
	// was made of it; later the value and what a patch or a compression made of it. Sending makes no copy.
	copies     = 2
	largeRetry = entity.RetryValueLimit + 1 // from where on a single retry waits for room as well
)

// form is how often the value of a message that is not large is kept.
type form int64

const (
	plain   form = 1
	patched form = 2 // what a patch makes of it as well
)

// room is memory acquired for messages. To avoid deadlock, a holder never requests more memory.
type room struct {
	of *semaphore.Weighted

	mu   sync.Mutex
	held int64
}

// roomFor waits for memory, all there is for more than that.
func (s *Service) roomFor(ctx context.Context, bytes int64) (*room, error) {
	r := &room{of: s.memory, held: min(bytes, bytesUnderWay)}
	if err := s.memory.Acquire(ctx, r.held); err != nil {
		return nil, fmt.Errorf("wait for memory: %w", err)
	}
	return r, nil
}

// shrink gives back what is not needed; it does not grow.
func (r *room) shrink(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes < r.held {
		r.of.Release(r.held - bytes)
		r.held = bytes
	}
}

// release gives back what is left. It may be called again.
func (r *room) release() { r.shrink(0) }

// load reads the first of ids as far as batchBytes go, in memory that it has waited for before, and which is the
// caller's to release. A message that is larger comes alone or with what fits into its size.
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

// weight is the memory that messages take.
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

// forget lets go of the bytes of what was sent: how it ended is stored without them.
func forget(sent []entity.Outgoing) {
	for i := range sent {
		sent[i].Message.Record, sent[i].Edit = entity.Record{}, nil
	}
}
