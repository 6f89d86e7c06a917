package repository

import (
	"context"
	"sync/atomic"
)

// Reading decides for the reads of one request whether the database or its replica answers them. It is safe for
// concurrent use.
type Reading struct {
	after string // mark of the caller's last change; "" when there is none

	primary atomic.Bool
}

type readingKey struct{}

// WithReading returns a context for the reads of one request, These reads see all changes up to the given mark, which
// Replica.WriteMark returned; "" requires no changes. Once the database itself has answered one of the reads, it
// answers all later ones too, so that no later read returns older data.
func WithReading(ctx context.Context, after string) context.Context {
	return context.WithValue(ctx, readingKey{}, &Reading{after: after})
}

// ReadingOf returns the Reading of a context, or nil for a context without one: the database itself must answer such
// reads.
func ReadingOf(ctx context.Context) *Reading {
	r, _ := ctx.Value(readingKey{}).(*Reading)
	return r
}

// After returns the mark of the caller's last change; "" when there is none.
func (r *Reading) After() string { return r.after }

// UsePrimary makes the database itself answer all further reads.
func (r *Reading) UsePrimary() { r.primary.Store(true) }

// UsesPrimary reports whether UsePrimary was called.
func (r *Reading) UsesPrimary() bool { return r.primary.Load() }
