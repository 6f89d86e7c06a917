package secret

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// rotationPatience is how long SignIn waits for the file to get a new secret that the server already has. Usually the
	// secret is changed at the server first.
	rotationPatience = 2 * time.Second
	rotationLook     = 100 * time.Millisecond
)

// Rotation signs in with secrets in files that may be replaced while the program runs. T is the type of the secret
// that one sign-in needs; its zero value means no secret. A Rotation is safe for concurrent use.
type Rotation[T comparable] struct {
	read func() (T, error)

	mu       sync.Mutex
	accepted T // the last secret that the server accepted
	hopeless T // the refused content of the file; SignIn has already waited in vain for other content
}

// NewRotation returns a Rotation that reads the present secret with the function read.
func NewRotation[T comparable](read func() (T, error)) *Rotation[T] {
	return &Rotation[T]{read: read}
}

// Accepted returns the last secret that the server accepted, or the zero value.
func (r *Rotation[T]) Accepted() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted
}

// SignIn reads the secret and calls try with it. It returns after one call of try when the call succeeds, or when
// refused says that the call failed for another reason than the secret. Otherwise it tries these secrets, in this
// order, and each secret only once:
//
//   - the current content of the file, if it has changed meanwhile;
//   - the last accepted secret: the file may be half written, or newer than the
//     server's secret, or it cannot be read;
//   - the content of the file within the next two seconds, if a secret was accepted
//     before: the file may be older than the server's secret. SignIn waits once, and
//     not again until the file has changed.
//
// The error is that of the last call of try, joined with the error of reading the file, if there was one.
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

// attempt is one call of Rotation.SignIn, with the secrets that it has tried.
type attempt[T comparable] struct {
	r       *Rotation[T]
	try     func(T) error
	refused func(error) bool
	tried   []T
	used    T // the secret that the server accepted in this sign-in
	err     error
}

// over calls the function try with a secret, unless this sign-in has already tried the secret. It reports whether the
// sign-in is over: the server accepted the secret, or failed for another reason than the secret.
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

// file reads the secret from the file and calls over with it. It returns false when the file cannot be read.
func (a *attempt[T]) file() bool {
	secret, err := a.r.read()
	return err == nil && a.over(secret)
}

// wait polls the file until over returns true for its content, at most for rotationPatience. It returns false at once
// when an earlier sign-in has already waited in vain for the file to contain another secret than first.
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
