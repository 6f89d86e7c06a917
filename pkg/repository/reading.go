package repository

import (
	"context"
	"sync"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Reading belongs to one request. It decides whether the database itself or a replica answers the reads of the request.
// It is safe for concurrent use.
type Reading struct {
	after string // mark of the last change that the caller made; "" when the request carries no mark

	mu      sync.Mutex
	primary bool // whether further reads of the request go to the database itself
	replica bool // whether the replica has answered a read of the request
}

type readingKey struct{}

// WithReading returns a context for the reads of one request. These reads see at least the changes before the mark
// after, which Replica.WriteMark returned; with "" they may see an older state. Either the replica answers all of them
// or the database does, so that no part of the answer is older than another. When the replica has answered some reads
// and cannot answer the next one, that read returns ErrReadAgain.
func WithReading(ctx context.Context, after string) context.Context {
	return context.WithValue(ctx, readingKey{}, &Reading{after: after})
}

// ReadingOf returns the Reading of a context. For a context without one it returns nil, and the database itself must
// answer the read.
func ReadingOf(ctx context.Context) *Reading {
	r, _ := ctx.Value(readingKey{}).(*Reading)
	return r
}

// ErrReadAgain reports that the caller must repeat all reads of its request, with the same context. Then the database
// itself answers them. Its kind is entity.ErrUnavailable.
var ErrReadAgain error = readAgainError{}

type readAgainError struct{}

func (readAgainError) Error() string { return "the replica answered only a part of the request" }

func (readAgainError) Is(target error) bool { return target == entity.ErrUnavailable }

// After returns the mark of the caller's last change; "" for none.
func (r *Reading) After() string { return r.after }

// UsePrimary makes all further reads go to the database itself. It returns ErrReadAgain the first time, if the replica
// has answered a read.
func (r *Reading) UsePrimary() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.primary = true
	if r.replica {
		r.replica = false
		return ErrReadAgain
	}
	return nil
}

// UsesPrimary reports whether UsePrimary was called.
func (r *Reading) UsesPrimary() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.primary
}

// TakeReplica notes that the replica has answered a read. It returns false if another read of the request has meanwhile
// called UsePrimary; the replica's answer must then not be used.
func (r *Reading) TakeReplica() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replica = r.replica || !r.primary
	return !r.primary
}
