package rest

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

// payloadPart is how many bytes of a value are read at a time.
const payloadPart = 1 << 20

// partingStore is a store that counts the parts of values that are read. It can delete a message, or shorten its value,
// while the value is read.
type partingStore struct {
	*fake.Store
	largest int64 // size of the largest part that was requested
	reads   int
	there   int  // how many parts can be read before the message is deleted
	short   bool // the last part of a value has fewer bytes than it should have
}

func (s *partingStore) ValuePart(ctx context.Context, p repository.ValuePart) ([]byte, error) {
	s.largest = max(s.largest, p.Length)
	if s.reads++; s.reads > s.there {
		return nil, &entity.NotFoundError{ID: p.ID}
	}
	part, err := s.Store.ValuePart(ctx, p)
	if s.short && len(part) < payloadPart {
		part = part[1:]
	}
	return part, err
}

func TestLargePayloadIsSentInParts(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("0123456789abcdef", payloadPart/16*3) + "end"
	for _, c := range []struct {
		name   string
		store  partingStore
		status int
		broken bool
		reads  int
	}{
		{"Whole", partingStore{there: 4}, http.StatusOK, false, 4},
		{"GoneBeforeTheFirstIsNotFound", partingStore{}, http.StatusNotFound, false, 1},
		{"GoneInTheMiddleBreaksTheConnection", partingStore{there: 2}, 0, true, 3},
		{"ShorterThanItsSizeBreaksTheConnection", partingStore{there: 4, short: true}, 0, true, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(message(idA, withValue(value)))
			c.store.Store = f.memory
			f.over(&c.store).open()
			defer func() {
				if p := recover(); (p == http.ErrAbortHandler) != c.broken { //nolint:errorlint // net/http uses ==
					t.Errorf("panic %v, want the connection broken: %v", p, c.broken)
				}
				if c.store.reads != c.reads || c.store.largest != payloadPart {
					t.Errorf("%d parts were asked for, of %d bytes, want %d of %d", c.store.reads, c.store.largest, c.reads, payloadPart)
				}
			}()
			w := f.do("GET", oneA+"/payload", "")
			if w.Code != c.status || w.Code == http.StatusOK && w.Body.String() != value {
				t.Errorf("GET payload = %d, %d bytes, want %d, %d bytes", w.Code, w.Body.Len(), c.status, len(value))
			}
			if w.Code == http.StatusOK {
				wantHeader(t, w.Header(), "Content-Length", "3145731")
			}
		})
	}
}
