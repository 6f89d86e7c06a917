package attempt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Judge reads the configuration and the mapping, and returns a function that judges by them whether a message's
// original topic is declared. Its error means that the mapping cannot be read.
type Judge func(ctx context.Context) (func(*entity.Message) entity.OriginStanding, error)

// everyOriginDeclared is the default Judge: it judges every original topic as declared.
func everyOriginDeclared(context.Context) (func(*entity.Message) entity.OriginStanding, error) {
	declared := entity.OriginStanding{Declaration: entity.Declared}
	return func(*entity.Message) entity.OriginStanding { return declared }, nil
}

// Redirects is the part of a store with the redirects of topics.
type Redirects interface {
	// RedirectTargets returns the targets of the redirects of the given topics, by topic; a topic without a redirect is
	// left out.
	RedirectTargets(ctx context.Context, topics []string) (map[string]string, error)
}

// SkippedNotPermitted is the reason for which a redrive skips a message whose original topic is not declared, if the
// redrive's creator has no role on the message's dead-letter topic.
const SkippedNotPermitted = "not_permitted"

// Planner plans messages for their attempts.
type Planner struct {
	publisher Publisher
	store     Store
	judge     Judge
	redirects Redirects
}

// PlanOptions describes on whose behalf messages are planned.
type PlanOptions struct {
	// the messages are planned for a redrive or for automatic retry, so no person has reviewed each message
	Bulk    bool
	Auto    bool                  // the plan is for automatic retry: no person requested the attempts
	Visible *entity.TopicPatterns // the topics on which the redrive's creator has the needed role; nil for all
	// AcceptEnvelope also sends values that look like envelopes, if Visible matches the message's dead-letter topic.
	AcceptEnvelope bool
	// Cause is written to the audit entries of records that planning reads, and of envelopes that a person accepted. If
	// Cause has no actor, no user has caused these reads, and they are not audited.
	Cause entity.AuditInfo
	// Redirects are used instead of the stored redirects, by topic. This is for the preview of a redirect that is not
	// stored yet. nil: the stored redirects are used.
	Redirects map[string]string
}

// Plan plans messages as Publisher.Plan does, and also refuses messages that must not be sent because their original
// topic is not declared. It sets the field Redirect of each element of batch, and reads the store once for all of them.
// For a pointer, the Publisher reads the record that the pointer names, and Plan adds an audit entry for that read. An
// error means that the store could not be read.
func (p *Planner) Plan(ctx context.Context, batch []entity.Outgoing, how PlanOptions) ([]entity.Target, error) {
	targets, open, err := p.RefuseOrigins(ctx, batch, how)
	if err == nil {
		err = p.redirect(ctx, batch, how.Redirects)
	}
	if err != nil {
		return nil, err
	}
	for i := range batch {
		batch[i].AcceptEnvelope = how.AcceptEnvelope && (how.Visible == nil || how.Visible.Match(batch[i].Message.Source.Topic))
	}
	if len(open) == len(batch) {
		targets = p.publisher.Plan(ctx, batch, how.Bulk)
	} else if len(open) > 0 {
		some := make([]entity.Outgoing, len(open))
		for n, i := range open {
			some[n] = batch[i]
		}
		for n, t := range p.publisher.Plan(ctx, some, how.Bulk) {
			targets[open[n]] = t
		}
	}
	for i := range batch {
		if targets[i].Err == nil {
			targets[i].Err = p.recordRead(ctx, &batch[i], how.Cause)
		}
		if targets[i].Err == nil && targets[i].Envelope && !how.Bulk {
			targets[i].Err = p.store.Record(ctx, entity.EnvelopeAccepted(&batch[i].Message, targets[i].Topic, how.Cause))
		}
		targets[i].Err = redirected(targets[i].Err, &batch[i])
	}
	return targets, nil
}

// SetRedirects sets the field Redirect of each message whose original topic is redirected, as Plan does.
func (p *Planner) SetRedirects(ctx context.Context, batch []entity.Outgoing) error {
	return p.redirect(ctx, batch, nil)
}

