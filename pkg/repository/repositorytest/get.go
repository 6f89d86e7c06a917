package repositorytest

import (
	"math"
	"reflect"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func getPromises() []promise {
	return []promise{
		{"UnknownIsNotFound", getUnknown},
		{"ReturnsEveryFieldAsItWas", getEveryField},
		{"NotSaidIsNotZero", getNotSaid},
		{"TimesAreUTCAndTruncated", getTimes},
		{"ValueLongerThanAskedIsNotLoaded", getBounded},
		{"ValueNullAndEmptyKeptApart", getNullAndEmpty},
		{"ValueOverLimitKeepsSizeAndDigest", getOverLimit},
		{"RecordOverALimitOfHeadersKeepsItsValue", getOverHeaderLimit},
		{"UnreadableKeepsReasonAndLastOffset", getUnreadable},
		{"RowFromSQLHasItsPayload", getFromPayload},
		{"RowFromSQLWithoutPayloadIsNoTombstone", getMissing},
		{"BytesAreTheCallersOwn", getOwnBytes},
	}
}

func getUnknown(h *harness) {
	h.put()
	id := uuid.New()
	_, err := h.Repository.Get(h.Context(), id, whole)
	h.wantNotFound("Get", id, err)
}

// full sets every field that can be set while a claim holds the message.
func full(m *entity.Message) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	partition, offset, attempts := int32(2147483647), int64(9223372036854775807), 12
	m.ErrorMessage = "déjà vu \U0001F4A5 \uFFFD\n\ttab"
	m.Status, m.RetryCount, m.MaxRetries = entity.Retrying, 2, 8
	m.LastRetryAt, m.NextAttemptAt = at, at.Add(time.Minute)
	m.UpdatedAt = m.CreatedAt.Add(time.Second)
	m.Record.Key = []byte("key")
	m.Record.Headers = []entity.Header{{Key: "a", Value: []byte("b")}}
	m.Source.Partition, m.Source.Offset, m.Source.Timestamp = 2147483647, 9223372036854775806, at
	m.Origin = entity.Origin{Partition: &partition, Offset: &offset, Timestamp: at, Confidence: entity.FromMapping}
	m.Failure = entity.Failure{Class: "java.lang.IllegalStateException", ConsumerGroup: "billing", Attempts: &attempts, Dialect: "spring"}
	m.Claim = entity.Claim{ID: uuid.New(), ExpiresAt: at.Add(time.Hour), Topic: "orders", Partition: 3, EndOffset: 1 << 40}
	m.Parent, m.Root = uuid.New(), uuid.New()
	m.LastPublishError, m.LastPublishErrorClass = "connection reset", entity.BrokerUnavailable
	m.Outcome = entity.Returned
}

// asKept is m as every store keeps it.
func asKept(m entity.Message) entity.Message {
	m.CreatedAt, m.UpdatedAt = entity.Moment(m.CreatedAt), entity.Moment(m.UpdatedAt)
	return m
}

func getEveryField(h *harness) {
	want := asKept(h.put(full))
	got := h.get(want.ID)
	if !reflect.DeepEqual(got, want) {
		h.Errorf("Get =\n     %+v\nwant %+v", got, want)
	}
}

func getNotSaid(h *harness) {
	zero32, zero64, zero := int32(0), int64(0), 0
	silent := h.put()
	said := h.put(func(m *entity.Message) {
		m.Origin.Partition, m.Origin.Offset, m.Failure.Attempts = &zero32, &zero64, &zero
	})
	if got := h.get(silent.ID); got.Origin.Partition != nil || got.Origin.Offset != nil || got.Failure.Attempts != nil {
		h.Errorf("nothing was said, Get = %+v, %+v, want nil for partition, offset and attempts", got.Origin, got.Failure)
	}
	got := h.get(said.ID)
	if p, o, a := got.Origin.Partition, got.Origin.Offset, got.Failure.Attempts; p == nil || o == nil || a == nil || *p != 0 || *o != 0 || *a != 0 {
		h.Errorf("zeros were said, Get = %+v, %+v, want zeros", got.Origin, got.Failure)
	}
	for name, at := range map[string]time.Time{
		"LastRetryAt": got.LastRetryAt, "NextAttemptAt": got.NextAttemptAt, "Source.Timestamp": got.Source.Timestamp,
		"Origin.Timestamp": got.Origin.Timestamp, "Claim.ExpiresAt": got.Claim.ExpiresAt,
	} {
		if at != (time.Time{}) {
			h.Errorf("%s = %v, want the zero time", name, at)
		}
	}
	if got.Parent != uuid.Nil || got.Root != uuid.Nil || got.Claim.ID != uuid.Nil {
		h.Errorf("parent %s, root %s, claim %s, want none", got.Parent, got.Root, got.Claim.ID)
	}
}

