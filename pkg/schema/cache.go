package schema

import (
	"container/list"
	"sync"
	"time"
)

// cache keeps values until their sizes add up to max bytes. Then it drops the least recently used values. It is safe
// for concurrent use.
type cache struct {
	max int

	mu    sync.Mutex
	size  int
	order *list.List // its elements have values of type *cached, the most recently used first
	byKey map[string]*list.Element
}

type cached struct {
	key     string
	value   any
	size    int
	expires time.Time // zero when the value does not expire
}

func newCache(limit int) *cache {
	return &cache{max: limit, order: list.New(), byKey: map[string]*list.Element{}}
}

func (c *cache) get(key string, now time.Time) (value any, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.byKey[key]
	if !ok {
		return nil, false
	}
	item := at.Value.(*cached) //nolint:forcetypeassert // the list contains only *cached
	if !item.expires.IsZero() && !now.Before(item.expires) {
		c.remove(at)
		return nil, false
	}
	c.order.MoveToFront(at)
	return item.value, true
}

func (c *cache) put(item cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.byKey[item.key]; ok {
		c.remove(at)
	}
	c.byKey[item.key] = c.order.PushFront(&item)
	c.size += item.size
	for c.size > c.max && c.order.Len() > 1 {
		c.remove(c.order.Back())
	}
}

func (c *cache) remove(at *list.Element) {
	item := c.order.Remove(at).(*cached) //nolint:forcetypeassert // the list contains only *cached
	delete(c.byKey, item.key)
	c.size -= item.size
}
