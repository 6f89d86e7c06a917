package repository

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Keys are Idempotency-Keys. A repeated request finds the result of the first one by its key.
type Keys interface {
	// OpenKey begins the work of a key, or returns the known state of the key. When the owner of a key in progress
	// calls it again, it returns the first answer again and renews the lease.
	OpenKey(ctx context.Context, k Key, lease time.Duration) (KeyState, error)

	// HoldKey renews the lease of a key in progress.
	HoldKey(ctx context.Context, k Key, lease time.Duration) error

	// CloseKey stores the answer of a key in progress; further answers change nothing.
	CloseKey(ctx context.Context, k Key, answer Answer) error

	// DropKey deletes a key in progress: no work was begun, and the same key may be used again.
	DropKey(ctx context.Context, k Key) error
}

// Key is an Idempotency-Key with the request that it identifies.
type Key struct {
	Principal string
	Key       string
	Request   [32]byte  // digest of method, path and body
	Operation uuid.UUID // a new id; the store answers with the id of the first request
	Owner     uuid.UUID // of this request's lease
}

// KeyState says what the store knows about an Idempotency-Key.
type KeyState struct {
	Phase     KeyPhase
	Operation uuid.UUID // of the work; see entity.AuditInfo
	Answer    Answer    // for KeyDone
}

// KeyPhase says what to do with a request that has a key.
type KeyPhase int

const (
	// KeyNew: the caller owns the key and begins the work.
	KeyNew KeyPhase = iota + 1
	// KeyAbandoned: the caller owns the key; an earlier owner began the work and did not answer within its lease.
	KeyAbandoned
	// KeyAtWork: another caller works on the request.
	KeyAtWork
	// KeyDone: the answer is stored.
	KeyDone
	// KeyOther: the key was used with another request.
	KeyOther
)

// Answer is the stored response of a request.
type Answer struct {
	Status   int
	Location string // header; "" for none
	Body     []byte
}

// KeyLife is how long a key is remembered.
const KeyLife = 24 * time.Hour
