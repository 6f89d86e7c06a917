package redrive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const payments = "payments"

// world is the environment in which a sequence is played: one store, one Kafka cluster, the processes, and what the
// model knows of them. Each change of the store or the cluster is made while mu is locked, so changes happen one after
// the other.
type world struct {
	seed   uint64
	began  time.Time
	rng    *rand.Rand
	store  repository.Repository
	others sync.WaitGroup // goroutines that the sequence has started: requests, and writes of late records

	alive     sync.Mutex
	processes []*process

	mu        sync.Mutex
	log       modelLog
	storeBack time.Time               // the store is unavailable until this time
	locked    map[uuid.UUID]time.Time // another session locks these rows until this time
	place     repository.Partition
	offset    int64 // offset, in the dead-letter topic, of the next dead letter
	messages  []uuid.UUID
	shadows   map[uuid.UUID]*shadow
	histories map[uuid.UUID][]entity.Attempt // by message: its attempts, remembered before the message was deleted
	records   map[uuid.UUID]entity.Record    // original records of messages
	edits     map[uuid.UUID]*entity.Edit     // stored edits of attempts
	leases    map[batchOf]map[uuid.UUID]bool
	redrives  map[uuid.UUID]*redriveShadow
	order     []uuid.UUID // ids of the redrives, in the order in which they were created
	returned  map[uuid.UUID]bool
	letters   map[uuid.UUID]entity.Message // the dead letters that name a position, as they were stored
	firsts    map[uuid.UUID]uuid.UUID      // by digest: the message that counts the repeats of a record
	accepts   map[uuid.UUID]bool           // messages and redrives for which the operator accepted envelopes
	seen      int64                        // id of the last audit entry that the model has read

	failure string
	kind    string // kind of the failure, without details
	told    []string
	score   modelScore
}

// batchOf identifies a lease: the process that has it, the redrive and the batch's number.
type batchOf struct {
	process int
	redrive uuid.UUID
	number  int
}

func newWorld(seed uint64, store repository.Repository) *world {
	w := &world{
		seed: seed, began: time.Now(), rng: rand.New(rand.NewPCG(seed, 2)), store: store,
		log:     modelLog{weather: well, partitions: map[topicPartition][]written{}, lost: map[topicPartition]int64{}},
		locked:  map[uuid.UUID]time.Time{},
		records: map[uuid.UUID]entity.Record{}, edits: map[uuid.UUID]*entity.Edit{},
		shadows: map[uuid.UUID]*shadow{}, histories: map[uuid.UUID][]entity.Attempt{},
		leases: map[batchOf]map[uuid.UUID]bool{}, redrives: map[uuid.UUID]*redriveShadow{}, returned: map[uuid.UUID]bool{},
		accepts: map[uuid.UUID]bool{}, letters: map[uuid.UUID]entity.Message{}, firsts: map[uuid.UUID]uuid.UUID{},
	}
	refs, err := store.OpenTopics(context.Background(), []repository.Topic{{Name: deadLetter, Incarnation: "first"}})
	if err != nil {
		w.fail("no topic", "OpenTopics: %v", err)
		return w
	}
	w.place = repository.Partition{Incarnation: refs[0].Incarnation}
	if _, err := store.OpenPosition(context.Background(), []repository.Position{{Partition: w.place}}); err != nil {
		w.fail("no position", "OpenPosition: %v", err)
	}
	return w
}

// play executes the commands, removes all faults, and waits until no work is left.
func (w *world) play(commands []command) {
	w.add(14, w.rng)
	w.startProcess()
	w.startProcess()
	for _, c := range commands {
		if w.failed() {
			break
		}
		w.tell("%s", c)
		w.do(c)
		elapse(upTo(c.rng(), time.Millisecond, 50*time.Millisecond))
		w.check()
		w.score.commands++
	}
	if !w.failed() {
		w.tell("all is well again")
		w.rest()
		w.check()
		w.checkRest()
	}
	w.tell("over")
	for _, p := range w.processes {
		p.heal()
		p.die()
	}
	for _, p := range w.processes {
		p.loops.Wait()
	}
	w.others.Wait()
	elapse(10 * time.Minute) // lets abandoned work finish
	w.score.sequences++
}

func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf("%9.3f ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// saw adds a line about an action of a process to the log that a failing test prints. The caller holds mu.
func (w *world) saw(p *process, format string, args ...any) {
	w.told = append(w.told, fmt.Sprintf("%9.3f   process %d ", time.Since(w.began).Seconds(), p.number)+fmt.Sprintf(format, args...))
}

// short returns the last eight characters of an id, which are enough to tell the ids of a test apart.
func short(id uuid.UUID) string { return id.String()[28:] }

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure != ""
}

// fail records a difference between the store and the model, unless one is recorded already. The caller holds mu.
func (w *world) fail(kind, format string, args ...any) {
	if w.failure == "" {
		w.kind, w.failure = kind, kind+": "+fmt.Sprintf(format, args...)
	}
}

// want calls fail if ok is false. The caller holds mu.
func (w *world) want(ok bool, kind, format string, args ...any) {
	if !ok {
		w.fail(kind, format, args...)
	}
}

// differs calls fail and locks mu for the call, for callers that do not hold mu.
func (w *world) differs(kind, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail(kind, format, args...)
}

func (w *world) isStoreAway() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.storeBack)
}

// living returns the processes that accept requests.
func (w *world) living() []*process {
	w.alive.Lock()
	defer w.alive.Unlock()
	var living []*process
	for _, p := range w.processes {
		if p.lives() {
			living = append(living, p)
		}
	}
	return living
}

