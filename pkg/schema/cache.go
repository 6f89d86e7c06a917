package schema

import (
	"sync"
	"time"
)

// cache keeps values until their sizes add up to max bytes. Then it drops values of the topic whose values use the most
// memory, the least recently used first, so that no topic can drop the values of a topic that uses less. It does not
// keep a value that is larger than max/4. It is safe for concurrent use.
type cache struct {
	max int

	mu    sync.Mutex
	size  int
	uses  int // number of calls of get and put
	items map[string]*cached
	sizes map[string]int // by topic; only topics that have values
}

type cached struct {
	key     string
	topic   string // the topic that uses the value; of several topics one whose values use little memory
	value   any
	size    int
	expires time.Time // zero when the value does not expire
	used    int       // number of the last use
}

func newCache(limit int) *cache {
	return &cache{max: limit, items: map[string]*cached{}, sizes: map[string]int{}}
}

// get returns a value for a user of the topic.
func (c *cache) get(key, topic string, now time.Time) (value any, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	item := c.items[key]
	switch {
	case item == nil:
		return nil, false
	case !item.expires.IsZero() && !now.Before(item.expires):
		c.remove(item)
		return nil, false
	case c.sizes[topic] < c.sizes[item.topic]:
		c.remove(item)
		item.topic = topic
	}
	c.add(item)
	return item.value, true
}

func (c *cache) put(item cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.items[item.key])
	if item.size > c.max/4 {
		return
	}
	c.add(&item)
	for c.size > c.max {
		largest, oldest := item.topic, &item
		for topic, size := range c.sizes {
			if size > c.sizes[largest] {
				largest = topic
			}
		}
		for _, other := range c.items {
			if other.topic == largest && (oldest.topic != largest || other.used < oldest.used) {
				oldest = other
			}
		}
		c.remove(oldest)
	}
}

// add adds an item, or notes the use of one that is there.
func (c *cache) add(item *cached) {
	if c.uses++; c.items[item.key] == nil {
		c.items[item.key] = item
		c.sizes[item.topic] += item.size
		c.size += item.size
	}
	item.used = c.uses
}

func (c *cache) remove(item *cached) {
	if item == nil {
		return
	}
	delete(c.items, item.key)
	c.size -= item.size
	if c.sizes[item.topic] -= item.size; c.sizes[item.topic] == 0 {
		delete(c.sizes, item.topic)
	}
}
