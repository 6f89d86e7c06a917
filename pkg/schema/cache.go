package schema

import (
	"container/list"
	"sync"
	"time"
)

// cache keeps values until their sizes add up to max bytes. Then it drops values of the topic whose values use the most
// memory, the least recently used first, so that no topic can drop the values of a topic that uses less. It does not
// keep a value that is larger than max/4. It is safe for concurrent use.
type cache struct {
	max int

	mu     sync.Mutex
	size   int
	byKey  map[string]*list.Element
	shares map[string]*share // by topic
}

// share contains the values of one topic.
type share struct {
	size  int
	order list.List // its elements have values of type *cached, the most recently used first
}

type cached struct {
	key     string
	topic   string // the topic that uses the value; of several topics one whose values use little memory
	value   any
	size    int
	expires time.Time // zero when the value does not expire
}

func newCache(limit int) *cache {
	return &cache{max: limit, byKey: map[string]*list.Element{}, shares: map[string]*share{}}
}

// get returns a value for a user of the topic.
func (c *cache) get(key, topic string, now time.Time) (value any, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.byKey[key]
	if !ok {
		return nil, false
	}
	item := c.remove(at)
	if !item.expires.IsZero() && !now.Before(item.expires) {
		return nil, false
	}
	if c.used(topic) < c.used(item.topic) {
		item.topic = topic
	}
	c.add(item)
	return item.value, true
}

func (c *cache) put(item cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.byKey[item.key]; ok {
		c.remove(at)
	}
	if item.size > c.max/4 {
		return
	}
	c.add(&item)
	for c.size > c.max {
		var most *share
		for _, s := range c.shares {
			if most == nil || s.size > most.size {
				most = s
			}
		}
		c.remove(most.order.Back())
	}
}

func (c *cache) used(topic string) int {
	if s := c.shares[topic]; s != nil {
		return s.size
	}
	return 0
}

func (c *cache) add(item *cached) {
	s := c.shares[item.topic]
	if s == nil {
		s = &share{}
		c.shares[item.topic] = s
	}
	c.byKey[item.key] = s.order.PushFront(item)
	s.size += item.size
	c.size += item.size
}

func (c *cache) remove(at *list.Element) *cached {
	item := at.Value.(*cached) //nolint:forcetypeassert // the lists contain only *cached
	s := c.shares[item.topic]
	s.order.Remove(at)
	delete(c.byKey, item.key)
	s.size -= item.size
	c.size -= item.size
	if s.order.Len() == 0 {
		delete(c.shares, item.topic)
	}
	return item
}
