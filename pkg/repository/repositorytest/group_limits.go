package repositorytest

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// failures are n failures of a dead-letter topic, each of a group of its own.
func failures(topic, name string, n int) []repository.TopicFailure {
	list := make([]repository.TopicFailure, n)
	for i := range list {
		list[i] = repository.TopicFailure{DLQTopic: topic, Fingerprint: entity.Fingerprint{Class: "E", Title: fmt.Sprintf("%s %d", name, i)}}
	}
	return list
}

// refused is how many of the failures are refused.
func (h *harness) refused(list []repository.TopicFailure) int {
	h.Helper()
	refused, err := h.Repository.AdmitFingerprints(h.Context(), list)
	if err != nil {
		h.Fatalf("AdmitFingerprints: %v", err)
	}
	return len(refused)
}

func (h *harness) wantRefused(what string, list []repository.TopicFailure, want int) {
	h.Helper()
	if got := h.refused(list); got != want {
		h.Errorf("%s: %d failures are refused, want %d", what, got, want)
	}
}

// untilNextHour is how long the hour of the store's clock goes on.
func (h *harness) untilNextHour() time.Duration {
	now := h.clock.Now()
	return now.Truncate(time.Hour).Add(time.Hour).Sub(now)
}

func groupsLimited(h *harness) {
	const limit = repository.MaxNewGroups
	first := failures(deadLetter, "first", limit-1)
	h.wantRefused("of fewer than the limit", first, 0)
	h.wantRefused("of those again", append(first, first...), 0)
	h.wantRefused("of three more", failures(deadLetter, "more", 3), 2)
	h.wantRefused("of those again", failures(deadLetter, "more", 3), 2)
	h.wantRefused("of known ones", first, 0)
	h.wantRefused("of another topic", failures("payments.dlq", "other", 1), 0)
	h.wantRefused("of a group that another topic created", failures(deadLetter, "other", 1), 0)
	h.wantRefused("of one group twice, and of one that another topic may create",
		[]repository.TopicFailure{failures(deadLetter, "both", 1)[0], failures(deadLetter, "both", 1)[0], failures("payments.dlq", "both", 1)[0]}, 0)
	h.clock.Advance(h.untilNextHour())
	h.wantRefused("in the next hour", failures(deadLetter, "later", limit+1), 1)

	h.came(entity.Unclassified(deadLetter), 1)
	if g := h.group(entity.Unclassified(deadLetter), repository.Trend{}); g.Title != entity.Unclassified(deadLetter).Title {
		h.Errorf("the group of what was refused is called %q, want the name of entity.Unclassified", g.Title)
	}
}

func groupsLimitedTogether(h *harness) {
	const callers = 4
	var wait sync.WaitGroup
	refused := make([]int, callers)
	for c := range callers {
		wait.Go(func() {
			refused[c] = h.refused(failures(deadLetter, fmt.Sprint("caller ", c), repository.MaxNewGroups/2))
		})
	}
	wait.Wait()
	sum := 0
	for _, n := range refused {
		sum += n
	}
	if want := repository.MaxNewGroups; sum != want {
		h.Errorf("%d failures are refused, want %d: the limit is one over all callers", sum, want)
	}
}

func (h *harness) unclassified(limit int) []entity.Message {
	h.Helper()
	messages, err := h.Repository.Unclassified(h.Context(), limit, 1<<20)
	if err != nil {
		h.Fatalf("Unclassified: %v", err)
	}
	return messages
}

func groupsClassified(h *harness) {
	unclassified := entity.Unclassified(deadLetter)
	if got := h.unclassified(everything); len(got) != 0 {
		h.Fatalf("%d messages are unclassified in an empty store, want 0", len(got))
	}
	h.wantRefused("beyond the limit", failures(deadLetter, "flood", repository.MaxNewGroups+3), 3)
	came := h.came(unclassified, 3, func(m *entity.Message) { m.Record.Headers = []entity.Header{{Key: "error", Value: []byte("x")}} })
	if got := h.unclassified(everything); len(got) != 0 {
		h.Errorf("%d messages may be classified while their topic is at its limit, want 0", len(got))
	}
	h.clock.Advance(h.untilNextHour())
	got := h.unclassified(2)
	h.wantIDs("that may be classified", ids(got), came[:2])
	if len(got) == 2 && (got[0].Source.Topic != deadLetter || len(got[0].Record.Headers) != 1) {
		h.Errorf("a message that may be classified is %+v, want its topic and its headers", got[0])
	}
	own := failures(deadLetter, "own", 1)
	h.wantRefused("of the group of one of them", own, 0)
	moves := []repository.Classification{
		{MessageID: came[0], DLQTopic: deadLetter, Group: own[0].ID()},
		{MessageID: uuid.New(), DLQTopic: deadLetter, Group: own[0].ID()},
		{MessageID: came[1], DLQTopic: "another.dlq", Group: own[0].ID()},
	}
	for range 2 {
		if err := h.Repository.Classify(h.Context(), moves); err != nil {
			h.Fatalf("Classify: %v", err)
		}
	}
	if m := h.get(came[0]); m.Group != own[0].ID() {
		h.Errorf("the message is of group %s, want that of its failure", m.Group)
	}
	if a, b := h.group(unclassified, repository.Trend{}), h.group(own[0].Fingerprint, repository.Trend{}); a.Open() != 2 || b.Open() != 1 || b.Arrived != 1 {
		h.Errorf("the groups have %d and %d messages (%d arrived), want 2 and 1", a.Open(), b.Open(), b.Arrived)
	}
	h.wantIDs("that may be classified then", ids(h.unclassified(everything)), came[1:])

	moves = []repository.Classification{
		{MessageID: came[1], DLQTopic: deadLetter, Group: own[0].ID()}, {MessageID: came[2], DLQTopic: deadLetter, Group: own[0].ID()},
	}
	if err := h.Repository.Classify(h.Context(), moves); err != nil {
		h.Fatalf("Classify: %v", err)
	}
	h.wantIDs("when all are classified", ids(h.unclassified(everything)), nil)
	late := h.came(unclassified, 1)
	h.wantIDs("that an ingester stored after it was refused", ids(h.unclassified(everything)), late)
}
