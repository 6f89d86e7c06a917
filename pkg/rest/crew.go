package rest

import "time"

// crewRest is how long a goroutine waits for the next handler.
const crewRest = 10 * time.Second

// crew are goroutines that run handlers, one after the other. A new one for each
// request would have to grow its stack anew each time, which takes longer than many
// a handler. There are never more than handlers at a time, and none when there is
// nothing to do for a while, or everything is over. The zero value has a goroutine
// for each handler.
type crew struct {
	next chan func()
	over <-chan struct{}
}

func newCrew(over <-chan struct{}) crew { return crew{next: make(chan func()), over: over} }

// run runs f in a goroutine. It does not wait for it.
func (c crew) run(f func()) {
	select {
	case c.next <- f: // somebody rests
	default:
		go c.serve(f)
	}
}

func (c crew) serve(f func()) {
	if c.next == nil {
		f()
		return
	}
	rest := time.NewTimer(crewRest)
	defer rest.Stop()
	for {
		f()
		rest.Reset(crewRest)
		select {
		case f = <-c.next:
		case <-rest.C:
			return
		case <-c.over:
			return
		}
	}
}
