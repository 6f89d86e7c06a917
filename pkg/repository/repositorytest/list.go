package repositorytest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

var firstPage = repository.Page{Number: 1, Size: 100}

// impossible are names that no topic of these tests has. Some of these names cannot be stored in a column of a
// database.
var impossible = []string{
	"no.such.topic", "orders'; DROP SCHEMA dlq; --", "orders%", "ORDERS", " orders", "orders\x00", "\xff\xfe",
	strings.Repeat("x", 5000),
}

func listPromises() []promise {
	return []promise{
		{"FindsByDeadLetterTopicAndByOriginalTopic", listFindsUnderBothNames},
		{"FindsAMessageOfBothNamesOnce", listFindsOnce},
		{"UnknownOrImpossibleTopicIsEmpty", listUnknownTopic},
		{"NewestFirstWithTiesById", listOrder},
		{"PagesDoNotOverlap", listPages},
		{"TotalCountsAllOnEveryPage", listTotal},
		{"LargeValueIsNotLoaded", listLargeValue},
		{"LargeHeadersAreNotLoaded", listLargeHeaders},
		{"LongKeyIsNotLoaded", listLongKey},
		{"KeysOfAPageAreBounded", listManyKeys},
		{"HeadersOfAPageAreBounded", listManyHeaders},
		{"FirstHeadersOfMany", getManyHeaders},
		{"ReadsTakeRoom", readsReserveMemory},
		{"APageIsBounded", listBounded},
		{"ShowsEveryState", listEveryState},
	}
}

// twoNames stores four messages. Three have the same dead-letter topic: two failed in different original topics, and
// the original topic of the third is not known. The fourth message has another dead-letter topic.
func twoNames(h *harness) (orders, payments, unknown entity.Message) {
	shared := func(topic string) func(*entity.Message) {
		return func(m *entity.Message) { m.OriginalTopic, m.Source = topic, h.source("shared.dlq", 7) }
	}
	orders, payments, unknown = h.put(shared("orders")), h.put(shared("payments")), h.put(shared(""))
	h.put(func(m *entity.Message) { m.OriginalTopic, m.Source = "stock", h.source("stock.dlq", 7) })
	return orders, payments, unknown
}

func listFindsUnderBothNames(h *harness) {
	orders, payments, unknown := twoNames(h)
	h.wantIDs("List(orders)", ids(h.list("orders", firstPage).Messages), []uuid.UUID{orders.ID})
	h.wantIDs("List(payments)", ids(h.list("payments", firstPage).Messages), []uuid.UUID{payments.ID})
	got := h.list("shared.dlq", firstPage)
	h.wantIDs("List(shared.dlq)", ids(got.Messages), []uuid.UUID{unknown.ID, payments.ID, orders.ID})
	check.Same(h, got.Total, 3, "List(shared.dlq) counts")
}

func listFindsOnce(h *harness) {
	m := h.put(func(m *entity.Message) { m.OriginalTopic, m.Source = "same", h.source("same", 7) })
	got := h.list("same", firstPage)
	h.wantIDs("List(same)", ids(got.Messages), []uuid.UUID{m.ID})
	check.Same(h, got.Total, 1, "List(same) counts")
}

func listUnknownTopic(h *harness) {
	h.put()
	for _, topic := range impossible {
		got := h.list(topic, firstPage)
		check.True(h, len(got.Messages) == 0 && got.Total == 0,
			"List(%q) = %v of %d, want none", topic, ids(got.Messages), got.Total)
	}
}

// ties stores n messages, always three with the same created_at, and returns their ids, the oldest first.
func ties(h *harness, n int) []uuid.UUID {
	var all []uuid.UUID
	for len(all) < n {
		var tied []uuid.UUID
		for range 3 {
			m := h.message(func(m *entity.Message) { m.ID = uuid.New() })
			h.Insert(h.T, m)
			tied = append(tied, m.ID)
		}
		slices.SortFunc(tied, compareIDs)
		all = append(all, tied...)
		h.clock.Advance(time.Microsecond)
	}
	return all
}

