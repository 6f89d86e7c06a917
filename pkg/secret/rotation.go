package secret

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// rotationPatience is how long SignIn waits for a file that is behind the
	// server: whoever replaces a secret tells the server first, as a rule.
	rotationPatience = 2 * time.Second
	rotationLook     = 100 * time.Millisecond
)

// Rotation signs in with secrets in files that somebody replaces while the
// program runs. T is what one sign-in needs; its zero value is no secret. A
// Rotation is safe for concurrent use.
type Rotation[T comparable] struct {
	read func() (T, error)

	mu       sync.Mutex
	accepted T // what the server took last
	hopeless T // what was waited for a successor of in vain
}

// NewRotation returns a Rotation over what read reads, anew each time.
func NewRotation[T comparable](read func() (T, error)) *Rotation[T] {
	return &Rotation[T]{read: read}
}

// Accepted returns what the server took last, the zero value before that.
func (r *Rotation[T]) Accepted() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted
}

// SignIn reads the secret and calls try with it, once when that ends well or
// fails for another reason than the secret, which refused tells. try is called
// with nothing that it refused before. What it gets instead is, in this order:
//
//   - what the file holds by then, if that is something else;
//   - what was accepted last. The file may be half written, or be ahead of the
//     server. It also stands in for a file that is missing or cannot be read;
//   - what the file holds within the next two seconds, if something was accepted
//     before: the file may be behind the server. This is waited for once, and not
//     again until the file has changed.
//
// The error is that of the last try, beside the one of reading where there was one.
func (r *Rotation[T]) SignIn(ctx context.Context, refused func(error) bool, try func(T) error) (T, error) {
	var none T
	a := attempt[T]{r: r, try: try, refused: refused}
	last := r.Accepted()
	first, readErr := r.read()
	if readErr != nil && last == none {
		return none, readErr
	}
	if readErr != nil {
		first = last
	}
	if a.over(first) || a.file() || last != none && a.over(last) {
		return a.used, a.err
	}
	if last != none && a.wait(ctx, first) {
		return a.used, a.err
	}
	return none, errors.Join(a.err, readErr)
}

// attempt is one sign-in.
type attempt[T comparable] struct {
	r       *Rotation[T]
	try     func(T) error
	refused func(error) bool
	tried   []T
	used    T // what was accepted
	err     error
}

// over tries a secret and reports whether that settles the matter.
func (a *attempt[T]) over(secret T) bool {
	for _, t := range a.tried {
		if t == secret {
			return false
		}
	}
	a.tried = append(a.tried, secret)
	if a.err = a.try(secret); a.err == nil {
		a.used = secret
		a.r.note(func() { a.r.accepted = secret })
		return true
	}
	return !a.refused(a.err)
}

// file is over with what the file holds now.
func (a *attempt[T]) file() bool {
	secret, err := a.r.read()
	return err == nil && a.over(secret)
}

// wait is over with what the file holds soon.
func (a *attempt[T]) wait(ctx context.Context, first T) bool {
	a.r.mu.Lock()
	hopeless := a.r.hopeless == first
	a.r.mu.Unlock()
	if hopeless {
		return false
	}
	look := time.NewTicker(rotationLook)
	defer look.Stop()
	for range int(rotationPatience / rotationLook) {
		select {
		case <-ctx.Done():
			return false
		case <-look.C:
		}
		if a.file() {
			return true
		}
	}
	a.r.note(func() { a.r.hopeless = first })
	return false
}

func (r *Rotation[T]) note(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}