func getTimes(h *harness) {
	odd := time.Date(2026, 7, 1, 2, 30, 0, 999999999, time.FixedZone("EDT", -4*3600))
	m := h.put(func(m *entity.Message) {
		m.CreatedAt, m.UpdatedAt, m.LastRetryAt, m.NextAttemptAt = odd, odd, odd, odd
		m.Source.Timestamp, m.Origin.Timestamp = odd, odd
	})
	got, want := h.get(m.ID), time.Date(2026, 7, 1, 6, 30, 0, 999999000, time.UTC)
	for name, at := range map[string]time.Time{
		"CreatedAt": got.CreatedAt, "UpdatedAt": got.UpdatedAt, "LastRetryAt": got.LastRetryAt,
		"NextAttemptAt": got.NextAttemptAt, "Source.Timestamp": got.Source.Timestamp, "Origin.Timestamp": got.Origin.Timestamp,
	} {
		if at != want {
			h.Errorf("%s = %v, want %v", name, at, want)
		}
	}
}

func getBounded(h *harness) {
	m := h.put(func(m *entity.Message) { m.Record.Value, m.Record.Key = []byte("12345"), []byte("a long key") })
	for limit, loads := range map[int64]bool{0: false, 4: false, 5: true, 6: true, -1: true, 1 << 40: true} {
		got, err := h.Repository.Get(h.Context(), m.ID, limit)
		if err != nil {
			h.Fatal(err)
		}
		r := got.Record
		if loads && (r.State != entity.ValueStored || string(r.Value) != "12345") {
			h.Errorf("Get up to %d: state %d, %q, want the value", limit, r.State, r.Value)
		}
		if !loads && (r.State != entity.ValueNotLoaded || r.Value != nil) {
			h.Errorf("Get up to %d: state %d, %q, want it not loaded", limit, r.State, r.Value)
		}
		if r.Size != 5 || string(r.Key) != "a long key" {
			h.Errorf("Get up to %d: size %d, key %q, want 5 and the key", limit, r.Size, r.Key)
		}
	}
}

func getNullAndEmpty(h *harness) {
	null := h.put(func(m *entity.Message) { m.Record.Value, m.Record.Key = nil, nil })
	empty := h.put(func(m *entity.Message) { m.Record.Value, m.Record.Key = []byte{}, []byte{} })
	for _, limit := range []int64{0, whole} {
		for id, wantNull := range map[uuid.UUID]bool{null.ID: true, empty.ID: false} {
			got, err := h.Repository.Get(h.Context(), id, limit)
			if err != nil {
				h.Fatal(err)
			}
			r := got.Record
			if r.State != entity.ValueStored || (r.Value == nil) != wantNull || (r.Key == nil) != wantNull || len(r.Value)+len(r.Key) != 0 {
				h.Errorf("Get up to %d: state %d, value %#v, key %#v, want stored, null: %v", limit, r.State, r.Value, r.Key, wantNull)
			}
		}
	}
}

func getOverLimit(h *harness) {
	digest := make([]byte, 32)
	digest[31] = 7
	m := h.put(func(m *entity.Message) {
		m.Record = entity.Record{State: entity.ValueOverLimit, Size: 100 << 20, SHA256: digest, Key: []byte("key"), Limit: "max_record_bytes"}
	})
	if got, want := h.get(m.ID).Record, m.Record; !sameRecord(got, want) {
		h.Errorf("Get = %+v, want %+v", got, want)
	}
}

func getOverHeaderLimit(h *harness) {
	h.wantKept(entity.Record{
		State: entity.ValueOverLimit, Size: 5, SHA256: make([]byte, 32), Value: []byte("value"), Limit: "max_headers",
		Headers: []entity.Header{{Key: "first"}},
	})
}