func listOrder(h *harness) {
	want := ties(h, 12)
	slices.Reverse(want)
	h.wantIDs("List", ids(h.list(original, firstPage).Messages), want)
	h.wantIDs("List by dead-letter topic", ids(h.list(deadLetter, firstPage).Messages), want)
}

func listPages(h *harness) {
	want := ties(h, 12)
	slices.Reverse(want)
	var got []uuid.UUID
	for n := 1; n <= 3; n++ {
		page := h.list(original, repository.Page{Number: n, Size: 5})
		check.Same(h, len(page.Messages), min(5, 12-5*(n-1)), "messages of page %d", n)
		got = append(got, ids(page.Messages)...)
	}
	h.wantIDs("pages 1 to 3", got, want)
}

func listTotal(h *harness) {
	h.puts(5)
	cases := []struct {
		page repository.Page
		len  int
		next bool
	}{
		{repository.Page{Number: 1, Size: 2}, 2, true},
		{repository.Page{Number: 3, Size: 2}, 1, false},
		{repository.Page{Number: 4, Size: 2}, 0, false},
		{repository.Page{Number: 1, Size: 5}, 5, false},
		{repository.Page{Number: 1_000_000, Size: 1000}, 0, false},
	}
	for _, c := range cases {
		got := h.list(original, c.page)
		if len(got.Messages) != c.len || got.Total != 5 || got.HasNext(c.page) != c.next {
			h.Errorf("List(%+v) = %d of %d, more: %v, want %d of 5, more: %v",
				c.page, len(got.Messages), got.Total, got.HasNext(c.page), c.len, c.next)
		}
	}
}

func listLargeValue(h *harness) {
	value := func(n int) func(*entity.Message) {
		return func(m *entity.Message) {
			m.Record.Key = []byte("key")
			m.Record.Headers = []entity.Header{{Key: "h", Value: []byte("v")}}
			m.Record.Value = bytes.Repeat([]byte("x"), n)
		}
	}
	small := h.put(value(repository.ListValueLimit))
	large := h.put(value(repository.ListValueLimit + 1))
	got := h.list(original, firstPage).Messages
	h.wantIDs("List", ids(got), []uuid.UUID{large.ID, small.ID})
	if r := got[0].Record; r.State != entity.ValueNotLoaded || r.Value != nil || r.Size != repository.ListValueLimit+1 {
		h.Errorf("large value: state %d, %d bytes of %d, want not loaded, none of %d", r.State, len(r.Value), r.Size, repository.ListValueLimit+1)
	}
	if r := got[1].Record; r.State != entity.ValueStored || !bytes.Equal(r.Value, small.Record.Value) {
		h.Errorf("value at the limit: state %d, %d bytes, want stored, all %d", r.State, len(r.Value), repository.ListValueLimit)
	}
	for _, m := range got {
		check.True(h, string(m.Record.Key) == "key" && len(m.Record.Headers) == 1,
			"key %q and %d headers listed, want %q and 1", m.Record.Key, len(m.Record.Headers), "key")
	}
}

// listLongKey: a long key is not loaded when a message is read to be shown, but it is loaded when the message is
// exported, or read to be sent.
func listLongKey(h *harness) {
	key := func(n int) entity.Message {
		return h.put(func(m *entity.Message) { m.Record.Key = bytes.Repeat([]byte("k"), n) })
	}
	listed, shown, long := key(repository.ListValueLimit), key(repository.KeyLimit), key(repository.KeyLimit+1)
	wantKey := func(name string, m, of entity.Message, loaded bool) {
		h.Helper()
		want := entity.Record{Key: of.Record.Key}
		if !loaded {
			want = entity.Record{KeyOmitted: int64(len(of.Record.Key))}
		}
		r := m.Record
		check.True(h, bytes.Equal(r.Key, want.Key) && r.KeyOmitted == want.KeyOmitted,
			"%s: key of %d bytes, %d omitted, want %d and %d", name, len(r.Key), r.KeyOmitted, len(want.Key), want.KeyOmitted)
	}
	found := check.Must(h.Repository.Search(h.Context(), repository.SearchQuery{Limit: 10}))(h)
	var exported []entity.Message
	err := h.Repository.Export(h.Context(), repository.ExportQuery{Limit: 10}, func(m *entity.Message) error {
		exported = append(exported, *m)
		return nil
	})
	loaded, _ := h.load([]uuid.UUID{long.ID, shown.ID, listed.ID}, 1<<30)
	check.Require(h, err == nil && len(exported) == 3 && len(loaded) == 3,
		"Export: %v, %d messages, Load: %d, want 3", err, len(exported), len(loaded))
	for i, of := range []entity.Message{long, shown, listed} {
		wantKey("List", h.list(original, firstPage).Messages[i], of, i == 2)
		wantKey("Search", found.Messages[i], of, i == 2)
		wantKey("Get", h.get(of.ID), of, i > 0)
		wantKey("Export", exported[i], of, true)
		wantKey("Load", loaded[i], of, true)
	}
}

