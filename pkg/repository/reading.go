package repository

import (
	"context"
	"sync/atomic"
)

// Reading is how the reads of one request choose between the database and its replica. It is safe for concurrent use.
type Reading struct {
	after string // mark of the caller's last change; "" for none

	primary atomic.Bool
}

type readingKey struct{}

// WithReading returns a context for the reads of one request, which see at least the changes up to a mark of
// Replica.WriteMark; "" for none. After one of them was answered by the database itself, all are, so that no part of
// the answer is older than another.
func WithReading(ctx context.Context, after string) context.Context {
	return context.WithValue(ctx, readingKey{}, &Reading{after: after})
}

// ReadingOf returns the Reading of a context, or nil for a context without one: such reads need the database itself.
func ReadingOf(ctx context.Context) *Reading {
	r, _ := ctx.Value(readingKey{}).(*Reading)
	return r
}

// After returns the mark of the caller's last change; "" for none.
func (r *Reading) After() string { return r.after }

// UsePrimary makes all further reads go to the database itself.
func (r *Reading) UsePrimary() { r.primary.Store(true) }

// UsesPrimary reports whether UsePrimary was called.
func (r *Reading) UsesPrimary() bool { return r.primary.Load() }
