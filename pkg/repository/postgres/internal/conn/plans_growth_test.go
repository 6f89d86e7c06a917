package conn

import (
	"testing"
)

func TestOutgrown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, now map[int64]int64
		want        bool
	}{
		"a small table grows":        {map[int64]int64{1: 0}, map[int64]int64{1: smallTable}, false},
		"an empty table grows":       {map[int64]int64{1: 0}, map[int64]int64{1: smallTable + 1}, true},
		"a large table grows little": {map[int64]int64{1: 10 * smallTable}, map[int64]int64{1: 19 * smallTable}, false},
		"one of two has doubled":     {map[int64]int64{1: 8 * smallTable, 2: smallTable}, map[int64]int64{1: 8 * smallTable, 2: 2 * smallTable}, true},
		"a table shrinks":            {map[int64]int64{1: 10 * smallTable}, map[int64]int64{1: 0}, false},
		"a new table is large":       {map[int64]int64{}, map[int64]int64{1: 2 * smallTable}, true},
	} {
		if got := outgrown(c.before, c.now); got != c.want {
			t.Errorf("%s: outgrown = %t, want %t", name, got, c.want)
		}
	}
}
