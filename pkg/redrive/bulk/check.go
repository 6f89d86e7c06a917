package bulk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	// checkTime is the longest time for which a preview applies the patch to messages.
	checkTime = 5 * time.Second
	// maxFailures limits the reasons that a preview names, the most common first.
	maxFailures = 20
	maxReasons  = 1000 // number of different reasons that are counted one by one; all others are counted together
	// refillEvery is the number of messages after which the check makes a new reader of schemas. Each reader may wait
	// only a limited time for the registry.
	refillEvery = 1000
)

// errChecked ends the check of a patch when its time is over.
var errChecked = errors.New("the time for the check of a patch is over")

// checkPatch applies the patch to those messages of the selection whose present state allows the redrive to send them,
// until it has checked all of them or checkTime is over. It returns the counts of the check, and for each original
// topic the number of messages to which the patch cannot be applied.
func (s *Redrives) checkPatch(ctx context.Context, patch *patcher, n repository.NewRedrive, redirects map[string]string) (entity.PatchCheck, map[string]int, error) {
	filter := n.Selection.Filter
	filter.MessageIDs = append(slices.Clone(filter.MessageIDs), n.Selection.IDs...)
	filter.Visible = n.Selection.Visible
	export := s.deps.selected.Export
	if n.Selection.Archived {
		export = s.deps.archive.Export
	} else if len(filter.Statuses) == 0 {
		if filter.Statuses = []entity.Status{entity.Pending}; n.Options.Requeue {
			filter.Statuses = append(filter.Statuses, entity.Dead)
		}
	}
	c := checker{
		patch: patch, order: n, reasons: map[string]*entity.PatchFailure{}, topics: map[string]int{}, until: time.Now().Add(checkTime),
		redirects: redirects,
	}
	err := export(ctx, repository.ExportQuery{Filter: filter, Archived: n.Selection.Archived, Limit: maxSelected, MaxValue: payload.MaxPatched},
		func(m *entity.Message) error { return c.message(ctx, m) })
	var broad *repository.TooBroadError
	if err != nil && !errors.Is(err, errChecked) && !errors.As(err, &broad) {
		return entity.PatchCheck{}, nil, fmt.Errorf("check the patch: %w", err)
	}
	c.Complete = err == nil
	return c.result(), c.topics, nil
}

// maxSelected is more messages than any redrive selects, so a query with this limit returns all of them.
const maxSelected = 100_000_000

type checker struct {
	entity.PatchCheck
	patch     *patcher
	order     repository.NewRedrive
	reader    entity.PartReader
	reasons   map[string]*entity.PatchFailure
	topics    map[string]int
	until     time.Time
	redirects map[string]string
}

func (c *checker) message(ctx context.Context, m *entity.Message) error {
	if time.Now().After(c.until) {
		return errChecked
	}
	if !takes(c.order, m) {
		return nil
	}
	if c.Checked%refillEvery == 0 {
		c.reader = c.patch.reader(ctx)
	}
	c.Checked++
	_, err := c.patch.apply(ctx, c.reader, m, c.redirects[m.OriginalTopic])
	if err == nil {
		return nil
	}
	c.Failed++
	c.topics[m.OriginalTopic]++
	reason := reasonOf(err)
	if c.reasons[reason] == nil && len(c.reasons) >= maxReasons {
		reason = "other reasons"
	}
	if c.reasons[reason] == nil {
		c.reasons[reason] = &entity.PatchFailure{Reason: reason, Example: m.ID}
	}
	c.reasons[reason].Messages++
	return nil
}

func (c *checker) result() entity.PatchCheck {
	for _, f := range c.reasons {
		c.Failures = append(c.Failures, *f)
	}
	slices.SortFunc(c.Failures, func(a, b entity.PatchFailure) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Reason, b.Reason))
	})
	c.Failures = c.Failures[:min(len(c.Failures), maxFailures)]
	return c.PatchCheck
}
