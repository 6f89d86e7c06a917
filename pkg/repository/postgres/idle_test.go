package postgres

import (
	"testing"
	"testing/synctest"
	"time"
)

type idlePool struct{ kept []int }

func (p *idlePool) SetMaxIdleConns(n int) { p.kept = append(p.kept, n) }

func (p *idlePool) now() int { return p.kept[len(p.kept)-1] }

// A pool keeps all that it opened while it opens any, and few once it is quiet.
func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &idlePool{}
		i := &idle{pool: p, few: 5, most: 25}
		for range 3 {
			i.opened()
			<-time.After(quiet - time.Second)
			if p.now() != 25 || len(p.kept) != 1 {
				t.Fatalf("got %v while connections are opened, want 25 once", p.kept)
			}
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if p.now() != 5 {
			t.Fatalf("got %v once it is quiet, want 5", p.kept)
		}
		i.opened()
		if p.now() != 25 {
			t.Fatalf("got %v when it is busy again, want 25", p.kept)
		}
		i.settle() // the timer's, that had to wait for the lock
		if p.now() != 25 {
			t.Fatalf("got %v although one has just been opened, want 25", p.kept)
		}
	})
}

func TestIdle_KeepsWhatIsConfigured(t *testing.T) {
	t.Parallel()
	for _, few := range []int{0, 25} {
		p := &idlePool{}
		(&idle{pool: p, few: few, most: 25}).opened()
		if len(p.kept) != 0 {
			t.Errorf("%d of 25: got %v, want it left alone", few, p.kept)
		}
	}
}
