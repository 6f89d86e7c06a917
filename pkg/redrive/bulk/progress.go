package bulk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/internal/harm"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	// settleTime is how long an outcome must be known before it makes room for more messages. A consumer may commit a
	// record and write its dead letter at the same moment; the ingester usually stores that within half a second.
	settleTime = time.Second
	// While outcomes make progress, they are counted every boundPause, and at the latest outcomePatience after the last
	// message was sent every pollInterval.
	boundPause      = 200 * time.Millisecond
	outcomePatience = 10 * time.Second
	// ingestPatience is how late the ingester may be before the note of a redrive that waits says so.
	ingestPatience = 5 * time.Second
)

// ingestDelay returns for how long the ingester may not have read the dead letters of this redrive's consumers, so that a
// record that seems to be consumed may have failed again. It is long until this process has seen the ingester reach the
// end of the redrive's dead-letter topics, also when Kafka or the store does not say.
func (r *run) ingestDelay(ctx context.Context, redrive entity.Redrive) time.Duration {
	if r.deps.cfg.Groups == nil || !slices.ContainsFunc(redrive.Bounds, func(b entity.TopicBound) bool { return b.Lifted == "" && b.Unknown() > 0 }) {
		return 0
	}
	if err := r.findIngested(ctx); err != nil {
		r.warn(ctx, "cannot read how far the ingester is", err)
	}
	return time.Since(r.ingested)
}

// findIngested sets the time until which the dead letters were read.
func (r *run) findIngested(ctx context.Context) error {
	if !r.sourced {
		sources, err := r.deps.selected.RedriveSources(ctx, r.id)
		if err != nil {
			return err
		}
		for _, topic := range sources {
			r.sources[topic] = true
		}
		r.sourced = true
	}
	positions, err := r.deps.cfg.Progress.IngestPositions(ctx)
	if err != nil {
		return err
	}
	positions = slices.DeleteFunc(positions, func(p repository.IngestPosition) bool { return !r.sources[p.Topic] })
	if r.mark.ends == nil {
		at := time.Now()
		ends, err := r.deps.cfg.Groups.Ends(ctx, positions)
		if err != nil {
			return err
		}
		r.mark = mark{at, ends}
	}
	if reached(positions, r.mark.ends) {
		r.ingested, r.mark = r.mark.at, mark{}
	}
	return nil
}

// reached reports whether no position is before its end. A topic that was made again, and so has another id, has no
// records before the end.
func reached(positions, ends []repository.IngestPosition) bool {
	for _, end := range ends {
		for _, p := range positions {
			if p.Topic == end.Topic && p.TopicID == end.TopicID && p.Partition == end.Partition && p.Next < end.Next {
				return false
			}
		}
	}
	return true
}

// follow asks Kafka how far consumer groups have come, and stores it, so that the outcomes of their messages are known.
// When Kafka cannot be asked about a group, the last answer stays.
func (r *run) follow(ctx context.Context, wanted []repository.TopicGroup) {
	if r.deps.cfg.Groups == nil {
		return
	}
	topics := map[string][]string{}
	for _, w := range wanted {
		if w.Group != "" && !slices.Contains(topics[w.Group], w.Topic) {
			topics[w.Group] = append(topics[w.Group], w.Topic)
		}
	}
	if r.progress.commits == nil {
		r.progress.commits = map[repository.TopicGroup]commitment{}
	}
	for _, group := range slices.Sorted(maps.Keys(topics)) {
		offsets, err := r.deps.cfg.Groups.Committed(ctx, group, topics[group])
		var refused *entity.RefusedError
		if err != nil && !errors.As(err, &refused) { // what Kafka does not let this program see cannot be known
			if !r.progress.failing {
				r.warn(ctx, "cannot read the progress of a consumer group", err)
			}
			r.progress.failing = true
			continue
		}
		r.progress.failing = false
		for _, topic := range topics[group] {
			r.progress.commits[repository.TopicGroup{Topic: topic, Group: group}] = nothing
		}
		for _, o := range offsets {
			r.progress.commits[o.TopicGroup] = committed
		}
		if len(offsets) == 0 {
			continue
		}
		if err := r.deps.cfg.Progress.SaveCommitted(ctx, offsets); err != nil {
			r.warn(ctx, "cannot store the progress of a consumer group", err)
		}
	}
}

// hidden reports whether no consumer group will show the outcome of a message that was sent to a topic.
func (r *run) hidden(topic, group string) bool {
	return group == "" || r.progress.commits[repository.TopicGroup{Topic: topic, Group: group}] == nothing
}

// hiddenAll reports whether no consumer group will show the outcomes of messages of these groups in a topic.
func (r *run) hiddenAll(topic string, groups []string) bool {
	return len(groups) > 0 && !slices.ContainsFunc(groups, func(group string) bool { return !r.hidden(topic, group) })
}

