package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/entity"

// headers are the headers of a record, in their order. A look-up goes through the whole list, because records have
// about a dozen headers, and an index would cost more than it saves. Methods that return a value return nil when the
// header is absent or null.
type headers []entity.Header

func (h headers) has(key string) bool { return h.lastIndex(key) >= 0 }

func (h headers) hasAll(keys []string) bool {
	for _, key := range keys {
		if !h.has(key) {
			return false
		}
	}
	return true
}

func (h headers) last(key string) []byte {
	if i := h.lastIndex(key); i >= 0 {
		return h[i].Value
	}
	return nil
}

func (h headers) lastIndex(key string) int {
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].Key == key {
			return i
		}
	}
	return -1
}

func (h headers) count(key string) int {
	n := 0
	for i := range h {
		if h[i].Key == key {
			n++
		}
	}
	return n
}

// nthIndex returns the index of the n-th header with the given key, where the first one has n = 0; -1 when there is
// none.
func (h headers) nthIndex(key string, n int) int {
	for i := range h {
		if h[i].Key != key {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return -1
}
