package repositorytest

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// failures returns n values of TopicFailure for one dead-letter topic, each with a different fingerprint.
func failures(topic, name string, n int) []repository.TopicFailure {
	list := make([]repository.TopicFailure, n)
	for i := range list {
		list[i] = repository.TopicFailure{DLQTopic: topic, Fingerprint: entity.Fingerprint{Class: "E", Title: fmt.Sprintf("%s %d", name, i)}}
	}
	return list
}

// refused returns how many of the failures AdmitFingerprints refuses.
func (h *harness) refused(list []repository.TopicFailure) int {
	h.Helper()
	refused := check.Must(h.Repository.AdmitFingerprints(h.Context(), list))(h)
	return len(refused)
}

func (h *harness) wantRefused(what string, list []repository.TopicFailure, want int) {
	h.Helper()
	check.Same(h, h.refused(list), want, "%s: failures are refused", what)
}

// untilNextHour returns the time that is left in the present hour of the store's clock.
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
	check.Same(h, h.group(entity.Unclassified(deadLetter), repository.Trend{}).Title, entity.Unclassified(deadLetter).Title,
		"the group of what was refused is called, want the name of entity.Unclassified")
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
	check.Same(h, sum, repository.MaxNewGroups, "refused failures: the limit is one over all callers")
}

func (h *harness) unclassified(limit int) []entity.Message {
	h.Helper()
	return check.Must(h.Repository.Unclassified(h.Context(), limit, 1<<20))(h)
}

func groupsClassified(h *harness) {
	unclassified := entity.Unclassified(deadLetter)
	if got := h.unclassified(everything); len(got) != 0 {
		h.Fatalf("%d messages are unclassified in an empty store, want 0", len(got))
	}
	h.wantRefused("beyond the limit", failures(deadLetter, "flood", repository.MaxNewGroups+3), 3)
	came := h.came(unclassified, 3, func(m *entity.Message) { m.Record.Headers = []entity.Header{{Key: "error", Value: []byte("x")}} })
	check.Len(h, h.unclassified(everything), 0, "messages may be classified while their topic is at its limit")
	h.clock.Advance(h.untilNextHour())
	got := h.unclassified(2)
	h.wantIDs("that may be classified", ids(got), came[:2])
	for _, m := range got {
		check.True(h, m.Source.Topic == deadLetter && len(m.Record.Headers) == 1, "a message that may be classified is %+v, want its topic and its headers", m)
	}
	own := failures(deadLetter, "own", 1)
	h.wantRefused("of the group of one of them", own, 0)
	moves := []repository.Classification{
		{MessageID: came[0], DLQTopic: deadLetter, Group: own[0].ID()},
		{MessageID: uuid.New(), DLQTopic: deadLetter, Group: own[0].ID()},
		{MessageID: came[1], DLQTopic: "another.dlq", Group: own[0].ID()},
	}
	for range 2 {
		check.NoError(h, h.Repository.Classify(h.Context(), moves))
	}
	check.Same(h, h.get(came[0]).Group, own[0].ID(), "the message is of group, want that of its failure")
	if a, b := h.group(unclassified, repository.Trend{}), h.group(own[0].Fingerprint, repository.Trend{}); a.Open() != 2 || b.Open() != 1 || b.Arrived != 1 {
		h.Errorf("the groups have %d and %d messages (%d arrived), want 2 and 1", a.Open(), b.Open(), b.Arrived)
	}
	h.wantIDs("that may be classified then", ids(h.unclassified(everything)), came[1:])

	moves = []repository.Classification{
		{MessageID: came[1], DLQTopic: deadLetter, Group: own[0].ID()}, {MessageID: came[2], DLQTopic: deadLetter, Group: own[0].ID()},
	}
	check.NoError(h, h.Repository.Classify(h.Context(), moves))
	h.wantIDs("when all are classified", ids(h.unclassified(everything)), nil)
	late := h.came(unclassified, 1)
	h.wantIDs("that an ingester stored after it was refused", ids(h.unclassified(everything)), late)
}