// listManyKeys: the bytes of keys count towards the limit of a page.
func listManyKeys(h *harness) {
	const size = 60 << 10
	fits := repository.ListPageLimit / size
	messages := h.puts(fits+5, func(m *entity.Message) { m.Record.Key = bytes.Repeat([]byte("k"), size) })
	got := h.list(original, repository.Page{Number: 1, Size: 1000}).Messages
	check.Require(h, len(got) == len(messages), "List = %d messages, want all %d", len(got), len(messages))
	for i, m := range got {
		switch loaded := m.Record.Key != nil; {
		case loaded == (m.Record.KeyOmitted > 0):
			h.Fatalf("key %d of the page: %d bytes, %d omitted", i, len(m.Record.Key), m.Record.KeyOmitted)
		case loaded && i > fits, !loaded && i < fits-1:
			h.Fatalf("key %d of the page is loaded: %v, want those that fit into %d bytes", i, loaded, repository.ListPageLimit)
		}
	}
}

func listEveryState(h *harness) {
	want := check.Each(entity.Statuses(), func(s entity.Status) uuid.UUID { return h.in(s).ID })
	slices.Reverse(want)
	h.wantIDs("List", ids(h.list(original, firstPage).Messages), want)
}

func listLargeHeaders(h *harness) {
	header := func(n int) func(*entity.Message) {
		return func(m *entity.Message) {
			m.Record.Headers = []entity.Header{{Key: "h", Value: bytes.Repeat([]byte("x"), n)}}
		}
	}
	small := h.put(header(1000))
	large := h.put(header(repository.ListValueLimit))
	got := h.list(original, firstPage).Messages
	h.wantIDs("List", ids(got), []uuid.UUID{large.ID, small.ID})
	if r := got[0].Record; !r.HeadersOmitted || r.Headers != nil || !bytes.Equal(r.Value, large.Record.Value) {
		h.Errorf("large headers: omitted %v, %d headers, want omitted, and the value", r.HeadersOmitted, len(r.Headers))
	}
	if r := got[1].Record; r.HeadersOmitted || len(r.Headers) != 1 {
		h.Errorf("small headers: omitted %v, %d headers, want the one", r.HeadersOmitted, len(r.Headers))
	}
	if r := h.get(large.ID).Record; r.HeadersOmitted || len(r.Headers) != 1 {
		h.Errorf("Get: omitted %v, %d headers, want the one", r.HeadersOmitted, len(r.Headers))
	}
}

// listBounded: a page loads values only as long as their bytes stay within the limit of the page, beginning with those
// of the newest messages.
func listBounded(h *harness) {
	const size = 60 << 10
	fits := repository.ListPageLimit / size
	messages := h.puts(fits+5, func(m *entity.Message) { m.Record.Value = bytes.Repeat([]byte("x"), size) })
	got := h.list(original, repository.Page{Number: 1, Size: 1000}).Messages
	check.Require(h, len(got) == len(messages), "List = %d messages, want all %d", len(got), len(messages))
	for i, m := range got {
		loaded := m.Record.State == entity.ValueStored
		switch {
		case i < fits-1 && !loaded:
			h.Fatalf("value %d of the page is not loaded, want those that fit", i)
		case i > fits && loaded:
			h.Fatalf("value %d of the page is loaded, want none after the first %d bytes", i, repository.ListPageLimit)
		case m.Record.Size != size:
			h.Fatalf("value %d of the page has size %d, want %d", i, m.Record.Size, size)
		}
	}
}

