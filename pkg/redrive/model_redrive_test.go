package redrive

import (
	"bytes"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/bulk"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// redriveShadow is the model's copy of a redrive.
type redriveShadow struct {
	id    uuid.UUID
	state entity.RedriveState
	items []entity.RedriveItem // the redrive's items when the model last read them from the store
}

// readRedrive applies an audit entry to the model of the redrive that the entry is about.
func (w *world) readRedrive(line entity.AuditEntry) {
	from, to := entity.RedriveState(line.From), entity.RedriveState(line.To)
	r, known := w.redrives[line.ObjectID]
	switch {
	case !known && line.Action == entity.ActionCreate && from == "":
		r = &redriveShadow{id: line.ObjectID}
		w.redrives[r.id] = r
		w.order = append(w.order, r.id)
	case known && r.state == from && line.Action == entity.ActionContinue && from == to && from.Active():
	case !known || r.state != from || !from.CanMoveTo(to):
		w.fail("a wrong move of a redrive", "%+v", line)
		return
	}
	r.state = to
}

// checkRedrives compares all redrives with the model. The caller holds mu.
func (w *world) checkRedrives() {
	for _, id := range w.order {
		r, err := w.store.Redrive(context.Background(), id)
		if err != nil {
			w.fail("a lost redrive", "Redrive(%s) = %v", id, err)
			return
		}
		items, err := w.store.RedriveItems(context.Background(), id, repository.ItemQuery{Limit: 10_000})
		if err != nil {
			w.fail("a lost redrive", "RedriveItems(%s) = %v", id, err)
			return
		}
		w.checkRedrive(w.redrives[id], r, items)
	}
}

func (w *world) checkRedrive(s *redriveShadow, r entity.Redrive, items []entity.RedriveItem) {
	w.want(r.State == s.state, "another state of a redrive", "redrive %s is %s, its trail says %s", r.ID, r.State, s.state)
	c := entity.RedriveCounts{Skipped: r.LeftOut, Reasons: map[string]int{}}
	for i, item := range items {
		if i < len(s.items) && s.items[i].Result != entity.ItemWaiting && s.items[i].Result != item.Result {
			w.fail("a result that changed", "item %d of redrive %s was %s and is %s", i, r.ID, s.items[i].Result, item.Result)
		}
		c = counting(c, item)
		w.checkItem(r, item)
	}
	s.items = items
	got := r.Counts
	if got.Succeeded != c.Succeeded || got.Failed != c.Failed || got.Dead != c.Dead || got.InDoubt != c.InDoubt ||
		got.Skipped != c.Skipped || got.Waiting != c.Waiting || r.Selected != len(items)+r.LeftOut {
		w.fail("counts that do not add up", "redrive %s selected %d: %+v, its items say %+v", r.ID, r.Selected, got, c)
	}
	w.want(r.State != entity.RedriveFinished || c.Waiting <= 0,
		"finished too early", "redrive %s is finished with %d waiting", r.ID, c.Waiting)
}

func counting(c entity.RedriveCounts, item entity.RedriveItem) entity.RedriveCounts {
	switch item.Result {
	case entity.ItemWaiting:
		c.Waiting++
	case entity.ItemSucceeded:
		c.Succeeded++
	case entity.ItemFailed:
		c.Failed++
	case entity.ItemDead:
		c.Failed++
		c.Dead++
	case entity.ItemInDoubt:
		c.InDoubt++
	case entity.ItemSkipped:
		c.Skipped++
	}
	return c
}

// checkBounds checks the bounds of a redrive that is about to have one more record in a topic. Two kinds
// of records do not count: those whose attempts cannot be settled, which the redrive has given up as in doubt, and those
// whose messages were deleted before the result was saved. The caller holds mu.
func (w *world) checkBounds(id, message uuid.UUID, topic string) {
	r, err := w.store.Redrive(context.Background(), id)
	if err != nil || !r.Bounded {
		return
	}
	items, err := w.store.RedriveItems(context.Background(), id, repository.ItemQuery{
		Limit: 10_000, Results: []entity.ItemResult{entity.ItemInDoubt, entity.ItemSkipped},
	})
	if err != nil {
		return
	}
	counts := func(message uuid.UUID) bool {
		return !slices.ContainsFunc(items, func(i entity.RedriveItem) bool {
			return i.MessageID == message && (i.Result == entity.ItemInDoubt || i.Reason == repository.SkippedGone)
		})
	}
	if !counts(message) {
		return
	}
	records := 1
	for at, log := range w.log.partitions {
		for _, sent := range log {
			if at.topic == topic && sent.redrive == id && counts(sent.message) {
				records++
			}
		}
	}
	i := slices.IndexFunc(r.Bounds, func(b entity.TopicBound) bool { return b.Topic == topic })
	if i < 0 || records > r.Bounds[i].Admitted {
		w.fail("more than was admitted", "redrive %s has %d records in %s, its bounds are %+v", id, records, topic, r.Bounds)
		return
	}
	b := r.Bounds[i]
	w.want(b.Lifted != "" || b.Unknown() <= b.Bound, "a bound that is exceeded", "redrive %s: %+v", id, b)
}

// checkItem compares a redrive's result for a message with the attempts that the redrive made on that message.
func (w *world) checkItem(r entity.Redrive, item entity.RedriveItem) {
	if r.Action != entity.RedriveRetry {
		w.checkChange(r, item)
		return
	}
	made := w.attemptsOf(r.ID, item.MessageID)
	for i, a := range made {
		if i < len(made)-1 && a.Verdict != entity.GivenBack && a.Verdict != entity.Rescued {
			w.fail("a second attempt", "redrive %s tried message %s again after %+v, then %+v", r.ID, item.MessageID, a, made[i+1])
		}
	}
	var last entity.Attempt
	if n := len(made); n > 0 {
		last = made[n-1]
	}
	agrees := true
	switch item.Result {
	case entity.ItemWaiting:
	case entity.ItemSucceeded:
		agrees = last.Verdict == entity.Acknowledged && last.Offset == item.Offset && last.Partition == item.Partition
	case entity.ItemFailed:
		agrees = last.Verdict == entity.Failed && last.To == entity.Pending
	case entity.ItemDead:
		agrees = last.To == entity.Dead && last.Verdict != entity.Abandoned
	case entity.ItemInDoubt:
		agrees = len(made) > 0 // the result may have become known after the redrive stored this item
	case entity.ItemSkipped:
		agrees = len(made) == 0 || item.Reason == repository.SkippedGone || last.To == entity.Pending && last.Verdict != entity.Failed
	}
	if !agrees {
		w.fail("a wrong result", "redrive %s says of message %s: %s %s; its attempts: %+v", r.ID, item.MessageID, item.Result, item.Reason, made)
	}
	if item.Result == entity.ItemSkipped {
		w.checkSkipped(r, item)
	}
}

// attemptsOf returns the attempts that a redrive made on a message; a live claim has verdict InDoubt.
func (w *world) attemptsOf(redrive, id uuid.UUID) []entity.Attempt {
	made := slices.DeleteFunc(slices.Clone(w.history(id)), func(a entity.Attempt) bool { return a.RedriveID != redrive })
	if m, err := w.store.Get(context.Background(), id, 0); err == nil && m.Claimed() && m.Claim.RedriveID == redrive {
		made = append(made, entity.Attempt{ID: m.Claim.ID, Verdict: entity.InDoubt, To: entity.Retrying})
	}
	return made
}

// checkSkipped checks that the redrive had a reason to skip the message.
func (w *world) checkSkipped(r entity.Redrive, item entity.RedriveItem) {
	switch item.Reason {
	case repository.SkippedTaken:
		if !w.touchedByOthers(r, item.MessageID) {
			w.fail("a lost message of a redrive", "redrive %s says that message %s was taken, but no other process changed it", r.ID, item.MessageID)
		}
	case repository.SkippedGone:
		w.want(w.shadows[item.MessageID].gone, "a wrong reason", "redrive %s says that message %s is gone", r.ID, item.MessageID)
	case bulk.SkippedPatchFailed:
		if _, err := patchedValue(r.Options.Patch, w.records[item.MessageID].Value); r.Options.Patch == nil || err == nil {
			w.fail("a wrong reason", "redrive %s says that its patch does not fit message %s", r.ID, item.MessageID)
		}
	case bulk.SkippedKeyBlocked:
		if item.Number == 0 {
			w.fail("a wrong reason", "redrive %s says that message %s is blocked, but no message comes before it", r.ID, item.MessageID)
		}
	}
}

// touchedByOthers reports whether anything but the redrive has changed the message since the redrive was created.
func (w *world) touchedByOthers(r entity.Redrive, id uuid.UUID) bool {
	if w.shadows[id].gone {
		return true
	}
	if m, err := w.store.Get(context.Background(), id, 0); err == nil && m.Claimed() && m.Claim.RedriveID != r.ID {
		return true
	}
	for _, a := range w.history(id) {
		if a.RedriveID != r.ID && !a.EndedAt.Before(r.CreatedAt) {
			return true
		}
	}
	trail, err := w.store.Trail(context.Background(), repository.TrailQuery{ObjectID: id, After: r.CreatedAt, Limit: 1000})
	w.want(err == nil, "no trail", "Trail: %v", err)
	return slices.ContainsFunc(trail, func(line entity.AuditEntry) bool {
		return line.Action == entity.ActionDead || line.Action == entity.ActionRequeue || line.Action == entity.ActionRetry
	})
}

// modelActions maps each action of a redrive, except retry, to its action in the audit trail.
var modelActions = map[entity.RedriveAction]entity.Action{
	entity.RedriveRequeue: entity.ActionRequeue, entity.RedriveDead: entity.ActionDead,
	entity.RedriveDelete: entity.ActionDelete, entity.RedriveMap: entity.ActionMap,
}

// checkChange checks the result of a redrive with an action other than retry: the audit trail must contain one change
// of the message if the redrive reports success, and none if the redrive reports another end.
func (w *world) checkChange(r entity.Redrive, item entity.RedriveItem) {
	trail, err := w.store.Trail(context.Background(), repository.TrailQuery{
		ObjectID: item.MessageID, Action: modelActions[r.Action], Limit: 1000,
	})
	w.want(err == nil, "no trail", "Trail: %v", err)
	done := 0
	for _, line := range trail {
		if line.Cause.Operation == r.ID {
			done++
		}
	}
	w.want(done <= 1, "a second change", "redrive %s changed message %s %d times", r.ID, item.MessageID, done)
	if item.Result == entity.ItemSucceeded && done == 0 || item.Result != entity.ItemSucceeded && item.Result != entity.ItemWaiting && done > 0 {
		w.fail("a wrong result", "redrive %s says of message %s: %s %s; it changed it %d times", r.ID, item.MessageID, item.Result, item.Reason, done)
	}
}

// watchOrder checks that a redrive which keeps the order of keys sends no message after a message with the same key
// that it has not sent successfully. The caller holds mu.
func (w *world) watchOrder(m entity.Message, redrive uuid.UUID) {
	if redrive == uuid.Nil || len(m.Record.Key) == 0 {
		return
	}
	r, err := w.store.Redrive(context.Background(), redrive)
	if err != nil || !r.Options.KeepKeyOrder {
		return
	}
	items, err := w.store.RedriveItems(context.Background(), redrive, repository.ItemQuery{Limit: 10_000})
	w.want(err == nil, "a lost redrive", "RedriveItems(%s) = %v", redrive, err)
	for _, item := range items {
		if item.MessageID == m.ID {
			return
		}
		earlier, err := w.store.Get(context.Background(), item.MessageID, -1)
		if err != nil {
			continue // the message was deleted
		}
		made := w.attemptsOf(redrive, earlier.ID)
		if sameKey(earlier, m) && !slices.ContainsFunc(made, func(a entity.Attempt) bool { return a.Verdict == entity.Acknowledged }) {
			w.fail("keys out of order", "redrive %s sends message %s, and %s before it with the same key has %+v", redrive, m.ID, earlier.ID, made)
		}
	}
}

func sameKey(a, b entity.Message) bool {
	return a.OriginalTopic == b.OriginalTopic && bytes.Equal(a.Record.Key, b.Record.Key)
}

// checkRedrivesOver checks that every redrive has ended.
func (w *world) checkRedrivesOver() {
	for _, id := range w.order {
		s := w.redrives[id]
		w.want(s.state.Over(), "a redrive without an end", "redrive %s is %s", id, s.state)
	}
}
