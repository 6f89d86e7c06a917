package repositorytest

import (
	"errors"
	"math"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

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
	if err != nil {
		h.Fatalf("Load: %v", err)
	}
	return messages, taken
}

// sized makes a message whose record is n bytes in all.
func sized(n int) func(*entity.Message) {
	return func(m *entity.Message) { m.Record = entity.Record{Value: make([]byte, n)} }
}

func loadOrder(h *harness) {
	a, b, c := h.put(sized(repository.ListValueLimit+1)), h.put(full), h.put(sized(0))
	want := []uuid.UUID{c.ID, a.ID, b.ID}
	got, taken := h.load(want, math.MaxInt64)
	h.wantIDs("Load", ids(got), want)
	if taken != 3 {
		h.Errorf("Load took %d ids, want 3", taken)
	}
	if len(got) == 3 {
		if n := len(got[1].Record.Value); n != repository.ListValueLimit+1 {
			h.Errorf("large value has %d bytes, want %d", n, repository.ListValueLimit+1)
		}
		if r := got[2].Record; string(r.Key) != "key" || len(r.Headers) != 1 || string(r.Value) != `{"order": 1}` {
			h.Errorf("Load = key %q, %d headers, value %q, want all of them", r.Key, len(r.Headers), r.Value)
		}
	}
}

func loadStops(h *harness) {
	a, b, c := h.put(sized(1000)), h.put(sized(1000)), h.put(sized(1000))
	all := []uuid.UUID{a.ID, b.ID, c.ID}
	for maxBytes, want := range map[int64]int{1100: 1, 1500: 1, 2500: 2, 3500: 3} {
		got, taken := h.load(all, maxBytes)
		h.wantIDs("Load", ids(got), all[:want])
		if taken != want {
			h.Errorf("Load within %d took %d ids, want %d", maxBytes, taken, want)
		}
	}
}

func loadTooLarge(h *harness) {
	a, b := h.put(sized(1000)), h.put(sized(10))
	for maxBytes, all := range map[int64][]uuid.UUID{0: {a.ID, b.ID}, 999: {uuid.New(), a.ID, b.ID}} {
		messages, taken, err := h.Repository.Load(h.Context(), all, maxBytes)
		var large *repository.TooLargeError
		if !errors.As(err, &large) || len(messages) > 0 || taken != 0 {
			h.Fatalf("Load of 1000 bytes within %d = %v, %d taken, %v, want a *TooLargeError", maxBytes, ids(messages), taken, err)
		}
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
		if got, err := part(live.ID, false, c.from, c.length); err != nil || got != c.want {
			h.Errorf("ValuePart from %d, %d bytes = %q, %v, want %q", c.from, c.length, got, err, c.want)
		}
	}
	if got, err := part(empty.ID, false, 0, 4); err != nil || got != "" {
		h.Errorf("ValuePart of no value = %q, %v, want nothing", got, err)
	}
	if got, err := part(away.ID, true, 1, 5); err != nil || got != string(away.Record.Value[1:6]) {
		h.Errorf("ValuePart in the archive = %q, %v, want %q", got, err, away.Record.Value[1:6])
	}
	for id, archived := range map[uuid.UUID]bool{live.ID: true, away.ID: false, uuid.New(): false} {
		_, err := part(id, archived, 0, 4)
		h.wantNotFound("ValuePart", id, err)
	}
}

func loadGone(h *harness) {
	a, b := h.put(), h.put()
	got, taken := h.load([]uuid.UUID{uuid.New(), a.ID, uuid.New(), b.ID, uuid.New()}, math.MaxInt64)
	h.wantIDs("Load", ids(got), []uuid.UUID{a.ID, b.ID})
	if taken != 5 {
		h.Errorf("Load took %d ids, want all 5", taken)
	}
	got, taken = h.load([]uuid.UUID{uuid.New(), uuid.New()}, math.MaxInt64)
	if len(got) != 0 || taken != 2 {
		h.Errorf("Load of what is gone = %v, %d taken, want none and 2", ids(got), taken)
	}
}

// loadGoesOn reads all as a caller does: again and again from behind taken.
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
		if taken < 1 || taken > len(left) {
			h.Fatalf("Load of %d ids took %d, want 1 to all", len(left), taken)
		}
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
