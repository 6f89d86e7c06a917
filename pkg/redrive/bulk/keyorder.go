package bulk

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// keyOrder keeps messages of the same original topic and key in order. After a message that did not succeed, it lets no
// later message with the same topic and key be sent. Messages with a null or empty key are not kept in order, and
// neither are pointers, whose key is unknown. A nil keyOrder keeps no order.
type keyOrder struct {
	mu sync.Mutex
	// By key, blocked contains the smallest number, in the selection, of a message that did not succeed: later messages
	// with that key are skipped. By key, open contains the smallest number of a message that has no result yet: later
	// messages with that key wait for the next lease.
	blocked, open map[recordKey]int
}

func newKeyOrder() *keyOrder {
	return &keyOrder{blocked: map[recordKey]int{}, open: map[recordKey]int{}}
}

// keepFirst stores the smallest number of each key: it sets the number of the key in the map first, unless the map
// already contains a smaller number.
func keepFirst(first map[recordKey]int, key recordKey, number int) {
	if n, known := first[key]; !known || number < n {
		first[key] = number
	}
}

func isBehind(first map[recordKey]int, key recordKey, number int) bool {
	n, known := first[key]
	return known && n < number
}

// wave returns the planned messages that may be sent at the same time, at most one per key, and the messages for later
// waves. It skips messages after a message with the same key that did not succeed, and leaves out messages after a
// message with the same key that has no result yet.
func (k *keyOrder) wave(planned []entity.Outgoing, items *items) (now, later []entity.Outgoing) {
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
		case isBehind(k.blocked, key, items.numbers[out.Message.ID]):
			items.skip(out.Message.ID, SkippedKeyBlocked)
		case isBehind(k.open, key, items.numbers[out.Message.ID]):
		case taken[key]:
			later = append(later, out)
		default:
			taken[key] = true
			items.addSending(out.Message.ID, key)
			now = append(now, out)
		}
	}
	return now, later
}

// block records that m, the message with this number, did not succeed: later messages with its key are skipped.
func (k *keyOrder) block(m entity.Message, number int) {
	key, ordered := keyOf(m)
	if k == nil || !ordered {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	keepFirst(k.blocked, key, number)
}

// hold records that m, the message with this number, has no result yet: later messages with its key wait.
func (k *keyOrder) hold(m entity.Message, number int) {
	key, ordered := keyOf(m)
	if k == nil || !ordered {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	keepFirst(k.open, key, number)
}

// learn reads the results of the messages of a wave. If a message did not succeed, later messages with its key are
// skipped. If a message has no result yet, later messages with its key wait.
func (k *keyOrder) learn(items *items) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	items.mu.Lock()
	defer items.mu.Unlock()
	for id, key := range items.sending {
		switch item, known := items.results[id]; {
		case !known:
			keepFirst(k.open, key, items.numbers[id])
		case item.Result != entity.ItemSucceeded:
			keepFirst(k.blocked, key, items.numbers[id])
		}
	}
	clear(items.sending)
}

// loadKeyOrder reads from the store which keys have a message that did not succeed. This is needed when a process
// begins to work on a redrive or has missed batches. known contains results that are not stored yet.
func loadKeyOrder(ctx context.Context, deps *dependencies, id uuid.UUID, known map[uuid.UUID]entity.RedriveItem) (*keyOrder, error) {
	k := newKeyOrder()
	var failed []entity.RedriveItem
	for _, item := range known {
		if item.Result != entity.ItemSucceeded && !attempt.OriginRefused(item.Reason) {
			failed = append(failed, item)
		}
	}
	if err := blockKeysOf(ctx, deps.parts.Loader, k, failed); err != nil {
		return nil, err
	}
	for from := 0; ; {
		items, err := deps.selected.RedriveItems(ctx, id, repository.ItemQuery{
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
		items = slices.DeleteFunc(items, func(i entity.RedriveItem) bool { return attempt.OriginRefused(i.Reason) })
		if err := blockKeysOf(ctx, deps.parts.Loader, k, items); err != nil {
			return nil, err
		}
	}
}

func blockKeysOf(ctx context.Context, loader *attempt.Loader, k *keyOrder, items []entity.RedriveItem) error {
	numbers := make(map[uuid.UUID]int, len(items))
	ids := make([]uuid.UUID, len(items))
	for i, item := range items {
		ids[i], numbers[item.MessageID] = item.MessageID, item.Number
	}
	for len(ids) > 0 {
		messages, taken, memory, err := loader.Load(ctx, ids, attempt.Unpatched)
		if err != nil {
			return fmt.Errorf("messages that did not succeed: %w", err)
		}
		for _, m := range messages {
			k.block(m, numbers[m.ID])
		}
		memory.Release()
		ids = ids[taken:]
	}
	return nil
}
