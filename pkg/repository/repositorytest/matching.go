package repositorytest

import (
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func matchingPromises() []promise {
	return []promise{
		{"EstimateOfWhatCountersKnowIsExact", matchingCounters},
		{"EstimateIsANumber", matchingEstimate},
	}
}

func (h *harness) countMatching(q repository.CountQuery) repository.MatchCount {
	h.Helper()
	count, err := h.Repository.CountMatching(h.Context(), q)
	if err != nil {
		h.Fatalf("CountMatching(%+v): %v", q, err)
	}
	return count
}

func matchingCounters(h *harness) {
	a := h.assorted()
	for _, c := range h.filterCases(a) {
		f := c.filter
		f.Topic, f.Topics, f.Statuses, f.Visible, f.UnknownOrigin = "", entity.TopicPatterns{}, nil, nil, false
		if f.Narrow() || !f.CreatedAfter.IsZero() || !f.CreatedBefore.IsZero() || !f.RetriedAfter.IsZero() || !f.RetriedBefore.IsZero() {
			continue
		}
		want := repository.MatchCount{Messages: int64(len(c.want)), Exact: true}
		if got := h.countMatching(repository.CountQuery{Filter: c.filter}); got != want {
			h.Errorf("%s: an estimate is %+v, want %+v", c.name, got, want)
		}
	}
}

func matchingEstimate(h *harness) {
	a := h.assorted()
	for _, c := range h.filterCases(a) {
		for _, archived := range []bool{false, true} {
			got := h.countMatching(repository.CountQuery{Filter: c.filter, Archived: archived})
			if got.Messages < 0 || got.Exact && !archived && got.Messages != int64(len(c.want)) {
				h.Errorf("%s: an estimate is %+v, want a number, and %d if it is exact", c.name, got, len(c.want))
			}
		}
	}
}
