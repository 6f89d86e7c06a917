package repositorytest

import (
	"errors"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
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
	h.wantNotFound("Get", id, check.Err(h.Repository.Get(h.Context(), id, whole)))
}

// full sets most fields that a message can have while a claim holds it.
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

// asKept returns the message m with CreatedAt and UpdatedAt in the precision in which every store keeps them.
func asKept(m entity.Message) entity.Message {
	m.CreatedAt, m.UpdatedAt = entity.TruncateTime(m.CreatedAt), entity.TruncateTime(m.UpdatedAt)
	return m
}

func getEveryField(h *harness) {
	want := asKept(h.put(full))
	got := h.get(want.ID)
	check.Same(h, got, want, "Get")
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
		check.Same(h, at, (time.Time{}), "%s, want the zero time", name)
	}
	check.True(h, got.Parent == uuid.Nil && got.Root == uuid.Nil && got.Claim.ID == uuid.Nil,
		"parent %s, root %s, claim %s, want none", got.Parent, got.Root, got.Claim.ID)
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
		check.Same(h, at, want, "%s", name)
	}
}

func getBounded(h *harness) {
	m := h.put(func(m *entity.Message) { m.Record.Value, m.Record.Key = []byte("12345"), []byte("a long key") })
	for limit, loads := range map[int64]bool{0: false, 4: false, 5: true, 6: true, -1: true, 1 << 40: true} {
		got := check.Must(h.Repository.Get(h.Context(), m.ID, limit))(h)
		r := got.Record
		check.True(h, !loads || r.State == entity.ValueStored && string(r.Value) == "12345",
			"Get up to %d: state %d, %q, want the value", limit, r.State, r.Value)
		check.True(h, loads || r.State == entity.ValueNotLoaded && r.Value == nil,
			"Get up to %d: state %d, %q, want it not loaded", limit, r.State, r.Value)
		check.True(h, r.Size == 5 && string(r.Key) == "a long key",
			"Get up to %d: size %d, key %q, want 5 and the key", limit, r.Size, r.Key)
	}
}

