package attempt

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// weighing is a store whose messages have only a size. It measures how many bytes of messages are in memory at the same
// time.
type weighing struct {
	Store
	sizes map[uuid.UUID]int64

	mu          sync.Mutex
	loaded, top int64
	alone       bool // at no time were two messages of more than batchBytes in memory
	large       int
}

func (w *weighing) Load(_ context.Context, ids []uuid.UUID, maxBytes int64) ([]entity.Message, int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var messages []entity.Message
	var total int64
	for _, id := range ids {
		n := w.sizes[id]
		if total+n > maxBytes {
			break
		}
		total += n
		messages = append(messages, entity.Message{ID: id, Record: entity.Record{Value: make([]byte, n)}})
	}
	if len(messages) == 0 && len(ids) > 0 {
		return nil, 0, &repository.TooLargeError{Bytes: w.sizes[ids[0]]}
	}
	w.loaded += total
	w.top = max(w.top, w.loaded)
	if total > batchBytes {
		w.large++
	}
	w.alone = w.alone && w.large <= 1
	return messages, len(messages), nil
}

func (w *weighing) unload(messages []entity.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := weight(messages)
	w.loaded -= n
	if n > batchBytes {
		w.large--
	}
}

func newWeighing(n int, size int64) (*weighing, []uuid.UUID) {
	w, ids := &weighing{sizes: map[uuid.UUID]int64{}, alone: true}, make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
		w.sizes[ids[i]] = size
	}
	return w, ids
}

// carriers starts a goroutine for each list of ids. The goroutine loads the messages of its list in parts and holds
// each part for a second.
func carriers(t *testing.T, loader *Loader, w *weighing, all [][]uuid.UUID) {
	t.Helper()
	var working sync.WaitGroup
	for _, ids := range all {
		working.Go(func() {
			for len(ids) > 0 {
				messages, taken, memory, err := loader.Load(t.Context(), ids, Unpatched)
				if err != nil || taken == 0 {
					t.Errorf("load = %d taken, %v", taken, err)
					return
				}
				ids = ids[taken:]
				elapse(time.Second)
				w.unload(messages)
				memory.Release()
			}
		})
	}
	working.Wait()
}

func TestRoom(t *testing.T) {
	t.Parallel()
	t.Run("LargeMessagesAreLoadedOneAfterTheOther", scenario(func(b *bench) {
		w, ids := newWeighing(12, 10_000_000)
		b.loader.store = w
		carriers(b.T, b.loader, w, [][]uuid.UUID{ids[:3], ids[3:6], ids[6:9], ids[9:]})
		check.True(b.T, w.alone && w.top == 10_000_000,
			"at most %d bytes were loaded, one large message at a time: %t; want 10000000, true", w.top, w.alone)
	}))

	t.Run("WhatIsLoadedStaysWithinTheBudget", scenario(func(b *bench) {
		w, ids := newWeighing(80, 3_000_000)
		for i, id := range ids {
			if i%7 == 3 {
				w.sizes[id] = 12_000_000
			}
		}
		b.loader.store = w
		carriers(b.T, b.loader, w, [][]uuid.UUID{ids[:10], ids[10:20], ids[20:30], ids[30:40], ids[40:50], ids[50:60], ids[60:70], ids[70:]})
		check.True(b.T, w.top <= bytesUnderWay, "at most %d bytes were loaded, want no more than %d", w.top, bytesUnderWay)
		check.True(b.T, b.loader.memory.TryAcquire(bytesUnderWay), "some memory was not given back")
	}))

	t.Run("ASingleRetryWaitsForItsKeyToo", scenario(func(b *bench) {
		for name, r := range map[string]entity.Record{
			"loaded": {Size: largeRetry - 1, Key: []byte("k")}, "left out": {KeyOmitted: largeRetry},
		} {
			memory, err := b.reserve(b.T.Context(), entity.Message{Record: r})
			check.True(b.T, err == nil && memory.held == copies*largeRetry,
				"a key that is %s: %v, %d bytes held, want %d", name, err, memory.held, copies*largeRetry)
			memory.Release()
		}
	}))

	t.Run("AMessageThatIsLargerThanAllTravelsAlone", scenario(func(b *bench) {
		w, ids := newWeighing(2, 2*bytesUnderWay)
		b.loader.store = w
		carriers(b.T, b.loader, w, [][]uuid.UUID{ids[:1], ids[1:]})
		check.True(b.T, w.alone, "two messages that are too large were loaded at once")
	}))

	t.Run("NothingIsLoadedBeforeThereIsRoom", scenario(func(b *bench) {
		w, ids := newWeighing(1, 1000)
		b.loader.store = w
		taken := check.Must(b.loader.reserve(b.T.Context(), bytesUnderWay))(b.T)
		ctx, cancel := context.WithTimeout(b.T.Context(), time.Second)
		defer cancel()
		if _, _, _, err := b.loader.Load(ctx, ids, Unpatched); !errors.Is(err, context.DeadlineExceeded) || w.top != 0 {
			b.T.Errorf("load = %v with %d bytes loaded, want the end of its time and none", err, w.top)
		}
		taken.Release()
		taken.Release() // a second release has no effect
		_, _, memory, err := b.loader.Load(b.T.Context(), ids, Patched)
		check.True(b.T, err == nil && memory.held == 2000, "load of 1000 bytes to be patched holds %d, %v, want 2000", memory.held, err)
	}))
}
