package shop

// recent is a map that drops its oldest entries, so that the memory of a shop that runs for weeks
// is bounded. It is not safe for concurrent use.
type recent[K comparable, V any] struct {
	limit  int
	values map[K]V
	order  []K
}

func newRecent[K comparable, V any](limit int) *recent[K, V] {
	return &recent[K, V]{limit: limit, values: map[K]V{}}
}

func (r *recent[K, V]) get(key K) (V, bool) {
	value, ok := r.values[key]
	return value, ok
}

func (r *recent[K, V]) put(key K, value V) {
	if _, ok := r.values[key]; !ok {
		r.order = append(r.order, key)
	}
	r.values[key] = value
	if len(r.order) > r.limit {
		delete(r.values, r.order[0])
		r.order = r.order[1:]
	}
}
