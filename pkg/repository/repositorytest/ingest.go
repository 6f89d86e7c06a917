package repositorytest

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func ingestPromises() []promise {
	return []promise{
		{"NewPartitionGetsItsStart", ingestStart},
		{"KnownPartitionKeepsItsPosition", ingestKeepsPosition},
		{"MarksAreThoseOfTheirPartition", ingestMarks},
		{"StoresMessagesAndMovesThePosition", ingestStores},
		{"CreatedAtIsTheStoresOwn", ingestCreatedAt},
		{"KeepsTheStateThatAMessageArrivesIn", ingestState},
		{"StoresOnceWhateverIsRedelivered", ingestRedelivered},
		{"StaleRangeIsLeftOutOthersStored", ingestStale},
		{"RangeAheadIsLeftOut", ingestAhead},
		{"RangeWithoutPositionIsLeftOut", ingestNoPosition},
		{"EmptyRangeMovesThePosition", ingestEmptyRange},
		{"PositionSurvivesDelete", ingestDeleted},
		{"RecreatedTopicStartsOver", ingestRecreated},
		{"PartitionsHaveTheirOwnPositions", ingestPartitions},
		{"StoresALargeBatch", ingestLarge},
		{"NothingGivenIsNothingStored", ingestNothing},
		{"ConcurrentStoresOfOneRangeStoreOnce", ingestConcurrent},
		{"OppositeOrdersDoNotDeadlock", ingestOppositeOrders},
		{"TimestampThatIsNoDateIsKeptAsANumber", ingestRawTime},
	}
}

// stream is one partition of one incarnation of a dead-letter topic, from which tests store records.
type stream struct {
	topic string
	ref   repository.TopicRef
	part  int32
}

func (s stream) partition() repository.Partition {
	return repository.Partition{Incarnation: s.ref.Incarnation, Partition: s.part}
}

// open opens a partition of the first incarnation of a topic, with the position start.
func (h *harness) open(topic string, start int64, part int32) stream {
	h.Helper()
	s := stream{topic: topic, ref: h.topic(topic, "life-1"), part: part}
	h.position(s, start)
	return s
}

// position returns the position of the partition of s. If the partition has no position yet, position sets it to start.
func (h *harness) position(s stream, start int64) int64 {
	h.Helper()
	got := check.Must(h.Repository.OpenPosition(h.Context(), []repository.Position{{Partition: s.partition(), Next: start}}))(h)
	check.Require(h, len(got) == 1 && got[0].Partition == s.partition(), "OpenPosition(%+v) = %+v, want its position", s, got)
	return got[0].Next
}

// batch returns a batch of n new messages of s; the first message has the offset in the parameter from.
func (h *harness) batch(s stream, from int64, n int, changes ...func(*entity.Message)) repository.Batch {
	h.Helper()
	b := repository.Batch{Ranges: []repository.Range{{Partition: s.partition(), From: from, To: from + int64(n)}}}
	for i := range n {
		source := entity.Source{
			Topic: s.topic, TopicID: s.ref.TopicID, Incarnation: s.ref.Incarnation,
			Partition: s.part, Offset: from + int64(i),
		}
		m := h.message(func(m *entity.Message) { m.Source = source })
		for _, change := range changes {
			change(&m)
		}
		if m.Record.State == entity.ValueStored {
			m.Record.Size = int64(len(m.Record.Value))
		}
		b.Messages = append(b.Messages, m)
	}
	return b
}

func join(batches ...repository.Batch) repository.Batch {
	var b repository.Batch
	for _, other := range batches {
		b.Ranges = append(b.Ranges, other.Ranges...)
		b.Messages = append(b.Messages, other.Messages...)
	}
	return b
}

// store stores the batch b, checks that n ranges of the batch were stored, and returns the partitions of these ranges.
func (h *harness) store(b repository.Batch, n int) []repository.Partition {
	h.Helper()
	stored := check.Must(h.Repository.Store(h.Context(), b))(h)
	counted := stored.Ranges
	check.Require(h, len(counted) == n, "Store of %+v counted %+v, want %d ranges", b.Ranges, counted, n)
	return counted
}

func (h *harness) wantPosition(s stream, want int64) {
	h.Helper()
	check.Same(h, h.position(s, -1), want, "position of %+v", s)
}

