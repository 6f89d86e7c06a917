package postgres

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// Processes that start together on an empty database agree on one key.
func TestSigningKeys_OneForAll(t *testing.T) {
	t.Parallel()
	cfg := configOf(t, postgrestest.URL(t))
	cfg.User, cfg.Password = login(t, "dlq_rw"), "p"
	const processes = 8
	got := make([][][]byte, processes)
	var all sync.WaitGroup
	for i := range processes {
		s := NewSessions(openConfig(t, cfg))
		all.Go(func() {
			keys, err := s.SigningKeys(t.Context(), bytes.Repeat([]byte{byte(i)}, 32))
			if err != nil || len(keys) != 1 {
				t.Errorf("process %d: got %d keys, %v, want one", i, len(keys), err)
			}
			got[i] = keys
		})
	}
	all.Wait()
	db := openConfig(t, cfg)
	after, err := NewSessions(db).SigningKeys(t.Context(), make([]byte, 32))
	wantNil(t, err)
	for i, keys := range got {
		if !reflect.DeepEqual(keys, after) {
			t.Errorf("process %d has another key", i)
		}
	}
	exec(t, db, `INSERT INTO dlq.signing_keys (id, key) VALUES (2, decode(repeat('ff', 32), 'hex'))`)
	keys, err := NewSessions(db).SigningKeys(t.Context(), make([]byte, 32))
	if err != nil || len(keys) != 2 || keys[0][0] != 0xff || !bytes.Equal(keys[1], after[0]) {
		t.Errorf("with a second key: got %x, %v, want the newest first", keys, err)
	}
}

func TestEndedSessions(t *testing.T) {
	t.Parallel()
	cfg := configOf(t, postgrestest.URL(t))
	cfg.User, cfg.Password = login(t, "dlq_rw"), "p"
	db := openConfig(t, cfg)
	s := NewSessions(db)
	a, b, c := [32]byte{1}, [32]byte{2}, [32]byte{3}
	wantEnded := func(what string, want ...[32]byte) {
		t.Helper()
		got, err := s.EndedSessions(t.Context(), [][32]byte{a, b, c})
		if err != nil || len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %x, %v, want %x", what, got, err, want)
		}
	}
	wantEnded("at first")
	soon, later := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	wantNil(t, s.EndSessions(t.Context(), [][32]byte{b, a}, soon))
	wantNil(t, s.EndSessions(t.Context(), [][32]byte{b}, later))
	wantNil(t, s.EndSessions(t.Context(), [][32]byte{b}, soon))
	if n := count(t, db, "revoked_sessions"); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
	if n, err := New(db).PurgeBookkeeping(t.Context(), 365, 730, 1); err != nil || n != 1 {
		t.Errorf("purged %d, %v, want the one whose token has ended", n, err)
	}
	wantEnded("after the purge", b)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.EndedSessions(gone, [][32]byte{a}); !errors.Is(err, context.Canceled) && !errors.Is(err, entity.ErrUnavailable) {
		t.Errorf("without an answer: got %v, want no result", err)
	}
}
