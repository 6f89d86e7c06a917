package redrive

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// keyOrder keeps messages of the same topic and key in order, and sends none after one that did not succeed. Messages
// without a key have no order, nor have pointers, whose key is unknown. A nil keyOrder keeps no order.
type keyOrder struct {
	mu sync.Mutex
	// Numbers of the first message that did not succeed, and of the first without a result, by key. Messages after
	// the former are skipped; messages after the latter wait for the next lease.
	blocked, open map[recordKey]int
}

func newKeyOrder() *keyOrder {
	return &keyOrder{blocked: map[recordKey]int{}, open: map[recordKey]int{}}
}

// keepFirst keeps the lowest number for a key.
func keepFirst(first map[recordKey]int, key recordKey, number int) {
	if n, known := first[key]; !known || number < n {
		first[key] = number
	}
}

func behind(first map[recordKey]int, key recordKey, number int) bool {
	n, known := first[key]
	return known && n < number
}

// recordKey holds the hash of a key, because it is in memory until the redrive ends and the key may be long.
type recordKey struct {
	topic string
	key   [sha256.Size]byte
}

func keyOf(m entity.Message) (recordKey, bool) {
	return recordKey{m.OriginalTopic, sha256.Sum256(m.Record.Key)}, len(m.Record.Key) > 0
}

// wave returns the planned messages that may be sent now and those for later waves, and skips blocked ones.
func (k *keyOrder) wave(planned []entity.Outgoing, l *lease) (now, later []entity.Outgoing) {
	if k == nil {
		return planned, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	taken := map[recordKey]bool{}
	for _, out := range planned {
		key, ordered := keyOf(out.Message)
		switch {
		case !ordered:
			now = append(now, out)
		case behind(k.blocked, key, l.numbers[out.Message.ID]):
			l.skip(out.Message.ID, skippedKeyBlocked)
		case behind(k.open, key, l.numbers[out.Message.ID]):
		case taken[key]:
			later = append(later, out)
		default:
			taken[key] = true
			l.sending(out.Message.ID, key)
			now = append(now, out)
		}
	}
	return now, later
}

// block makes the messages of the same key after m be skipped. m has that number and did not succeed.
func (k *keyOrder) block(m entity.Message, number int) {
	key, ordered := keyOf(m)
	if k == nil || !ordered {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	keepFirst(k.blocked, key, number)
}

// hold keeps back the messages of the same key after m. m has that number and no result yet.
func (k *keyOrder) hold(m entity.Message, number int) {
	key, ordered := keyOf(m)
	if k == nil || !ordered {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	keepFirst(k.open, key, number)
}

// learn keeps back the messages after those that a wave sent without success.
func (k *keyOrder) learn(l *lease) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, key := range l.keys {
		switch item, known := l.results[id]; {
		case !known:
			keepFirst(k.open, key, l.numbers[id])
		case item.Result != entity.ItemSucceeded:
			keepFirst(k.blocked, key, l.numbers[id])
		}
	}
	clear(l.keys)
}

// sending remembers the key of a message whose result is not known yet.
func (l *lease) sending(id uuid.UUID, key recordKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys == nil {
		l.keys = map[uuid.UUID]recordKey{}
	}
	l.keys[id] = key
}

// blockedKeys finds the keys with a message that did not succeed, when a run begins or resumes. known are unsaved
// results.
func (r *run) blockedKeys(ctx context.Context, known map[uuid.UUID]entity.RedriveItem) (*keyOrder, error) {
	k := newKeyOrder()
	var failed []entity.RedriveItem
	for _, item := range known {
		if item.Result != entity.ItemSucceeded && !originRefused(item.Reason) {
			failed = append(failed, item)
		}
	}
	if err := r.blockKeysOf(ctx, k, failed); err != nil {
		return nil, err
	}
	for from := 0; ; {
		items, err := r.selected.RedriveItems(ctx, r.id, repository.ItemQuery{
			From: from, Limit: batchMessages,
			Results: []entity.ItemResult{entity.ItemFailed, entity.ItemDead, entity.ItemInDoubt, entity.ItemSkipped},
		})
		if err != nil {
			return nil, fmt.Errorf("list messages that did not succeed: %w", err)
		}
		if len(items) == 0 {
			return k, nil
		}
		from = items[len(items)-1].Number + 1
		items = slices.DeleteFunc(items, func(i entity.RedriveItem) bool { return originRefused(i.Reason) })
		if err := r.blockKeysOf(ctx, k, items); err != nil {
			return nil, err
		}
	}
}

func (r *run) blockKeysOf(ctx context.Context, k *keyOrder, items []entity.RedriveItem) error {
	numbers := make(map[uuid.UUID]int, len(items))
	ids := make([]uuid.UUID, len(items))
	for i, item := range items {
		ids[i], numbers[item.MessageID] = item.MessageID, item.Number
	}
	for len(ids) > 0 {
		messages, taken, room, err := r.load(ctx, ids, plain)
		if err != nil {
			return fmt.Errorf("messages that did not succeed: %w", err)
		}
		for _, m := range messages {
			k.block(m, numbers[m.ID])
		}
		room.release()
		ids = ids[taken:]
	}
	return nil
}