// wantStored checks that a dead-letter topic has exactly the messages with these ids.
func (h *harness) wantStored(topic string, want []uuid.UUID) {
	h.Helper()
	got := h.list(topic, repository.Page{Number: 1, Size: 10_000})
	h.wantSameIDs("stored", ids(got.Messages), want)
}

func ingestStart(h *harness) {
	h.wantPosition(h.open(deadLetter, 0, 0), 0)
	h.wantPosition(h.open(deadLetter, 1<<60, 1), 1<<60)
}

func ingestKeepsPosition(h *harness) {
	a, b, c := h.open(deadLetter, 10, 0), h.open(deadLetter, 20, 1), h.open("other.dlq", 30, 0)
	fresh := stream{topic: deadLetter, ref: a.ref, part: 7}
	var starts []repository.Position
	for _, s := range []stream{c, fresh, a, b} {
		starts = append(starts, repository.Position{Partition: s.partition(), Next: 99})
	}
	got, err := h.Repository.OpenPosition(h.Context(), starts)
	want := slices.Clone(starts)
	want[0].Next, want[2].Next, want[3].Next = 30, 10, 20
	check.True(h, err == nil && slices.Equal(got, want), "OpenPosition(%+v) = %+v, %v, want %+v", starts, got, err, want)
}

func ingestMarks(h *harness) {
	at := h.open(deadLetter, 10, 0).partition()
	other := at
	other.Partition = 5
	for _, want := range []*repository.Mark{nil, {Offset: 9, Time: -1, CRC: 1<<32 - 1}, {Offset: 12, Time: 1 << 40, CRC: 0}} {
		if want != nil {
			for _, p := range []repository.Partition{at, other} {
				check.NoError(h, h.Repository.SaveMark(h.Context(), p, *want))
			}
		}
		got, err := h.Repository.Mark(h.Context(), at)
		if err != nil || (got == nil) != (want == nil) || got != nil && *got != *want {
			h.Errorf("Mark = %+v, %v, want %+v", got, err, want)
		}
		check.Same(h, check.Must(h.Repository.Mark(h.Context(), other))(h), nil, "Mark of a partition without a position")
	}
}

func ingestStores(h *harness) {
	s := h.open(deadLetter, 5, 3)
	b := h.batch(s, 5, 3)
	got := h.store(b, 1)
	check.True(h, got[0] == s.partition(), "Store counted %+v, want %+v", got, s.partition())
	h.wantPosition(s, 8)
	h.wantStored(deadLetter, ids(b.Messages))
	for _, m := range b.Messages {
		check.Same(h, h.get(m.ID).Source, m.Source, "source")
	}
	next := h.batch(s, 8, 1)
	h.store(next, 1)
	h.wantStored(deadLetter, append(ids(b.Messages), next.Messages[0].ID))
}

func ingestCreatedAt(h *harness) {
	elsewhere := h.clock.Now().Add(-1000 * time.Hour)
	b := h.batch(h.open(deadLetter, 0, 0), 0, 2, func(m *entity.Message) { m.CreatedAt, m.UpdatedAt = elsewhere, elsewhere })
	h.clock.Advance(time.Minute)
	h.store(b, 1)
	for _, m := range b.Messages {
		got := h.get(m.ID)
		check.True(h, got.CreatedAt == h.clock.Kept() && got.UpdatedAt == h.clock.Kept(),
			"created %v, updated %v, want the store's %v", got.CreatedAt, got.UpdatedAt, h.clock.Kept())
	}
}

// ingestState: a message may be DEAD when it is stored, because the attempts on its ancestors have reached the retry
// limit.
func ingestState(h *harness) {
	parent, root := uuid.New(), uuid.New()
	b := h.batch(h.open(deadLetter, 0, 0), 0, 1, func(m *entity.Message) {
		m.Status, m.RetryCount, m.MaxRetries, m.Parent, m.Root = entity.Dead, 8, 8, parent, root
		m.OriginalTopic, m.Origin.Confidence = "", entity.FromNothing
		m.Failure = entity.Failure{Class: "Boom", ConsumerGroup: "billing", Dialect: "spring"}
	})
	h.store(b, 1)
	want := b.Messages[0]
	got := h.get(want.ID)
	if got.Status != want.Status || got.RetryCount != 8 || got.MaxRetries != 8 || got.Parent != parent || got.Root != root {
		h.Errorf("stored %s, %d/%d, parent %s, root %s, want DEAD, 8/8, %s, %s", got.Status, got.RetryCount, got.MaxRetries, got.Parent, got.Root, parent, root)
	}
	check.True(h, got.OriginalTopic == "" && got.Origin == want.Origin && got.Failure == want.Failure,
		"stored %q, %+v, %+v, want %q, %+v, %+v", got.OriginalTopic, got.Origin, got.Failure, "", want.Origin, want.Failure)
}

