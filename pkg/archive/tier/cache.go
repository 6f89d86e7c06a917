package tier

import (
	"container/list"
	"sync"

	"github.com/dlq-manager/dlq-manager/pkg/archive/tier/internal/file"
)

// cachedObjects is the maximum number of objects whose entries are kept in memory. These entries use at most about 36
// megabytes.
const cachedObjects = 32

// entryCache keeps the entries of the objects that were used last. Entries never become outdated, because an object is
// never changed under its key.
type entryCache struct {
	mu    sync.Mutex
	limit int
	order *list.List // elements are *cachedEntries; the object that was used last comes first
	known map[string]*list.Element
}

type cachedEntries struct {
	key     string
	entries []file.Entry
}

func newEntryCache(limit int) *entryCache {
	return &entryCache{limit: limit, order: list.New(), known: map[string]*list.Element{}}
}

func (c *entryCache) get(key string) ([]file.Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.known[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cachedEntries).entries, true //nolint:forcetypeassert // the list has no other type
}

func (c *entryCache) put(key string, entries []file.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.known[key]; ok {
		return
	}
	c.known[key] = c.order.PushFront(&cachedEntries{key, entries})
	if c.order.Len() > c.limit {
		last := c.order.Remove(c.order.Back()).(*cachedEntries) //nolint:forcetypeassert // see get
		delete(c.known, last.key)
	}
}
