package search

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Schemas decodes keys and values that have a schema in a registry.
type Schemas interface {
	// Reader returns a decoder of keys and values for one batch of messages. ctx limits its look-ups of schemas.
	Reader(ctx context.Context) entity.PartReader
	// Version returns a hash of the settings on which decoded values depend.
	Version() uint64
}

// Times until a message is decoded again whose schema could not be read. After a failure they are those after which the
// decoder asks for such a schema again; until then a further try costs no question, however many messages have the
// schema. For a schema that the registry does not have, and may never get, they are long.
const (
	failedFirst    = time.Second
	failedLongest  = 5 * time.Minute
	unknownFirst   = time.Minute
	unknownLongest = time.Hour
)

// lookupTime limits the time in which all schemas of a batch are looked up, because other messages wait until the batch
// is stored, and a producer may invent schema ids. A look-up that takes longer continues in the background. Its result is
// known when the message is decoded again, a second later.
const lookupTime = 50 * time.Millisecond

// parts are the value and the key of a record as they are indexed: decoded if they have a schema.
type parts struct {
	value   payload.Reading
	key     payload.Reading
	decoded []byte // JSON of the decoded key; nil when the key was not decoded
}

// partsOf returns the parts of a message to index. If a schema could not be read, again says when to decode the message
// again; otherwise again is nil.
func partsOf(m *entity.Message, reader entity.PartReader, masks *payload.Masks) (p parts, again *repository.DeferredDecoding) {
	note := func(d entity.Decoded) {
		if d.Omitted != entity.SchemaUnavailable {
			return
		}
		again = &repository.DeferredDecoding{MessageID: m.ID, First: unknownFirst, Longest: unknownLongest}
		if d.Temporary {
			again.First, again.Longest = failedFirst, failedLongest
		}
	}
	if stored(&m.Record) != nil {
		value := entity.DecodePart(reader, m, entity.ValuePart, maxValue)
		p.value = masks.ReadPart(&m.Record, entity.ValuePart, value)
		note(value)
	}
	key := entity.DecodePart(reader, m, entity.KeyPart, maxHeaderValue)
	p.key, p.decoded = masks.ReadPart(&m.Record, entity.KeyPart, key), key.JSON
	note(key)
	return p, again
}

// index makes and stores the documents of messages. Before that, it stores which messages have a schema that could not
// be read, so that these messages are decoded later even if the process dies. It returns the messages whose documents
// are complete.
func (w *Worker) index(ctx context.Context, messages []entity.Message) (complete []uuid.UUID, err error) {
	var reader entity.PartReader
	if w.schemas != nil {
		looking, cancel := context.WithTimeout(ctx, lookupTime)
		defer cancel()
		reader = w.schemas.Reader(looking)
	}
	documents := make([]entity.Document, len(messages))
	var deferred []repository.DeferredDecoding
	for i := range messages {
		p, again := partsOf(&messages[i], reader, w.masks)
		if documents[i] = w.document(&messages[i], p); again != nil {
			deferred = append(deferred, *again)
		} else {
			complete = append(complete, messages[i].ID)
		}
	}
	if len(deferred) > 0 {
		if err := w.store.DeferDecoding(ctx, deferred); err != nil {
			return nil, err
		}
	}
	return complete, w.keep(ctx, documents)
}

// decodeAgain indexes the deferred messages that are due for another try. worked reports whether a document became
// complete. more reports that further messages may be due.
func (w *Worker) decodeAgain(ctx context.Context) (worked, more bool, err error) {
	if w.schemas == nil {
		return false, false, nil
	}
	messages, err := w.store.Undecoded(ctx, w.cfg.Batch, maxBytes, maxValue)
	if err != nil || len(messages) == 0 {
		return false, false, err
	}
	complete, err := w.index(ctx, messages)
	if err == nil && len(complete) > 0 {
		err = w.store.ForgetUndecoded(ctx, complete)
	}
	return len(complete) > 0, len(messages) > w.cfg.Batch/2, err
}

func (w *Worker) countUndecoded(ctx context.Context) error {
	if w.schemas == nil {
		return nil
	}
	count, err := w.store.CountUndecoded(ctx)
	if err == nil {
		w.metrics.undecoded.Set(float64(count))
	}
	return err
}
