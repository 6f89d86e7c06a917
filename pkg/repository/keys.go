package repository

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Keys make a request that is sent again find what it did the first time.
type Keys interface {
	// OpenKey begins the work of a key, or tells what is known of it. Of a key at
	// work its owner is told again what the first call said, and has the lease anew.
	OpenKey(ctx context.Context, k Key, lease time.Duration) (KeyState, error)

	// HoldKey prolongs the lease of a key at work.
	HoldKey(ctx context.Context, k Key, lease time.Duration) error

	// CloseKey stores the answer of a key at work; further answers change nothing.
	CloseKey(ctx context.Context, k Key, answer Answer) error

	// DropKey forgets a key at work: nothing was begun, and the same key may be
	// used again.
	DropKey(ctx context.Context, k Key) error
}

// Key is an Idempotency-Key with what it stands for.
type Key struct {
	Principal string
	Key       string
	Request   [32]byte  // digest of method, path and body
	Operation uuid.UUID // a new one; the store answers with that of the first request
	Owner     uuid.UUID // of this request's lease
}

// KeyState is what is known of a key.
type KeyState struct {
	Phase     KeyPhase
	Operation uuid.UUID // of the work; see entity.Cause
	Answer    Answer    // for KeyDone
}

// KeyPhase says what to do with a request that has a key.
type KeyPhase int

const (
	// KeyNew: the key is the caller's, who begins the work.
	KeyNew KeyPhase = iota + 1
	// KeyAbandoned: the key is the caller's; an earlier owner has begun the work and
	// did not answer within its lease.
	KeyAbandoned
	// KeyAtWork: another caller is at work on it.
	KeyAtWork
	// KeyDone: the answer is known.
	KeyDone
	// KeyOther: the key was used with another request.
	KeyOther
)

// Answer is what a request was answered with.
type Answer struct {
	Status   int
	Location string // header; "" for none
	Body     []byte
}

// KeyLife is how long a key is remembered.
const KeyLife = 24 * time.Hour