// empties gives a message n empty headers, each of which takes only two bytes in the store.
func empties(n int) func(*entity.Message) {
	return func(m *entity.Message) { m.Record.Headers = make([]entity.Header, n) }
}

// listManyHeaders: the number of headers of a page has a limit, because a header uses more memory than its bytes.
func listManyHeaders(h *harness) {
	fits := repository.ListHeaderLimit / repository.HeaderLimit
	h.puts(fits+2, empties(repository.HeaderLimit))
	many := h.put(empties(repository.HeaderLimit + 1))
	found := check.Must(h.Repository.Search(h.Context(), repository.SearchQuery{Limit: 100}))(h)
	for name, got := range map[string][]entity.Message{"List": h.list(original, firstPage).Messages, "Search": found.Messages} {
		check.Require(h, len(got) == fits+3 && got[0].ID == many.ID,
			"%s: %d messages, want %d, that of too many headers first", name, len(got), fits+3)
		loaded := 0
		for _, m := range got {
			loaded += len(m.Record.Headers)
			check.Same(h, m.Record.HeadersOmitted, (m.Record.Headers == nil),
				"%s: %d headers, omitted", name, len(m.Record.Headers))
		}
		if loaded > repository.ListHeaderLimit || loaded < repository.ListHeaderLimit-2*repository.HeaderLimit || !got[0].Record.HeadersOmitted {
			h.Errorf("%s: %d headers, want nearly %d, and none of the message that has too many", name, loaded, repository.ListHeaderLimit)
		}
	}
}

// getManyHeaders: only the first of many headers are loaded when a message is read to be shown, but all are loaded when
// it is read to be sent.
func getManyHeaders(h *harness) {
	for name, c := range map[string]struct {
		headers func(*entity.Message)
		want    int
		omitted bool
	}{
		"at the limit":   {empties(repository.HeaderLimit), repository.HeaderLimit, false},
		"above":          {empties(repository.HeaderLimit + 1), repository.HeaderLimit, true},
		"far above":      {empties(1_000_000), repository.HeaderLimit, true},
		"many bytes":     {filled(8, repository.HeaderBytesLimit/8), 8, false},
		"too many bytes": {filled(12, repository.HeaderBytesLimit/8), 8, true},
		"one too large":  {filled(1, 2*repository.HeaderBytesLimit), 0, true},
	} {
		m := h.put(c.headers)
		got := h.get(m.ID).Record
		check.True(h, len(got.Headers) == c.want && got.HeadersOmitted == c.omitted,
			"%s: Get has %d headers, omitted %v, want %d and %v", name, len(got.Headers), got.HeadersOmitted, c.want, c.omitted)
		for i := range got.Headers {
			if got.Headers[i].Key != m.Record.Headers[i].Key || !bytes.Equal(got.Headers[i].Value, m.Record.Headers[i].Value) {
				h.Fatalf("%s: header %d is not that of the message", name, i)
			}
		}
		loaded, _ := h.load([]uuid.UUID{m.ID}, 1<<30)
		if len(loaded) != 1 || len(loaded[0].Record.Headers) != len(m.Record.Headers) || loaded[0].Record.HeadersOmitted {
			h.Errorf("%s: Load leaves headers out", name)
		}
	}
}

func filled(n, size int) func(*entity.Message) {
	return func(m *entity.Message) {
		for i := range n {
			m.Record.Headers = append(m.Record.Headers, entity.Header{Value: bytes.Repeat([]byte{byte(i)}, size)})
		}
	}
}

// smallReservation is a MemoryReservation in which as many bytes can still be reserved as its field left says.
type smallReservation struct{ left int64 }

var errNoMemory = errors.New("no room")

func (r *smallReservation) Take(n int64) error {
	if r.left -= n; r.left < 0 {
		return errNoMemory
	}
	return nil
}