// ingestRedelivered stores the same records again in every way in which Kafka may deliver them again. The ingester
// decodes the records each time they are delivered, so their messages have other ids each time. Nothing of this may be
// stored.
func ingestRedelivered(h *harness) {
	s := h.open(deadLetter, 0, 0)
	first := h.batch(s, 0, 10)
	h.store(first, 1)
	for _, again := range []repository.Batch{
		first,             // the same batch again, as after a lost answer
		h.batch(s, 0, 10), // the ten stored records, decoded again
		h.batch(s, 5, 10), // some stored records, and new ones after them
		h.batch(s, 0, 11), // all stored records, and a new one
		h.batch(s, 9, 1),  // only the last stored record
	} {
		h.store(again, 0)
	}
	h.wantPosition(s, 10)
	h.wantStored(deadLetter, ids(first.Messages))
}

func ingestStale(h *harness) {
	a, b, c := h.open(deadLetter, 0, 0), h.open(deadLetter, 0, 1), h.open("other.dlq", 0, 0)
	h.store(h.batch(b, 0, 2), 1)
	before := ids(h.list(deadLetter, firstPage).Messages)
	good, stale, other := h.batch(a, 0, 3), h.batch(b, 0, 4), h.batch(c, 0, 2)
	counted := h.store(join(stale, good, other), 2)
	if slices.Contains(counted, b.partition()) || !slices.Contains(counted, a.partition()) || !slices.Contains(counted, c.partition()) {
		h.Errorf("Store counted %+v, want %+v and %+v", counted, a.partition(), c.partition())
	}
	h.wantStored(deadLetter, append(before, ids(good.Messages)...))
	h.wantStored("other.dlq", ids(other.Messages))
	h.wantPosition(a, 3)
	h.wantPosition(b, 2)
	h.wantPosition(c, 2)
}

func ingestAhead(h *harness) {
	s := h.open(deadLetter, 0, 0)
	h.store(h.batch(s, 1, 2), 0)
	h.wantPosition(s, 0)
	h.wantStored(deadLetter, nil)
}

func ingestNoPosition(h *harness) {
	s := stream{topic: deadLetter, ref: h.topic(deadLetter, "life-1"), part: 4}
	h.store(h.batch(s, 0, 2), 0)
	h.wantStored(deadLetter, nil)
	check.Same(h, h.position(s, 7), 7, "position, want the start, 7: nothing was stored")
}

func ingestEmptyRange(h *harness) {
	s := h.open(deadLetter, 0, 0)
	empty := h.batch(s, 0, 5)
	empty.Messages = nil
	h.store(empty, 1)
	h.wantPosition(s, 5)
	gaps := h.batch(s, 5, 5)
	gaps.Messages = gaps.Messages[1:2]
	h.store(gaps, 1)
	h.wantPosition(s, 10)
	h.wantStored(deadLetter, ids(gaps.Messages))
}

func ingestDeleted(h *harness) {
	s := h.open(deadLetter, 0, 0)
	b := h.batch(s, 0, 2)
	h.store(b, 1)
	check.NoError(h, h.Repository.Delete(h.Context(), b.Messages[0].ID, entity.By("alice")))
	h.wantPosition(s, 2)
	h.store(h.batch(s, 0, 2), 0)
	h.wantStored(deadLetter, ids(b.Messages[1:]))
}

func ingestRecreated(h *harness) {
	old := h.open(deadLetter, 0, 0)
	first := h.batch(old, 0, 3)
	h.store(first, 1)

	fresh := stream{topic: deadLetter, ref: h.topic(deadLetter, "life-2")}
	got := h.position(fresh, 0)
	check.Require(h, got == 0, "a recreated topic begins at %d, want 0", got)
	second := h.batch(fresh, 0, 2)
	h.store(second, 1)
	h.wantStored(deadLetter, append(ids(first.Messages), ids(second.Messages)...))
	h.store(h.batch(fresh, 0, 2), 0)
	h.wantPosition(fresh, 2)
	h.wantPosition(old, 3)
}

