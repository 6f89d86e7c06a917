package repositorytest

import (
	"bytes"
	"errors"
	"reflect"
	"slices"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func exportPromises() []promise {
	return []promise{
		{"IsEveryMessageWithItsBytes", exportWhole},
		{"IsOneMoment", exportMoment},
		{"StopsAtTheLimit", exportLimit},
		{"StopsWhenTheCallerDoes", exportStops},
		{"LeavesOutValuesOverTheLimit", exportLargeValues},
		{"GoesOnBeyondAStep", exportMany},
	}
}

// exported exports, and does something with each message before the next.
func (h *harness) exported(q repository.ExportQuery, with func(*entity.Message)) []uuid.UUID {
	h.Helper()
	var all []uuid.UUID
	err := h.Repository.Export(h.Context(), q, func(m *entity.Message) error {
		all = append(all, m.ID)
		if with != nil {
			with(m)
		}
		return nil
	})
	if err != nil {
		h.Fatalf("Export(%+v): %v", q, err)
	}
	return all
}

// export exports all that match, with all their bytes.
func (h *harness) export(q repository.ExportQuery) []uuid.UUID {
	h.Helper()
	if q.Limit == 0 {
		q.Limit, q.MaxValue = everything, whole
	}
	return h.exported(q, nil)
}

func exportWhole(h *harness) {
	h.assorted()
	h.put(func(m *entity.Message) {
		m.Record.Key, m.Record.Value = []byte{0, 255}, bytes.Repeat([]byte("x"), 100_000)
		m.Record.Headers = []entity.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "b", Value: bytes.Repeat([]byte("h"), 50_000)}}
	})
	h.put(func(m *entity.Message) { m.Record.Value = nil })
	h.put(func(m *entity.Message) { m.Source, m.Record.Value = entity.Source{}, bytes.Repeat([]byte("1"), 50_000) })
	h.put(func(m *entity.Message) { m.Source, m.Record.Value = entity.Source{}, nil })
	seen := 0
	h.exported(repository.ExportQuery{Limit: everything, MaxValue: whole}, func(m *entity.Message) {
		seen++
		if want := h.get(m.ID); !reflect.DeepEqual(*m, want) {
			h.Errorf("exported\n     %+v\nwant %+v", *m, want)
		}
	})
	if seen != 11 {
		h.Errorf("%d messages, want 11", seen)
	}
}

func exportMoment(h *harness) {
	// So large that each is read by itself.
	want := h.puts(30, func(m *entity.Message) { m.Record.Value = bytes.Repeat([]byte("v"), 40_000) })
	slices.Reverse(want)
	changed := false
	got := h.exported(repository.ExportQuery{Limit: everything, MaxValue: whole}, func(m *entity.Message) {
		if m.Status != entity.Pending || len(m.Record.Value) == 0 {
			h.Errorf("message %s is %s with %d bytes, want it as it was", m.ID, m.Status, len(m.Record.Value))
		}
		if changed {
			return
		}
		changed = true
		h.put()
		for _, id := range want[1:10] {
			if err := h.Repository.Delete(h.Context(), id, entity.By("alice")); err != nil {
				h.Error(err)
			}
		}
		h.claimAll(intents(want[10:20]...)...)
	})
	h.wantIDs("exported", got, want)
}

func exportLimit(h *harness) {
	want := h.puts(5)
	slices.Reverse(want)
	for limit := range 7 {
		if limit > 0 {
			h.wantIDs("exported", h.export(repository.ExportQuery{Limit: limit}), want[:min(limit, 5)])
		}
	}
}

func exportStops(h *harness) {
	h.puts(5)
	enough := errors.New("enough")
	seen := 0
	err := h.Repository.Export(h.Context(), repository.ExportQuery{Limit: everything}, func(*entity.Message) error {
		if seen++; seen == 3 {
			return enough
		}
		return nil
	})
	if err != enough || seen != 3 { //nolint:errorlint // the caller's own error, as it is
		h.Errorf("Export = %v after %d messages, want the caller's error after 3", err, seen)
	}
	h.put() // and the store goes on
}

func exportLargeValues(h *harness) {
	for _, size := range []int{100, 101, 20_000, 40_000, 40_001, 200_000} {
		h.put(func(m *entity.Message) { m.Record.Value = bytes.Repeat([]byte("v"), size) })
	}
	for _, limit := range []int64{0, 100, 20_000, 40_000} {
		h.exported(repository.ExportQuery{Limit: everything, MaxValue: limit}, func(m *entity.Message) {
			r := m.Record
			loaded := r.Size <= limit
			if loaded != (r.State == entity.ValueStored) || loaded != (int64(len(r.Value)) == r.Size) {
				h.Errorf("up to %d bytes: a value of %d is in state %d with %d bytes", limit, r.Size, r.State, len(r.Value))
			}
		})
	}
}

func exportMany(h *harness) {
	var want []uuid.UUID
	for range 2100 {
		m := h.message()
		h.Insert(h.T, m)
		want = append(want, m.ID)
	}
	got := h.exported(repository.ExportQuery{Limit: 5000}, nil)
	h.wantSameIDs("exported", got, want)
}
