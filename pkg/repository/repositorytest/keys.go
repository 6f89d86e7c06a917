package repositorytest

import (
	"crypto/sha256"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func keysPromises() []promise {
	return []promise{
		{"FirstIsNew", keysFirst},
		{"IsAtWorkWhileTheLeaseLives", keysAtWork},
		{"AnswerIsKeptAsItWas", keysAnswer},
		{"AnswerNeedsNoBody", keysEmptyAnswer},
		{"AbandonedKeepsTheOperation", keysAbandoned},
		{"AbandonedHasALeaseOfItsOwn", keysAbandonedLease},
		{"OwnerIsToldTheSameAgain", keysAgain},
		{"OwnerIsToldAgainThatItWasAbandoned", keysAbandonedAgain},
		{"AnotherRequestIsOther", keysOther},
		{"PrincipalsAndKeysStandApart", keysApart},
		{"HoldProlongsTheLease", keysHold},
		{"DroppedIsNewAgain", keysDrop},
		{"AnswerIsGivenOnce", keysCloseOnce},
		{"OnlyTheOwnerCounts", keysOwner},
		{"NothingCountsOnceDone", keysDone},
		{"UnknownKeysAreLeftAlone", keysUnknown},
		{"IsForgottenAfterItsLife", keysLife},
		{"LifeCountsFromTheFirstRequest", keysLifeFromFirst},
		{"TakesTextThatIsNone", keysText},
		{"OneOfManyCallersBegins", keysRace},
		{"OneOfManyCallersTakesOver", keysRaceAbandoned},
		{"AnswerReachesEveryCaller", keysRaceAnswer},
	}
}

const keyLease = 30 * time.Second

// keyRequest returns a new request with this Idempotency-Key.
func keyRequest(key string) repository.Key {
	return repository.Key{
		Principal: "alice", Key: key, Request: sha256.Sum256([]byte("POST /x")), Operation: uuid.New(), Owner: uuid.New(),
	}
}

// sentAgain returns the same request with a new owner and a new operation, as when its client sends it again.
func sentAgain(k repository.Key) repository.Key {
	k.Operation, k.Owner = uuid.New(), uuid.New()
	return k
}

func (h *harness) openKey(k repository.Key) repository.KeyState {
	h.Helper()
	return check.Must(h.Repository.OpenKey(h.Context(), k, keyLease))(h)
}

// wantKey opens a key, and checks the phase and the operation of the returned state.
func (h *harness) wantKey(when string, k repository.Key, phase repository.KeyPhase, operation uuid.UUID) {
	h.Helper()
	h.wantState(when, h.openKey(k), repository.KeyState{Phase: phase, Operation: operation})
}

func (h *harness) wantState(when string, got, want repository.KeyState) {
	h.Helper()
	check.Same(h, got, want, "%s: OpenKey", when)
}

// begin opens an Idempotency-Key that no request has used before, and returns the request that owns the key.
func (h *harness) begin(key string) repository.Key {
	h.Helper()
	k := keyRequest(key)
	h.wantKey("the first request", k, repository.KeyNew, k.Operation)
	return k
}

func (h *harness) closeKey(k repository.Key, answer repository.Answer) {
	h.Helper()
	check.NoError(h, h.Repository.CloseKey(h.Context(), k, answer))
}

func (h *harness) holdKey(k repository.Key) {
	h.Helper()
	check.NoError(h, h.Repository.HoldKey(h.Context(), k, keyLease))
}

func (h *harness) dropKey(k repository.Key) {
	h.Helper()
	check.NoError(h, h.Repository.DropKey(h.Context(), k))
}

func anAnswer() repository.Answer {
	return repository.Answer{Status: 202, Location: "/api/v1/redrives/1", Body: []byte(`{"id": "1"}`)}
}

func keysFirst(h *harness) { h.begin("k") }

func keysAtWork(h *harness) {
	k := h.begin("k")
	h.clock.Advance(keyLease - time.Second)
	for range 2 {
		h.wantKey("while the first is at work", sentAgain(k), repository.KeyAtWork, k.Operation)
	}
}

// keysAgain: OpenKey has the same answer when the owner of a key repeats it before the key is closed, because a driver
// may send a statement twice.
func keysAgain(h *harness) {
	k := h.begin("k")
	h.clock.Advance(keyLease - time.Second)
	h.wantKey("the same call", k, repository.KeyNew, k.Operation)
	h.clock.Advance(keyLease - time.Second)
	h.wantKey("another owner, within the lease of the second call", sentAgain(k), repository.KeyAtWork, k.Operation)
	h.clock.Advance(2 * time.Second)
	h.wantKey("the same call, once the lease is over", k, repository.KeyNew, k.Operation)
	other := k
	other.Request = sha256.Sum256([]byte("POST /y"))
	h.wantKey("another request of the same owner", other, repository.KeyOther, k.Operation)
	h.closeKey(k, anAnswer())
	h.wantState("once answered", h.openKey(k), repository.KeyState{Phase: repository.KeyDone, Operation: k.Operation, Answer: anAnswer()})
}

func keysAbandonedAgain(h *harness) {
	first := h.begin("k")
	h.clock.Advance(keyLease)
	k := sentAgain(first)
	for range 2 {
		h.wantKey("the one who took it over", k, repository.KeyAbandoned, first.Operation)
	}
	h.wantKey("another", sentAgain(first), repository.KeyAtWork, first.Operation)
	h.wantKey("the first owner", first, repository.KeyAtWork, first.Operation)
}

func keysAnswer(h *harness) {
	k := h.begin("k")
	answer := anAnswer()
	answer.Body = allBytes()
	h.closeKey(k, answer)
	for i := range answer.Body {
		answer.Body[i] = 'x' // changes the caller's copy of the body, whose memory the store must not share
	}
	want := repository.KeyState{Phase: repository.KeyDone, Operation: k.Operation, Answer: anAnswer()}
	want.Answer.Body = allBytes()
	for _, passed := range []time.Duration{0, keyLease, repository.KeyLife - keyLease - time.Second} {
		h.clock.Advance(passed)
		got := h.openKey(sentAgain(k))
		h.wantState("once it is done", got, want)
		clear(got.Answer.Body)
	}
}

func keysEmptyAnswer(h *harness) {
	k := h.begin("k")
	h.closeKey(k, repository.Answer{Status: 204})
	got := h.openKey(sentAgain(k))
	if got.Phase != repository.KeyDone || got.Answer.Status != 204 || got.Answer.Location != "" || len(got.Answer.Body) != 0 {
		h.Errorf("OpenKey = %+v, want done with 204 and nothing else", got)
	}
}

func keysAbandoned(h *harness) {
	k := h.begin("k")
	h.clock.Advance(keyLease)
	second := sentAgain(k)
	h.wantKey("once the lease is over", second, repository.KeyAbandoned, k.Operation)
	h.clock.Advance(keyLease + time.Second)
	third := sentAgain(k)
	h.wantKey("once the second lease is over", third, repository.KeyAbandoned, k.Operation)
	h.closeKey(third, anAnswer())
	h.wantState("once it is done", h.openKey(sentAgain(k)),
		repository.KeyState{Phase: repository.KeyDone, Operation: k.Operation, Answer: anAnswer()})
}

func keysAbandonedLease(h *harness) {
	k := h.begin("k")
	h.clock.Advance(keyLease)
	h.wantKey("once the lease is over", sentAgain(k), repository.KeyAbandoned, k.Operation)
	h.clock.Advance(keyLease - time.Second)
	h.wantKey("while the second is at work", sentAgain(k), repository.KeyAtWork, k.Operation)
}

func keysOther(h *harness) {
	k := h.begin("k")
	other := sentAgain(k)
	other.Request = sha256.Sum256([]byte("POST /y"))
	h.wantKey("another request while the first is at work", other, repository.KeyOther, k.Operation)
	h.clock.Advance(2 * keyLease)
	h.wantKey("another request once the lease is over", other, repository.KeyOther, k.Operation)
	second := sentAgain(k)
	h.wantKey("the same request after it", second, repository.KeyAbandoned, k.Operation)
	h.closeKey(second, anAnswer())
	h.wantKey("another request once it is done", other, repository.KeyOther, k.Operation)
}

func keysApart(h *harness) {
	k := h.begin("k")
	h.closeKey(k, anAnswer())
	h.begin("K")
	h.begin("k ")
	h.begin("")
	bob := keyRequest("k")
	bob.Principal = "bob"
	h.wantKey("another principal", bob, repository.KeyNew, bob.Operation)
}

func keysHold(h *harness) {
	k := h.begin("k")
	for range 3 {
		h.clock.Advance(keyLease - time.Second)
		h.holdKey(k)
	}
	h.clock.Advance(keyLease - time.Second)
	h.wantKey("while it is held", sentAgain(k), repository.KeyAtWork, k.Operation)
	h.clock.Advance(time.Second)
	h.wantKey("once it is no longer held", sentAgain(k), repository.KeyAbandoned, k.Operation)
}

func keysDrop(h *harness) {
	k := h.begin("k")
	h.dropKey(k)
	other := keyRequest("k")
	other.Request = sha256.Sum256([]byte("POST /y"))
	h.wantKey("once it is dropped", other, repository.KeyNew, other.Operation)
}

func keysCloseOnce(h *harness) {
	k := h.begin("k")
	h.closeKey(k, anAnswer())
	h.closeKey(k, repository.Answer{Status: 500})
	h.wantState("after two answers", h.openKey(sentAgain(k)),
		repository.KeyState{Phase: repository.KeyDone, Operation: k.Operation, Answer: anAnswer()})
}

// keysOwner: an owner that has lost its lease can neither store an answer, nor drop the key, nor prolong the lease,
// because another owner works on the request.
func keysOwner(h *harness) {
	slow := h.begin("k")
	h.clock.Advance(keyLease)
	now := sentAgain(slow)
	h.wantKey("once the lease is over", now, repository.KeyAbandoned, slow.Operation)
	h.closeKey(slow, repository.Answer{Status: 500})
	h.dropKey(slow)
	h.clock.Advance(keyLease - time.Second)
	h.holdKey(slow)
	h.wantKey("after the slow one answered", sentAgain(slow), repository.KeyAtWork, slow.Operation)
	h.clock.Advance(time.Second)
	h.wantKey("after the slow one held on", sentAgain(slow), repository.KeyAbandoned, slow.Operation)
}

func keysDone(h *harness) {
	k := h.begin("k")
	h.closeKey(k, anAnswer())
	h.dropKey(k)
	h.holdKey(k)
	h.clock.Advance(2 * keyLease)
	h.wantState("after its end", h.openKey(sentAgain(k)),
		repository.KeyState{Phase: repository.KeyDone, Operation: k.Operation, Answer: anAnswer()})
}

func keysUnknown(h *harness) {
	k := keyRequest("k")
	h.holdKey(k)
	h.closeKey(k, anAnswer())
	h.dropKey(k)
	h.wantKey("what was never opened", k, repository.KeyNew, k.Operation)
}

func keysLife(h *harness) {
	done, atWork := h.begin("done"), h.begin("at work")
	h.closeKey(done, anAnswer())
	h.clock.Advance(repository.KeyLife - time.Microsecond)
	h.holdKey(atWork)
	got := h.openKey(sentAgain(done))
	check.True(h, got.Phase == repository.KeyDone, "just before the end of its life: OpenKey = %+v, want done", got)
	h.wantKey("just before the end of its life", sentAgain(atWork), repository.KeyAtWork, atWork.Operation)
	h.clock.Advance(time.Microsecond)
	for _, old := range []repository.Key{done, atWork} {
		k := sentAgain(old)
		k.Request = sha256.Sum256([]byte("POST /y"))
		h.wantKey("after its life", k, repository.KeyNew, k.Operation)
		h.wantKey("after that", sentAgain(k), repository.KeyAtWork, k.Operation)
		h.wantKey("the request of the earlier life", sentAgain(old), repository.KeyOther, k.Operation)
	}
}

func keysLifeFromFirst(h *harness) {
	k := h.begin("k")
	h.clock.Advance(repository.KeyLife - time.Hour)
	second := sentAgain(k)
	h.wantKey("late in its life", second, repository.KeyAbandoned, k.Operation)
	h.closeKey(second, anAnswer())
	h.clock.Advance(time.Hour)
	third := sentAgain(k)
	h.wantKey("a day after the first", third, repository.KeyNew, third.Operation)
}

func keysText(h *harness) {
	for _, text := range []string{"nul\x00nul", "\xff\xfe", "\xc3\x28", "'; DROP SCHEMA dlq; --", "→ \"quoted\" \\x00"} {
		k := keyRequest("k" + text)
		k.Principal = "p" + text
		h.wantKey(strconv.Quote(text), k, repository.KeyNew, k.Operation)
		h.holdKey(k)
		h.wantKey(strconv.Quote(text), sentAgain(k), repository.KeyAtWork, k.Operation)
		h.closeKey(k, repository.Answer{Status: 200, Location: text, Body: []byte(text)})
		got := h.openKey(sentAgain(k))
		check.True(h, got.Phase == repository.KeyDone && string(got.Answer.Body) == text,
			"%q: OpenKey = %+v, want done with the body", text, got)
	}
}

// openAll opens the key of one request in n goroutines at the same time. phases contains the number of times that each
// phase was returned; winner is the request of the caller that owns the key.
func (h *harness) openAll(n int, k repository.Key) (phases map[repository.KeyPhase]int, winner repository.Key) {
	h.Helper()
	phases = map[repository.KeyPhase]int{}
	var mu sync.Mutex
	together(n, func(int) {
		mine := sentAgain(k)
		got, err := h.Repository.OpenKey(h.Context(), mine, keyLease)
		if err != nil {
			h.Errorf("OpenKey: %v", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		phases[got.Phase]++
		if got.Phase == repository.KeyNew || got.Phase == repository.KeyAbandoned {
			winner = mine
		}
	})
	return phases, winner
}

func (h *harness) wantPhases(got, want map[repository.KeyPhase]int) {
	h.Helper()
	check.Same(h, got, want, "callers by phase")
}

func keysRace(h *harness) {
	for _, key := range []string{"a", "b", "c"} {
		phases, _ := h.openAll(50, keyRequest(key))
		h.wantPhases(phases, map[repository.KeyPhase]int{repository.KeyNew: 1, repository.KeyAtWork: 49})
	}
}

func keysRaceAbandoned(h *harness) {
	k := h.begin("k")
	for range rounds {
		h.clock.Advance(keyLease)
		phases, _ := h.openAll(20, k)
		h.wantPhases(phases, map[repository.KeyPhase]int{repository.KeyAbandoned: 1, repository.KeyAtWork: 19})
	}
	h.clock.Advance(repository.KeyLife)
	phases, _ := h.openAll(20, k)
	h.wantPhases(phases, map[repository.KeyPhase]int{repository.KeyNew: 1, repository.KeyAtWork: 19})
}

// keysRaceAnswer stores the answer of a key while other callers open the key: each of them may get only KeyAtWork, or
// KeyDone with the answer.
func keysRaceAnswer(h *harness) {
	k := h.begin("k")
	together(20, func(i int) {
		if i == 0 {
			if err := h.Repository.CloseKey(h.Context(), k, anAnswer()); err != nil {
				h.Errorf("CloseKey: %v", err)
			}
			return
		}
		for range rounds {
			got, err := h.Repository.OpenKey(h.Context(), sentAgain(k), keyLease)
			atWork := repository.KeyState{Phase: repository.KeyAtWork, Operation: k.Operation}
			done := repository.KeyState{Phase: repository.KeyDone, Operation: k.Operation, Answer: anAnswer()}
			if err != nil || !reflect.DeepEqual(got, atWork) && !reflect.DeepEqual(got, done) {
				h.Errorf("OpenKey = %+v, %v, want at work or done", got, err)
			}
		}
	})
	phases, _ := h.openAll(20, k)
	h.wantPhases(phases, map[repository.KeyPhase]int{repository.KeyDone: 20})
}
