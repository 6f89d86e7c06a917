package repositorytest

import (
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func countsPromises() []promise {
	return []promise{
		{"AreByOriginalTopicAndStatus", countsByTopicAndStatus},
		{"FollowEveryChange", countsFollow},
	}
}

func (h *harness) wantCounts(want map[repository.Count]bool) {
	h.Helper()
	counts, err := h.Repository.Counts(h.Context())
	if err != nil {
		h.Fatalf("Counts: %v", err)
	}
	for _, c := range counts {
		if !want[c] {
			h.Errorf("Counts has %+v, want none of that", c)
		}
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
	if err := h.Repository.Delete(h.Context(), b.Messages[1].ID, entity.By("alice")); err != nil {
		h.Fatal(err)
	}
	h.wantCounts(map[repository.Count]bool{
		{OriginalTopic: original, Status: entity.Pending, Messages: 1}:  true,
		{OriginalTopic: original, Status: entity.Resolved, Messages: 1}: true,
	})
}
