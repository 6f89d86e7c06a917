package repository

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Keys stores the Idempotency-Keys of requests, so that a repeated request gets the result of the first request with
// its key.
type Keys interface {
	// OpenKey begins the work for a key, or returns the stored state of the key. When the owner of a key in progress
	// calls OpenKey again, OpenKey returns the same state as the first time and renews the lease.
	OpenKey(ctx context.Context, k Key, lease time.Duration) (KeyState, error)

	// HoldKey renews the lease of a key in progress. HoldKey, CloseKey and DropKey change nothing when k.Owner does not
	// hold the key.
	HoldKey(ctx context.Context, k Key, lease time.Duration) error

	// CloseKey stores the answer of a key in progress; further answers change nothing.
	CloseKey(ctx context.Context, k Key, answer Answer) error

	// DropKey deletes a key in progress, for an owner that has not begun the work. After that, another request may use
	// the same key.
	DropKey(ctx context.Context, k Key) error
}

// Key is an Idempotency-Key with the request that it identifies.
type Key struct {
	Principal string
	Key       string
	Request   [32]byte  // digest of method, path and body
	Operation uuid.UUID // a new id; OpenKey returns the id that the first request proposed
	Owner     uuid.UUID // identifies the holder of the key's lease
}

// KeyState is the state of an Idempotency-Key in the store.
type KeyState struct {
	Phase     KeyPhase
	Operation uuid.UUID // identifies the work; see entity.AuditInfo
	Answer    Answer    // set only for KeyDone
}

// KeyPhase says what the caller must do with a request that has a key.
type KeyPhase int

const (
	// KeyNew: the caller owns the key and begins the work.
	KeyNew KeyPhase = iota + 1
	// KeyAbandoned: the caller owns the key now; an earlier owner began the work and stored no answer before its lease
	// ended.
	KeyAbandoned
	// KeyAtWork: another caller owns the key and works on the request.
	KeyAtWork
	// KeyDone: the answer is stored.
	KeyDone
	// KeyOther: the key belongs to a different request.
	KeyOther
)

// Answer is the stored response to a request.
type Answer struct {
	Status   int
	Location string // value of the header Location; "" for none
	Body     []byte
}

// KeyLife is the time for which a key is remembered after the first request with it. After that the key counts as new.
const KeyLife = 24 * time.Hour