// readsReserveMemory: a read reserves memory, in the MemoryReservation of its context, for each message that it loads.
// When Take returns an error, the read returns this error.
func readsReserveMemory(h *harness) {
	id := h.puts(3, func(m *entity.Message) { m.Record.Value = bytes.Repeat([]byte("x"), 10_000) })[0]
	for name, read := range map[string]func(context.Context) error{
		"List": func(ctx context.Context) error { _, err := h.Repository.List(ctx, original, firstPage); return err },
		"Search": func(ctx context.Context) error {
			_, err := h.Repository.Search(ctx, repository.SearchQuery{Limit: 10})
			return err
		},
		"SearchFiltered": func(ctx context.Context) error {
			_, err := h.Repository.Search(ctx, repository.SearchQuery{Limit: 10, Filter: entity.Filter{Statuses: []entity.Status{entity.Pending}}})
			return err
		},
	} {
		for left, fits := range map[int64]bool{30_000: false, 40_000: true} {
			room := &smallReservation{left}
			if err := read(repository.WithMemoryReservation(h.Context(), room)); errors.Is(err, errNoMemory) == fits || fits && err != nil {
				h.Errorf("%s with room for %d: %v, want it to fit: %v", name, left, err, fits)
			}
			check.True(h, !fits || room.left <= left-30_000, "%s took %d bytes, want those of three values", name, left-room.left)
		}
	}
	for left, fits := range map[int64]bool{10_000: false, 14_000: true} {
		_, err := h.Repository.Get(repository.WithMemoryReservation(h.Context(), &smallReservation{left}), id, -1)
		if errors.Is(err, errNoMemory) == fits || fits && err != nil {
			h.Errorf("Get with room for %d: %v, want it to fit: %v", left, err, fits)
		}
	}
}

func countsPromises() []promise {
	return []promise{
		{"AreByOriginalTopicAndStatus", countsByTopicAndStatus},
		{"FollowEveryChange", countsFollow},
	}
}

func (h *harness) wantCounts(want map[repository.Count]bool) {
	h.Helper()
	counts := check.Must(h.Repository.Counts(h.Context()))(h)
	for _, c := range counts {
		check.True(h, want[c], "Counts has %+v, want none of that", c)
		delete(want, c)
	}
	for c := range want {
		h.Errorf("Counts lacks %+v, has %+v", c, counts)
	}
}

func countsByTopicAndStatus(h *harness) {
	h.wantCounts(map[repository.Count]bool{})
	for _, s := range entity.Statuses() {
		h.in(s)
	}
	h.in(entity.Pending)
	h.in(entity.Pending, func(m *entity.Message) { m.OriginalTopic = "payments" })
	h.in(entity.Dead, func(m *entity.Message) { m.OriginalTopic = "" })
	h.wantCounts(map[repository.Count]bool{
		{OriginalTopic: original, Status: entity.Pending, Messages: 2}:   true,
		{OriginalTopic: original, Status: entity.Retrying, Messages: 1}:  true,
		{OriginalTopic: original, Status: entity.Resolved, Messages: 1}:  true,
		{OriginalTopic: original, Status: entity.Dead, Messages: 1}:      true,
		{OriginalTopic: "payments", Status: entity.Pending, Messages: 1}: true,
		{OriginalTopic: "", Status: entity.Dead, Messages: 1}:            true,
	})
}

func countsFollow(h *harness) {
	b := h.batch(h.open(deadLetter, 0, 0), 0, 3)
	h.store(b, 1)
	h.wantCounts(map[repository.Count]bool{{OriginalTopic: original, Status: entity.Pending, Messages: 3}: true})
	h.attempt(b.Messages[0].ID, entity.Acknowledged)
	check.NoError(h, h.Repository.Delete(h.Context(), b.Messages[1].ID, entity.By("alice")))
	h.wantCounts(map[repository.Count]bool{
		{OriginalTopic: original, Status: entity.Pending, Messages: 1}:  true,
		{OriginalTopic: original, Status: entity.Resolved, Messages: 1}: true,
	})
}