// redirect sets the field Redirect of each message whose original topic is redirected. It uses the redirects in
// targets, or, if targets is nil, the redirects in the store.
func (p *Planner) redirect(ctx context.Context, batch []entity.Outgoing, targets map[string]string) error {
	if targets == nil && p.redirects != nil {
		topics := map[string]bool{}
		for i := range batch {
			topics[batch[i].Message.OriginalTopic] = true
		}
		delete(topics, "")
		var err error
		if targets, err = p.redirects.RedirectTargets(ctx, slices.Collect(maps.Keys(topics))); err != nil {
			return fmt.Errorf("read redirects: %w", err)
		}
	}
	for i := range batch {
		batch[i].Redirect = targets[batch[i].Message.OriginalTopic]
	}
	return nil
}

// redirected adds the redirect of the message to the text of an error, if the error is about the topic to which the
// redirect leads.
func redirected(err error, out *entity.Outgoing) error {
	var refused *entity.RefusedError
	if out.Redirect == "" || !errors.As(err, &refused) || refused.OfMessage() || refused.Class == SkippedNotPermitted {
		return err
	}
	why := *refused
	why.Reason += fmt.Sprintf(" (%s is redirected to %s)", out.Message.OriginalTopic, out.Redirect)
	return &why
}

// RefuseOrigins returns a target with an error for each refused message, and the indexes of the other messages. If
// how.Bulk is false, it refuses no message: a user has reviewed the single message, and the API has checked the user's
// roles.
func (p *Planner) RefuseOrigins(ctx context.Context, batch []entity.Outgoing, how PlanOptions) ([]entity.Target, []int, error) {
	targets, open := make([]entity.Target, len(batch)), make([]int, 0, len(batch))
	standing := func(*entity.Message) entity.OriginStanding { return entity.OriginStanding{} }
	if how.Bulk {
		var err error
		if standing, err = p.judge(ctx); err != nil {
			return nil, nil, err
		}
	}
	for i := range batch {
		m := &batch[i].Message
		if how.Bulk {
			targets[i] = entity.Target{Topic: m.OriginalTopic, Partition: -1, Err: originRefusal(m, standing(m), how)}
		}
		if targets[i].Err == nil {
			open = append(open, i)
		}
	}
	return targets, open, nil
}

// originRefusal returns why a message must not be sent because its original topic is not declared; nil when it may be
// sent.
func originRefusal(m *entity.Message, is entity.OriginStanding, how PlanOptions) error {
	switch {
	case m.OriginalTopic == "": // the publisher refuses this message later, with a more precise reason
		return nil
	case is.Undeclared != "":
		return &entity.RefusedError{Class: entity.Undeclared, Reason: is.Undeclared + "; retry it alone, map its dead-letter topic, or set its original topic"}
	case is.Declared():
		return nil
	case how.Auto:
		return &entity.RefusedError{Class: entity.Undeclared, Reason: fmt.Sprintf(
			"automatic retry needs a declared origin, and neither kafka.origins nor a mapping declares origins for %s", m.Source.Topic)}
	case how.Visible != nil && !how.Visible.Match(m.Source.Topic):
		return &entity.RefusedError{Class: SkippedNotPermitted, Reason: fmt.Sprintf(
			"only its headers name its original topic, which is not declared: the role on dead-letter topic %s is needed too", m.Source.Topic)}
	}
	return nil
}

// OriginRefused reports whether a message was skipped for a reason of originRefusal. In a redrive that keeps the order
// of keys, such a message does not stop later messages with its key, because anyone who can write to a dead-letter
// topic can name another team's topic and key.
func OriginRefused(reason string) bool {
	return reason == string(entity.Undeclared) || reason == SkippedNotPermitted
}

// recordRead adds an audit entry when planning read the record that a pointer refers to.
func (p *Planner) recordRead(ctx context.Context, out *entity.Outgoing, cause entity.AuditInfo) error {
	m := &out.Message
	if cause.Actor == "" || !deadletter.IsPointer(m.Record) || out.Edit != nil && out.Edit.SetValue {
		return nil
	}
	return p.store.Record(ctx, entity.PointerRead(m, cause))
}