func getUnreadable(h *harness) {
	h.wantKept(entity.Record{State: entity.ValueUnreadable, Unreadable: "unknown codec \"7\"", LastOffset: 1 << 40})
}

// wantKept checks that a record comes back as it was, however it was stored and
// wherever the message is.
func (h *harness) wantKept(want entity.Record) {
	h.Helper()
	stored := h.message(func(m *entity.Message) { m.Record = want })
	at := h.open(deadLetter, stored.Source.Offset, stored.Source.Partition)
	h.store(repository.Batch{
		Ranges:   []repository.Range{{Partition: at.partition(), From: stored.Source.Offset, To: stored.Source.Offset + 1}},
		Messages: []entity.Message{stored},
	}, 1)
	put := h.put(func(m *entity.Message) { m.Record = want })
	for _, id := range []uuid.UUID{stored.ID, put.ID} {
		if got := h.get(id).Record; !sameRecord(got, want) {
			h.Errorf("Get = %+v, want %+v", got, want)
		}
	}
	h.attempt(put.ID, entity.Rejected)
	h.Archive(h.T, put.ID)
	if got := h.getArchived(put.ID).Record; !sameRecord(got, want) {
		h.Errorf("GetArchived = %+v, want %+v", got, want)
	}
	h.restore(put.ID)
	if got := h.get(put.ID).Record; !sameRecord(got, want) {
		h.Errorf("Get after Restore = %+v, want %+v", got, want)
	}
}

func getFromPayload(h *harness) {
	m := h.put(func(m *entity.Message) {
		m.Source = entity.Source{}
		m.Record = entity.Record{State: entity.ValueFromPayload, Value: []byte(`{"order": 1}`)}
	})
	got := h.get(m.ID)
	if got.Source.Known() || got.Record.State != entity.ValueFromPayload || string(got.Record.Value) != `{"order": 1}` {
		h.Errorf("Get = source %+v, state %d, value %q, want no source and the payload", got.Source, got.Record.State, got.Record.Value)
	}
}

func getMissing(h *harness) {
	m := h.put(func(m *entity.Message) {
		m.Source = entity.Source{}
		m.Record = entity.Record{State: entity.ValueMissing}
	})
	got := h.get(m.ID)
	if got.Source.Known() || got.Record.State != entity.ValueMissing || got.Record.Value != nil {
		h.Errorf("Get = source %+v, state %d, value %q, want no source and the value missing", got.Source, got.Record.State, got.Record.Value)
	}
}

func getOwnBytes(h *harness) {
	m := h.put(func(m *entity.Message) {
		m.Record.Value, m.Record.Key = []byte("value"), []byte("key")
		m.Record.Headers = []entity.Header{{Key: "h", Value: []byte("header")}}
		partition := int32(4)
		m.Origin.Partition = &partition
	})
	got := h.get(m.ID)
	scribble(&got.Record)
	*got.Origin.Partition = 99
	listed := h.list(original, firstPage).Messages
	scribble(&listed[0].Record)
	loaded, _ := h.load([]uuid.UUID{m.ID}, math.MaxInt64)
	scribble(&loaded[0].Record)
	h.wantUnscribbled(m.ID)
	if p := *h.get(m.ID).Origin.Partition; p != 4 {
		h.Errorf("partition is %d after a caller wrote into an answer, want 4", p)
	}
}

// scribble writes into every part of a record, in place.
func scribble(r *entity.Record) {
	r.Value[0], r.Key[0] = 'X', 'X'
	r.Headers[0].Value[0] = 'X'
	r.Headers[0] = entity.Header{Key: "X"}
}

// wantUnscribbled compares with words, not with an earlier answer, which might
// share its bytes with the store.
func (h *harness) wantUnscribbled(id uuid.UUID) {
	h.Helper()
	r := h.get(id).Record
	if string(r.Key) != "key" || string(r.Value) != "value" || len(r.Headers) != 1 || r.Headers[0].Key != "h" || string(r.Headers[0].Value) != "header" {
		h.Errorf("record is %q, %q, %q after a caller wrote into its own, want key, value and one header", r.Key, r.Value, r.Headers)
	}
}