func getNullAndEmpty(h *harness) {
	null := h.put(func(m *entity.Message) { m.Record.Value, m.Record.Key = nil, nil })
	empty := h.put(func(m *entity.Message) { m.Record.Value, m.Record.Key = []byte{}, []byte{} })
	for _, limit := range []int64{0, whole} {
		for id, wantNull := range map[uuid.UUID]bool{null.ID: true, empty.ID: false} {
			got := check.Must(h.Repository.Get(h.Context(), id, limit))(h)
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

// wantKept stores a record in two ways, by Store and by Insert. It checks that Get returns the record unchanged and,
// for the inserted message, also GetArchived, and Get after a restore.
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
		got := h.get(id).Record
		check.True(h, sameRecord(got, want), "Get = %+v, want %+v", got, want)
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
	check.True(h, !got.Source.Known() && got.Record.State == entity.ValueFromPayload && string(got.Record.Value) == `{"order": 1}`,
		"Get = source %+v, state %d, value %q, want no source and the payload", got.Source, got.Record.State, got.Record.Value)
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
	check.Same(h, *h.get(m.ID).Origin.Partition, 4, "partition after a caller wrote into an answer")
}

// scribble overwrites the caller's copy of a record in place. A store that shares memory with its callers would show
// these changes.
func scribble(r *entity.Record) {
	r.Value[0], r.Key[0] = 'X', 'X'
	r.Headers[0].Value[0] = 'X'
	r.Headers[0] = entity.Header{Key: "X"}
}

// wantUnscribbled checks that the stored record of a message was not changed. It compares the record with literals,
// because the test's own copy might share memory with the store.
func (h *harness) wantUnscribbled(id uuid.UUID) {
	h.Helper()
	r := h.get(id).Record
	if string(r.Key) != "key" || string(r.Value) != "value" || len(r.Headers) != 1 || r.Headers[0].Key != "h" || string(r.Headers[0].Value) != "header" {
		h.Errorf("record is %q, %q, %q after a caller wrote into its own, want key, value and one header", r.Key, r.Value, r.Headers)
	}
}

func loadPromises() []promise {
	return []promise{
		{"IsInTheOrderAskedAndWhole", loadOrder},
		{"StopsAtMaxBytes", loadStops},
		{"LoadsNothingThatIsLargerThanItsBytes", loadTooLarge},
		{"LeavesOutWhatIsGone", loadGone},
		{"ReadsPartsOfAValue", loadParts},
		{"GoesOnBehindWhatWasTaken", loadGoesOn},
		{"NothingAskedIsNothingLoaded", loadNothing},
	}
}

func (h *harness) load(ids []uuid.UUID, maxBytes int64) ([]entity.Message, int) {
	h.Helper()
	messages, taken, err := h.Repository.Load(h.Context(), ids, maxBytes)
	check.Require(h, err == nil, "Load: %v", err)
	return messages, taken
}

// sized gives a message a record that has only a value, of n bytes.
func sized(n int) func(*entity.Message) {
	return func(m *entity.Message) { m.Record = entity.Record{Value: make([]byte, n)} }
}

func loadOrder(h *harness) {
	a, b, c := h.put(sized(repository.ListValueLimit+1)), h.put(full), h.put(sized(0))
	want := []uuid.UUID{c.ID, a.ID, b.ID}
	got, taken := h.load(want, math.MaxInt64)
	h.wantIDs("Load", ids(got), want)
	check.Same(h, taken, 3, "Load took ids")
	if len(got) == 3 {
		check.Same(h, len(got[1].Record.Value), repository.ListValueLimit+1, "bytes of large value")
		r := got[2].Record
		check.True(h, string(r.Key) == "key" && len(r.Headers) == 1 && string(r.Value) == `{"order": 1}`,
			"Load = key %q, %d headers, value %q, want all of them", r.Key, len(r.Headers), r.Value)
	}
}

func loadStops(h *harness) {
	a, b, c := h.put(sized(1000)), h.put(sized(1000)), h.put(sized(1000))
	all := []uuid.UUID{a.ID, b.ID, c.ID}
	for maxBytes, want := range map[int64]int{1100: 1, 1500: 1, 2500: 2, 3500: 3} {
		got, taken := h.load(all, maxBytes)
		h.wantIDs("Load", ids(got), all[:want])
		check.Same(h, taken, want, "Load within %d took ids", maxBytes)
	}
}

func loadTooLarge(h *harness) {
	a, b := h.put(sized(1000)), h.put(sized(10))
	for maxBytes, all := range map[int64][]uuid.UUID{0: {a.ID, b.ID}, 999: {uuid.New(), a.ID, b.ID}} {
		messages, taken, err := h.Repository.Load(h.Context(), all, maxBytes)
		var large *repository.TooLargeError
		check.Require(h, errors.As(err, &large) && len(messages) <= 0 && taken == 0,
			"Load of 1000 bytes within %d = %v, %d taken, %v, want a *TooLargeError", maxBytes, ids(messages), taken, err)
		if got, _ := h.load(all, large.Bytes); len(got) == 0 || got[0].ID != a.ID {
			h.Errorf("Load within the %d bytes it asked for = %v, want it", large.Bytes, ids(got))
		}
	}
}

func loadParts(h *harness) {
	live := h.put(func(m *entity.Message) { m.Record = entity.Record{Value: []byte("0123456789")} })
	empty := h.put(func(m *entity.Message) { m.Record = entity.Record{Key: []byte("k")} })
	away := h.archived()
	part := func(id uuid.UUID, archived bool, from, length int64) (string, error) {
		got, err := h.Repository.ValuePart(h.Context(), repository.ValuePart{ID: id, Archived: archived, From: from, Length: length})
		return string(got), err
	}
	for _, c := range []struct {
		from, length int64
		want         string
	}{{0, 4, "0123"}, {4, 4, "4567"}, {8, 4, "89"}, {10, 4, ""}, {40, 4, ""}, {0, 10, "0123456789"}, {0, 1 << 20, "0123456789"}} {
		got := check.Must(part(live.ID, false, c.from, c.length))(h)
		check.Same(h, got, c.want, "ValuePart from %d, %d bytes", c.from, c.length)
	}
	check.Same(h, check.Must(part(empty.ID, false, 0, 4))(h), "", "ValuePart of no value")
	if got, err := part(away.ID, true, 1, 5); err != nil || got != string(away.Record.Value[1:6]) {
		h.Errorf("ValuePart in the archive = %q, %v, want %q", got, err, away.Record.Value[1:6])
	}
	for id, archived := range map[uuid.UUID]bool{live.ID: true, away.ID: false, uuid.New(): false} {
		h.wantNotFound("ValuePart", id, check.Err(part(id, archived, 0, 4)))
	}
}

func loadGone(h *harness) {
	a, b := h.put(), h.put()
	got, taken := h.load([]uuid.UUID{uuid.New(), a.ID, uuid.New(), b.ID, uuid.New()}, math.MaxInt64)
	h.wantIDs("Load", ids(got), []uuid.UUID{a.ID, b.ID})
	check.Same(h, taken, 5, "Load took ids")
	got, taken = h.load([]uuid.UUID{uuid.New(), uuid.New()}, math.MaxInt64)
	check.True(h, len(got) == 0 && taken == 2, "Load of what is gone = %v, %d taken, want none and 2", ids(got), taken)
}

// loadGoesOn reads all messages as callers of Load do: it calls Load again and again, each time with the ids that the
// previous call did not process.
func loadGoesOn(h *harness) {
	var want, left []uuid.UUID
	for _, n := range []int{10, 5000, 10, 10, 900, 200, 5000, 5000, 0, 0} {
		m := h.put(sized(n))
		want = append(want, m.ID)
		left = append(left, uuid.New(), m.ID)
	}
	var got []uuid.UUID
	for range len(left) {
		messages, taken, err := h.Repository.Load(h.Context(), left, 1000)
		var large *repository.TooLargeError
		if errors.As(err, &large) {
			messages, taken = h.load(left, large.Bytes)
		} else if err != nil {
			h.Fatalf("Load: %v", err)
		}
		check.Require(h, taken >= 1 && taken <= len(left), "Load of %d ids took %d, want 1 to all", len(left), taken)
		got = append(got, ids(messages)...)
		if left = left[taken:]; len(left) == 0 {
			break
		}
	}
	h.wantIDs("Load until nothing is left", got, want)
}

func loadNothing(h *harness) {
	if got, taken := h.load(nil, 1000); len(got) != 0 || taken != 0 {
		h.Errorf("Load of nothing = %v, %d taken, want none and 0", ids(got), taken)
	}
}
