package redrive

import (
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// count adds endings to the report. What was given back by a stop is not
// counted at all, for it was not carried out.
func (r *run) count(endings []ending, unsaved, stopping bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if unsaved {
		r.unsaved = true
		r.report.InDoubt += len(endings)
		return
	}
	for _, e := range endings {
		r.countOne(e, stopping)
	}
}

func (r *run) countOne(e ending, stopping bool) {
	class := string(e.delivery.Class)
	switch e.delivery.Verdict {
	case entity.Acknowledged, entity.Skipped:
		r.report.Resolved++
	case entity.Failed, entity.Rejected:
		r.report.Failed++
		r.report.Reasons[class]++
	case entity.InDoubt:
		r.report.InDoubt++
	case entity.Refused:
		r.refused[e.outgoing.Target.Topic] = e.delivery.Class
		r.skipLocked(class, 1)
	case entity.GivenBack:
		r.countGivenBack(e, stopping)
		return
	}
	if e.finished.Status == entity.Dead {
		r.report.Dead++
	}
}

func (r *run) countGivenBack(e ending, stopping bool) {
	switch {
	case e.finished.Status == entity.Dead: // the last of too many rescues
		r.report.Failed++
		r.report.Dead++
		r.report.Reasons[skippedGivenBack]++
	case stopping:
	case e.delivery.Class != "":
		r.skipLocked(string(e.delivery.Class), 1)
	default:
		r.skipLocked(skippedGivenBack, 1)
	}
}

func (r *run) skip(reason string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipLocked(reason, n)
}

func (r *run) skipLocked(reason string, n int) {
	if n > 0 {
		r.report.Skipped += n
		r.report.Reasons[reason] += n
	}
}

func reportFields(r entity.RedriveReport, err error) []zap.Field {
	return []zap.Field{
		zap.Stringer("redrive_id", r.ID), zap.String("topic", r.Topic),
		zap.Int("selected", r.Selected), zap.Int("resolved", r.Resolved), zap.Int("failed", r.Failed),
		zap.Int("dead", r.Dead), zap.Int("in_doubt", r.InDoubt), zap.Int("skipped", r.Skipped),
		zap.Any("reasons", r.Reasons), zap.Error(err),
	}
}
