package search

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// fakeSchemas is a registry that decodes every value to the same JSON. It cannot be reached before the test sets its
// field up.
type fakeSchemas struct{ up atomic.Bool }

func (f *fakeSchemas) Version() uint64                          { return 7 }
func (f *fakeSchemas) Reader(context.Context) entity.PartReader { return f }

// slowSchemas is a registry that lets every look-up of a value wait until its time limit, before the test sets its
// field up.
type slowSchemas struct {
	fakeSchemas
	ctx context.Context //nolint:containedctx // of the last reader
}

func (s *slowSchemas) Reader(ctx context.Context) entity.PartReader {
	s.ctx = ctx
	return s
}

func (s *slowSchemas) Decode(m *entity.Message, part entity.RecordPart, limit int) entity.Decoded {
	if part == entity.ValuePart && !s.up.Load() {
		<-s.ctx.Done()
	}
	return s.fakeSchemas.Decode(m, part, limit)
}

// TestInventedSchemasDoNotHoldUpTheIndex: a batch waits for all of its look-ups together for a short time.
func TestInventedSchemasDoNotHoldUpTheIndex(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		schemas := &slowSchemas{}
		w := newWorker(t, newStore(), schemas)
		batch := make([]entity.Message, 500)
		for i := range batch {
			batch[i] = entity.Message{ID: uuid.New(), Record: entity.Record{Value: []byte("encoded")}}
		}
		index := func() time.Duration {
			began := time.Now()
			check.NoError(t, check.Err(w.index(t.Context(), batch)))
			return time.Since(began)
		}
		check.Equal(t, index(), lookupTime, "wait of a batch with invented schemas")
		schemas.up.Store(true)
		check.Equal(t, index(), 0, "wait of a batch whose schemas are known")
	})
}

// newWorker returns a worker that masks the field secret.
func newWorker(t *testing.T, store *fakeStore, schemas Schemas) *Worker {
	t.Helper()
	masks := check.Must(payload.NewMasks(payload.MaskConfig{Payload: []string{"$.secret"}}))(t)
	return New(DefaultConfig(), store, func(m entity.Message) (class, message, stack string) { return "E", m.ErrorMessage, "" },
		check.Must(fingerprint.New(fingerprint.DefaultConfig()))(t), masks,
		func(*entity.Message) entity.MaskedFields { return entity.MaskedFields{} }, prometheus.NewRegistry(), zap.NewNop(), WithSchemas(schemas))
}

func (f *fakeSchemas) Complete(*entity.Message, entity.RecordPart, *entity.Decoded) {}

func (f *fakeSchemas) Decode(_ *entity.Message, part entity.RecordPart, _ int) entity.Decoded {
	switch {
	case part == entity.KeyPart:
		return entity.Decoded{}
	case f.up.Load():
		return entity.Decoded{Format: entity.Avro, JSON: []byte(`{"sku":"A-1","secret":"hidden"}`)}
	}
	return entity.Decoded{Format: entity.UnknownFormat, Omitted: entity.SchemaUnavailable, Temporary: true}
}

// TestUndecodedIsIndexedWhenTheRegistryIsBack: while the registry cannot be reached, messages are indexed without
// their payload. When the registry can be reached again, these messages are indexed with their payloads.
func TestUndecodedIsIndexedWhenTheRegistryIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := entity.Message{ID: uuid.New(), ErrorMessage: "first", Record: entity.Record{Value: []byte("encoded")}}
		store, schemas := newStore(m), &fakeSchemas{}
		w := newWorker(t, store, schemas)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		defer func() { cancel(); <-done }()

		synctest.Wait()
		store.set(func() {
			check.Equal(t, store.documents[m.ID].Text, "first", "text without a schema")
			check.Equal(t, store.undecoded, []repository.DeferredDecoding{{MessageID: m.ID, First: time.Second, Longest: 5 * time.Minute}}, "deferred messages")
			store.decodable = []uuid.UUID{m.ID}
		})
		schemas.up.Store(true)
		<-time.After(2 * maxWait)
		store.set(func() {
			check.Equal(t, store.documents[m.ID].Text, "again\nsku a-1", "text")
			check.Len(t, store.undecoded, 0, "deferred messages")
		})
	})
}

// A key in which masks hide something has a term that only those search who may see it, whether the key is searched by
// its JSON or by its bytes; the worker puts no such key and no hidden value into facets.
func TestHiddenKeysHaveTermsOfTheirOwn(t *testing.T) {
	t.Parallel()
	decoder := decoderOf(map[string]entity.Decoded{
		"bytes": {Format: entity.Avro, JSON: []byte(`{"secret":"4111"}`)},
		"open":  {Format: entity.Avro, JSON: []byte(`{"id":1}`)},
	})
	for key, hidden := range map[string]bool{"bytes": true, "open": false, "plain": false, `{"secret":"4111"}`: true, "\x00\x01": true} {
		w := newWorker(t, newStore(), decoder)
		WithFields()(w)
		m := entity.Message{Record: entity.Record{Key: []byte(key), Value: []byte(`{"secret":{"a":"s"},"b":"{\"secret\":1}"}`)}}
		p, _ := partsOf(&m, w.schemas.Reader(t.Context()), w.masks)
		d := w.document(&m, p)
		check.Equal(t, slices.Contains(d.Terms, entity.KeyTerm([]byte(key))), !hidden, "a term of the key "+key)
		check.Equal(t, slices.Contains(d.Terms, entity.HiddenKeyTerm([]byte(key))), hidden, "a term of the hidden key "+key)
		check.Equal(t, slices.Contains(d.Terms, entity.KeyTerm([]byte(`{"secret":"4111"}`))), false, "a term of the JSON of the key "+key)
		for _, v := range d.Fields.Values {
			check.True(t, v.Key != "key" || !hidden, "a facet has the key %s", key)
			check.True(t, v.Value != "s" && v.Value != "4111", "a facet has the hidden value %+v", v)
		}
	}
}