// add stores new dead letters. Some of them are repeats.
func (w *world) add(n int, rng *rand.Rand) {
	for range n {
		m := entity.NewMessage([]string{orders, orders, payments}[rng.IntN(3)], "boom", time.Now())
		m.MaxRetries = 1 + rng.IntN(4)
		m.Record.Value = fmt.Appendf(nil, `{"state":"old","n":%d}`, rng.Uint64())
		switch rng.IntN(16) {
		case 0, 1:
			m.Record.Value = fmt.Appendf(nil, "%s %d", poison, rng.Uint64())
		case 2:
			m.Record.Value = fmt.Appendf(nil, "%s %d", refused, rng.Uint64())
		case 3, 4:
			m.Record.Value = fmt.Appendf(nil, "%s %d", envelope, rng.Uint64())
		}
		if rng.IntN(3) > 0 {
			m.Record.Key = fmt.Appendf(nil, "key %d", rng.IntN(3))
		}
		w.sometimesAgain(&m, rng)
		w.ingest(m)
	}
}

// ingest stores one dead letter.
func (w *world) ingest(m entity.Message) repository.Stored {
	elapse(time.Microsecond) // so no two messages have the same age
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range 8 { // the seed determines the ids
		m.ID[8+i] = byte(w.rng.Uint32())
	}
	m.ID[8] = m.ID[8]&0x3f | 0x80
	m.Record.Size = int64(len(m.Record.Value))
	m.Source = entity.Source{Topic: deadLetter, TopicID: 1, Incarnation: w.place.Incarnation, Offset: w.offset}
	var counts *shadow
	var of uuid.UUID
	if m.NamesPosition() {
		m.SetDigest(nil)
		counts, of = w.firstOf(m)
	}
	stored, err := w.store.Store(context.Background(), repository.Batch{
		Ranges:   []repository.Range{{Partition: w.place, From: w.offset, To: w.offset + 1}},
		Messages: []entity.Message{m}, ReturnWindow: 10 * time.Minute,
	})
	if err != nil || len(stored.Ranges) != 1 {
		w.fail("not stored", "Store = %+v, %v", stored, err)
		return stored
	}
	w.offset++
	if counts != nil {
		w.checkCounted(counts, m.ID)
		return stored
	}
	if m.Digest != uuid.Nil {
		w.letters[m.ID], w.firsts[m.Digest] = m, m.ID
	}
	if of != uuid.Nil {
		w.score.repeats++
	}
	w.messages = append(w.messages, m.ID)
	w.records[m.ID] = m.Record
	s := &shadow{id: m.ID, status: entity.Pending, max: m.MaxRetries, of: of}
	for _, a := range stored.Returns {
		s.count = a.RetryCount
		w.checkArrival(m, a)
	}
	w.shadows[m.ID] = s
	w.score.messages++
	return stored
}

// write appends a record to a partition. The caller holds mu.
func (w *world) write(out entity.Outgoing, at topicPartition) int64 {
	claim := out.Message.Claim
	w.watchOrder(out.Message, claim.RedriveID)
	w.watchBytes(out, at)
	w.watchRepeat(out.Message.ID, claim.RedriveID != uuid.Nil)
	w.checkBounds(claim.RedriveID, out.Message.ID, at.topic)
	w.log.partitions[at] = append(w.log.partitions[at], written{
		out.Message.ID, claim.ID, claim.RedriveID, at.topic, out.Edit.Apply(out.Message.Record),
	})
	w.score.records++
	if w.shadows[out.Message.ID].of != uuid.Nil {
		w.score.single++
	}
	return int64(len(w.log.partitions[at]) - 1)
}

// modelScore counts the events of the played sequences, to check that each kind of event occurs often enough.
type modelScore struct {
	sequences, commands, messages, attempts, records, resolved, dead, redrives, crashes, returns, unsettled, edited int
	counted, repeats, single                                                                                        int // repeats that were counted, repeats of final messages, and records of these
}

func (s *modelScore) add(o modelScore) {
	s.sequences += o.sequences
	s.commands += o.commands
	s.messages += o.messages
	s.attempts += o.attempts
	s.records += o.records
	s.resolved += o.resolved
	s.dead += o.dead
	s.redrives += o.redrives
	s.crashes += o.crashes
	s.returns += o.returns
	s.unsettled += o.unsettled
	s.edited += o.edited
	s.counted += o.counted
	s.repeats += o.repeats
	s.single += o.single
}

func (s modelScore) String() string {
	return fmt.Sprintf("%d sequences of %d commands: %d messages (%d resolved, %d dead, %d unsettled), %d attempts, %d records, %d of them edited, %d of them came back, %d redrives, %d crashes, %d repeats counted, %d of final messages, %d records of these",
		s.sequences, s.commands, s.messages, s.resolved, s.dead, s.unsettled, s.attempts, s.records, s.edited, s.returns, s.redrives, s.crashes, s.counted, s.repeats, s.single)
}

// wantEnough checks that each kind of event except unsettled messages occurred at least once per sequence on average.
func (s modelScore) wantEnough(t *testing.T) {
	t.Helper()
	for what, n := range map[string]int{
		"messages": s.messages, "resolved": s.resolved, "dead": s.dead, "attempts": s.attempts,
		"records": s.records, "redrives": s.redrives, "crashes": s.crashes, "returns": s.returns, "edited": s.edited,
		"counted repeats": s.counted, "repeats of final messages": s.repeats,
	} {
		check.True(t, n >= s.sequences, "%s: %d in %d sequences, want at least one in each", what, n, s.sequences)
	}
}