// look counts the outcomes of a bounded redrive, moves its bounds, and decides which original topics the next pass must
// leave out because the bound of their target is reached.
func (r *run) look(ctx context.Context, redrive entity.Redrive) []entity.TopicBound {
	if !redrive.Bounded || !redrive.State.Active() {
		return nil
	}
	if len(redrive.Bounds) > 0 && !slices.ContainsFunc(redrive.Bounds, func(b entity.TopicBound) bool { return b.Lifted == "" }) {
		clear(r.targets) // no outcome matters any more
		return nil
	}
	bounds, err := r.deps.selected.RedriveBounds(ctx, r.id, max(settleTime, r.ingestDelay(ctx, redrive)))
	if err != nil {
		r.warn(ctx, "cannot count the outcomes of the redrive", err)
		return redrive.Bounds
	}
	var wanted []repository.TopicGroup
	full := map[string]bool{}
	for i := range bounds {
		b := &bounds[i]
		for _, group := range b.Groups {
			wanted = append(wanted, repository.TopicGroup{Topic: b.Topic, Group: group})
		}
		next := harm.NextBound(*b, r.hiddenAll(b.Topic, b.Groups), waitOf(redrive), time.Now())
		if changed(*b, next) {
			saved, err := r.deps.selected.SaveBound(ctx, r.id, *b, next)
			if err != nil {
				r.warn(ctx, "cannot move a bound of the redrive", err)
			}
			if saved {
				*b = next
			}
		}
		full[b.Topic] = b.Full()
	}
	r.follow(ctx, wanted)
	for original, target := range r.targets {
		if !full[target] {
			delete(r.targets, original)
		}
	}
	return bounds
}

func changed(was, now entity.TopicBound) bool {
	return was.Bound != now.Bound || was.Presumed != now.Presumed || was.Counted != now.Counted || was.Looks != now.Looks || was.Lifted != now.Lifted
}

// waitOf returns how long the redrive waits for returns when no consumer group shows outcomes.
func waitOf(redrive entity.Redrive) time.Duration {
	if redrive.Options.CanaryWait > 0 {
		return redrive.Options.CanaryWait
	}
	return entity.DefaultCanaryWait
}

// waitingNote says what the redrive waits for, for operators; "" when no topic waits. endless says that some wait has no
// end that the redrive knows.
func (r *run) waitingNote(ctx context.Context, redrive entity.Redrive, bounds []entity.TopicBound) (note string, endless bool) {
	const most = 3
	var notes []string
	more := 0
	add := func(note func() string) { // a note may need an answer of Kafka
		if len(notes) < most {
			notes = append(notes, note())
		} else {
			more++
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(r.gone)) {
		if until := r.gone[topic].Add(r.deps.cfg.MetadataGrace); time.Now().Before(until) {
			add(func() string {
				return fmt.Sprintf("the target of %s does not exist; its messages are skipped at %s UTC if it does not come back",
					topic, until.UTC().Format(time.TimeOnly))
			})
		}
	}
	for _, b := range bounds {
		if b.Full() && time.Since(b.AdmittedAt) > ingestPatience && time.Since(r.ingested) > ingestPatience {
			add(func() string {
				return b.Topic + ": it is not known that the ingester has read all dead letters, nor what failed again"
			})
			endless = true
		} else if b.Full() {
			add(func() string {
				return r.outcomeNote(ctx, b.Topic, b.Groups, b.Unknown(), b.AdmittedAt.Add(waitOf(redrive)))
			})
			endless = endless || !r.hiddenAll(b.Topic, b.Groups)
		}
	}
	if more > 0 {
		notes = append(notes, fmt.Sprintf("and %d more topics wait", more))
	}
	return strings.Join(notes, "; "), endless
}

// outcomeNote says why the outcomes of n messages in a topic are not known yet. until is when the redrive goes on, if no
// consumer group will show them.
func (r *run) outcomeNote(ctx context.Context, topic string, groups []string, n int, until time.Time) string {
	if r.hiddenAll(topic, groups) {
		why := "no consumer group is known"
		if named := slices.DeleteFunc(slices.Clone(groups), func(group string) bool { return group == "" }); len(named) > 0 {
			why = "group " + named[0] + " has committed nothing there, or Kafka does not show it"
		}
		return fmt.Sprintf("%s: the outcome of %d messages cannot be known, because %s; waits for returns until %s UTC",
			topic, n, why, until.UTC().Format(time.TimeOnly))
	}
	by := ""
	if i := slices.IndexFunc(groups, func(group string) bool { return !r.hidden(topic, group) }); i >= 0 {
		by = " of group " + groups[i] + r.stateNote(ctx, groups[i])
	}
	return fmt.Sprintf("%s: the offsets%s have not passed %d messages yet", topic, by, n)
}

// stateNote adds to the name of a consumer group that it has no members.
func (r *run) stateNote(ctx context.Context, group string) string {
	if r.deps.cfg.Groups == nil {
		return ""
	}
	switch running, err := r.deps.cfg.Groups.Running(ctx, group); {
	case err != nil:
		return ", whose state Kafka does not tell,"
	case !running:
		return ", which has no running member,"
	}
	return ""
}
