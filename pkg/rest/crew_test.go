package rest

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestCrewRunsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	defer close(over)
	for name, c := range map[string]crew{"Kept": newCrew(over), "OneEach": {}} {
		t.Run(name, func(t *testing.T) {
			begun, end := make(chan int), make(chan struct{})
			const n = 50
			for range 2 { // of fresh ones, and of those that rest
				for i := range n {
					c.run(func() {
						begun <- i
						<-end
					})
				}
				seen := map[int]bool{}
				for range n {
					seen[<-begun] = true
				}
				if len(seen) != n {
					t.Errorf("%d different functions began while none had ended, want %d", len(seen), n)
				}
				for range n {
					end <- struct{}{}
				}
			}
		})
	}
}

// TestCrewGoesHome: a goroutine that stayed would be reported as blocked for ever.
func TestCrewGoesHome(t *testing.T) {
	t.Parallel()
	t.Run("AfterAWhile", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(*testing.T) {
			newCrew(nil).run(func() {})
			<-time.After(2 * crewRest)
		})
	})
	t.Run("WhenItIsOver", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(*testing.T) {
			over := make(chan struct{})
			newCrew(over).run(func() {})
			close(over)
		})
	})
}