func ingestPartitions(h *harness) {
	streams := []stream{h.open(deadLetter, 0, 0), h.open(deadLetter, 0, 1), h.open("other.dlq", 0, 0), h.open("other.dlq", 0, 1)}
	var all repository.Batch
	for i, s := range streams {
		all = join(all, h.batch(s, 0, i+1))
	}
	h.store(all, len(streams))
	for i, s := range streams {
		h.wantPosition(s, int64(i+1))
	}
}

func ingestLarge(h *harness) {
	const n = 3000
	s := h.open(deadLetter, 0, 0)
	b := h.batch(s, 0, n)
	h.store(b, 1)
	h.wantPosition(s, n)
	h.wantStored(deadLetter, ids(b.Messages))
}

func ingestNothing(h *harness) {
	h.store(repository.Batch{}, 0)
	got, err := h.Repository.OpenPosition(h.Context(), nil)
	check.True(h, err == nil && len(got) == 0, "OpenPosition() = %+v, %v, want none", got, err)
}

// ingestConcurrent: several members of a consumer group, which have not noticed that they lost the partition, store the
// same range at the same time. Each has decoded messages with other ids. Exactly one call stores its messages.
func ingestConcurrent(h *harness) {
	s := h.open(deadLetter, 0, 0)
	const callers = 16
	batches := make([]repository.Batch, callers)
	for i := range batches {
		batches[i] = h.batch(s, 0, 5)
	}
	var mu sync.Mutex
	var winners [][]uuid.UUID
	together(callers, func(i int) {
		stored, err := h.Repository.Store(h.Context(), batches[i])
		check.True(h, err == nil, "Store: %v", err)
		if len(stored.Ranges) == 1 {
			mu.Lock()
			defer mu.Unlock()
			winners = append(winners, ids(batches[i].Messages))
		}
	})
	check.Require(h, len(winners) == 1, "%d of %d stores of one range counted, want 1", len(winners), callers)
	h.wantStored(deadLetter, winners[0])
	h.wantPosition(s, 5)
}

func ingestOppositeOrders(h *harness) {
	streams := make([]stream, 8)
	for i := range streams {
		streams[i] = h.open(deadLetter, 0, int32(i))
	}
	for round := range int64(rounds) {
		var mu sync.Mutex
		counted := map[repository.Partition]int{}
		batches := make([]repository.Batch, 6)
		for i := range batches {
			order := slices.Clone(streams)
			if i%2 == 1 {
				slices.Reverse(order)
			}
			for _, s := range order {
				batches[i] = join(batches[i], h.batch(s, round, 1))
			}
		}
		together(len(batches), func(i int) {
			got, err := h.Repository.Store(h.Context(), batches[i])
			check.True(h, err == nil, "Store: %v", err)
			mu.Lock()
			defer mu.Unlock()
			for _, p := range got.Ranges {
				counted[p]++
			}
		})
		for _, s := range streams {
			check.Same(h, counted[s.partition()], 1, "round %d: the range of %+v counted times", round, s.partition())
		}
	}
	check.Same(h, h.list(deadLetter, firstPage).Total, int64(rounds*len(streams)), "stored messages")
}

func ingestRawTime(h *harness) {
	s := h.open(deadLetter, 0, 0)
	b := h.batch(s, 0, 4)
	for i, raw := range []int64{math.MaxInt64, 0, math.MinInt64, 0} {
		source := &b.Messages[i].Source
		if source.RawTime = raw; raw == 0 {
			source.Timestamp = h.clock.Kept()
		}
	}
	h.store(b, 1)
	for _, m := range b.Messages {
		check.Same(h, h.get(m.ID).Source, m.Source, "Get has the source")
		page := h.list(deadLetter, repository.Page{Number: 1, Size: 10}).Messages
		i := slices.IndexFunc(page, func(other entity.Message) bool { return other.ID == m.ID })
		check.True(h, i >= 0 && page[i].Source == m.Source, "List has not the source %+v in %+v", m.Source, page)
	}
	gone := b.Messages[0]
	h.attempt(gone.ID, entity.Acknowledged)
	h.Archive(h.T, gone.ID)
	check.Same(h, h.getArchived(gone.ID).Source, gone.Source, "GetArchived has the source")
	h.restore(gone.ID)
	check.Same(h, h.get(gone.ID).Source, gone.Source, "restored with the source")
}
