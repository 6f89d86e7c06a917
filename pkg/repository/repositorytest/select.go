package repositorytest

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func selectPromises() []promise {
	return []promise{
		{"IsOldestFirstAndOnlyClaimable", selectClaimable},
		{"TiesAreById", selectTies},
		{"FindsByDeadLetterTopicAndByOriginalTopic", selectFindsUnderBothNames},
		{"IgnoresTheNextAttemptTime", selectNextAttempt},
		{"UnknownOrImpossibleTopicIsEmpty", selectUnknownTopic},
	}
}

func selectClaimable(h *harness) {
	first := h.put()
	for _, s := range entity.Statuses()[1:] {
		h.in(s)
	}
	h.put(func(m *entity.Message) { m.RetryCount = 3 })
	h.put(func(m *entity.Message) { m.MaxRetries = 0 })
	last := h.put(func(m *entity.Message) { m.RetryCount = 2 })
	h.wantIDs("Select", h.selected(original), []uuid.UUID{first.ID, last.ID})
}

func selectTies(h *harness) {
	want := ties(h, 9)
	h.wantIDs("Select", h.selected(original), want)
}

func selectFindsUnderBothNames(h *harness) {
	orders, payments, unknown := twoNames(h)
	both := h.put(func(m *entity.Message) { m.OriginalTopic, m.Source = "shared.dlq", h.source("shared.dlq", 8) })
	h.wantIDs("Select(orders)", h.selected("orders"), []uuid.UUID{orders.ID})
	h.wantIDs("Select(shared.dlq)", h.selected("shared.dlq"), []uuid.UUID{orders.ID, payments.ID, unknown.ID, both.ID})
}

func selectNextAttempt(h *harness) {
	m := h.put(func(m *entity.Message) { m.NextAttemptAt = h.clock.Now().Add(time.Hour) })
	h.wantIDs("Select", h.selected(original), []uuid.UUID{m.ID})
}

func selectUnknownTopic(h *harness) {
	h.put()
	for _, topic := range impossible {
		h.wantIDs("Select of an impossible topic", h.selected(topic), nil)
	}
}
