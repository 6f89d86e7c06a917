package redrive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// declareByMapping adds a rule to the mapping that declares the original topic of dead letters in the topic dlq.
func (b *bench) declareByMapping(dlq, topic string) {
	b.Helper()
	rules := []entity.TopicRule{{Pattern: dlq, Original: topic}}
	check.Must(b.Store.ReplaceMapping(context.Background(), rules, 0, entity.By("admin")))(b)
}

// A dead letter in the topic of team gamma names, in a header, a topic of team beta as its original topic. The test
// checks for which principals, and with which configuration, it may be sent.
func TestClaimedOrigins(t *testing.T) {
	t.Parallel()
	const sent, undeclared = "", "UNDECLARED" // expected reasons for which a message is skipped; sent: it is not skipped
	by := func(trust string, rules ...deadletter.OriginRule) func(*bench) {
		return func(b *bench) { b.Declare(trust, rules...) }
	}
	betaOfGamma := deadletter.OriginRule{DLQ: redrivetest.GammaDLQ, Originals: []string{"beta.*"}}
	operator := func(m *entity.Message) { m.Origin.Confidence = entity.FromOperator }
	for name, c := range map[string]struct {
		declare func(b *bench)
		change  func(*entity.Message)

		// Expected reasons for each way to send the message. The first three are redrives, whose creator has the role
		// on all topics, on beta*, and on beta* and gamma*. The last is automatic retry.
		all, beta, both, auto string
	}{
		"TrustedHeader":             {by(deadletter.TrustHeader), nil, sent, attempt.SkippedNotPermitted, sent, undeclared},
		"UntrustedHeader":           {by(deadletter.TrustDeclared), nil, undeclared, undeclared, undeclared, undeclared},
		"ContradictingADeclaration": {by(deadletter.TrustHeader, redrivetest.ByConvention), nil, undeclared, undeclared, undeclared, undeclared},
		"ContradictingAMapping": {func(b *bench) {
			b.Declare(deadletter.TrustHeader)
			b.declareByMapping(redrivetest.GammaDLQ, redrivetest.GammaTopic)
		}, nil, undeclared, undeclared, undeclared, undeclared},
		"Declared": {by(deadletter.TrustDeclared, redrivetest.ByConvention, betaOfGamma), nil, sent, sent, sent, sent},
		"Mapped": {func(b *bench) {
			b.Declare(deadletter.TrustDeclared, redrivetest.ByConvention)
			b.declareByMapping(redrivetest.GammaDLQ, redrivetest.BetaTopic)
		}, nil, sent, sent, sent, sent},
		"SaidByAnOperator": {by(deadletter.TrustDeclared, redrivetest.ByConvention), operator, sent, sent, sent, sent},
	} {
		setUp := func(b *bench) uuid.UUID {
			c.declare(b)
			changes := []func(*entity.Message){redrivetest.ClaimingTopic(redrivetest.GammaDLQ, redrivetest.BetaTopic)}
			if c.change != nil {
				changes = append(changes, c.change)
			}
			return b.Add(1, changes...)[0]
		}
		t.Run(name+"/ARetryOfItAlone", scenario(func(b *bench) {
			id := setUp(b)
			check.Equal(b, b.retry(id), nil, "retry")
			b.WantSent(redrivetest.BetaTopic, id)
		}))
		t.Run(name+"/AutomaticRetry", scenario(func(b *bench) {
			id := setUp(b)
			b.autoFor(2 * time.Minute)
			b.wantDecided(id, c.auto)
		}))
		for who, r := range map[string]struct {
			visible *entity.TopicPatterns
			want    string
		}{
			"Everything": {nil, c.all}, "Beta": {redrivetest.ScopeOf(t, "beta.*"), c.beta}, "BetaAndGamma": {redrivetest.ScopeOf(t, "beta.*", "gamma.*"), c.both},
		} {
			for by, selection := range map[string]func(uuid.UUID) entity.Selection{
				"OriginalTopic": func(uuid.UUID) entity.Selection {
					return entity.Selection{Filter: entity.Filter{Topic: redrivetest.BetaTopic}}
				},
				"DeadLetterTopic": func(uuid.UUID) entity.Selection {
					return entity.Selection{Filter: entity.Filter{Topic: redrivetest.GammaDLQ}}
				},
				"ID": func(id uuid.UUID) entity.Selection { return entity.Selection{IDs: []uuid.UUID{id}} },
			} {
				t.Run(fmt.Sprintf("%s/RedriveOf%sBy%s", name, who, by), scenario(func(b *bench) {
					id := setUp(b)
					order := repository.NewRedrive{Action: entity.RedriveRetry, Selection: selection(id), Cause: entity.By("tester")}
					order.Selection.Visible = r.visible
					b.wantRedriveOf(order, r.want)
					b.wantDecided(id, r.want)
				}))
			}
		}
	}
}

// wantDecided checks that the message was sent to BetaTopic if reason is "", and otherwise that it was not sent and
// not changed.
func (b *bench) wantDecided(id uuid.UUID, reason string) {
	b.Helper()
	if reason == "" {
		b.WantSent(redrivetest.BetaTopic, id)
		b.WantState(id, entity.Resolved, 1, "")
		return
	}
	b.WantSent(redrivetest.BetaTopic)
	b.WantState(id, entity.Pending, 0, "")
}

// wantRedriveOf checks that a dry run and a redrive of one message both skip it for the reason, or send it if reason is
// "".
func (b *bench) wantRedriveOf(order repository.NewRedrive, reason string) {
	b.Helper()
	want := map[string]int{}
	if reason != "" {
		want[reason] = 1
	}
	p, err := b.Preview(context.Background(), order)
	check.True(b, err == nil && p.Selected == 1 && maps.Equal(p.Reasons, want),
		"dry run = %+v, %v, want 1 selected with the reasons %v", p, err, want)
	defer b.carry()()
	r, err := b.Wait(context.Background(), check.Must(b.Begin(context.Background(), order))(b).ID)
	check.True(b, err == nil && maps.Equal(r.Counts.Reasons, want) && r.Counts.Skipped == len(want),
		"redrive = %+v, %v, want the reasons %v", r.Counts, err, want)
}

// TestForgedClaimsHoldNothingUp: a dry run counts messages with undeclared origins apart from the others. Automatic
// retry sends such a message after a mapping declares its topic. Without the mapping, a dry run fails.
func TestForgedClaimsHoldNothingUp(t *testing.T) {
	t.Parallel()
	t.Run("ADryRunTellsThemApart", scenario(func(b *bench) {
		b.Declare(deadletter.TrustDeclared, redrivetest.ByConvention)
		b.Add(3, redrivetest.ClaimingTopic(redrivetest.GammaDLQ, redrivetest.BetaTopic))
		b.Add(2, redrivetest.ClaimingTopic(redrivetest.BetaDLQ, redrivetest.BetaTopic))
		b.Add(1, redrivetest.ClaimingTopic("shop.dlq.v1", redrivetest.BetaTopic))
		p, err := b.Preview(context.Background(), repository.NewRedrive{
			Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: redrivetest.BetaTopic}}, Cause: entity.By("tester"),
		})
		check.True(b, err == nil && p.Selected == 6 && p.Sendable == 2 && p.Reasons["UNDECLARED"] == 4,
			"dry run = %+v, %v, want 2 of 6 sent and 4 undeclared", p, err)
	}))
	t.Run("ADeclarationIsSeenAtTheNextAttempt", scenario(func(b *bench) {
		b.Declare(deadletter.TrustDeclared)
		id := b.Add(1, redrivetest.ClaimingTopic(redrivetest.GammaDLQ, redrivetest.BetaTopic))[0]
		b.autoFor(time.Minute)
		b.WantState(id, entity.Pending, 0, "")
		b.declareByMapping(redrivetest.GammaDLQ, redrivetest.BetaTopic)
		b.autoFor(2 * time.Minute)
		b.WantState(id, entity.Resolved, 1, "")
	}))
	t.Run("WithoutTheMappingNothingIsSent", scenario(func(b *bench) {
		id := b.Add(1, redrivetest.ClaimingTopic(redrivetest.GammaDLQ, redrivetest.BetaTopic))[0]
		b.Judge = func(context.Context) (func(*entity.Message) entity.OriginStanding, error) {
			return nil, fmt.Errorf("read the mapping: %w", entity.ErrUnavailable)
		}
		if _, err := b.Preview(context.Background(), repository.NewRedrive{
			Action: entity.RedriveRetry, Selection: entity.Selection{IDs: []uuid.UUID{id}},
		}); !errors.Is(err, entity.ErrUnavailable) {
			b.Errorf("dry run: %v, want ErrUnavailable", err)
		}
		b.WantSent(redrivetest.BetaTopic)
	}))
}

// A redrive that sets the original topics of messages declares these topics. So its creator also needs the role on the
// messages' dead-letter topics.
func TestRedriveThatMapsNeedsTheDeadLetterTopic(t *testing.T) { //nolint:paralleltest // scenario calls Parallel
	scenario(func(b *bench) {
		guessed := func(m *entity.Message) { m.Origin.Confidence = entity.FromName }
		foreign := b.Add(1, redrivetest.ClaimingTopic(redrivetest.GammaDLQ, redrivetest.BetaTopic), guessed)[0]
		own := b.Add(1, redrivetest.ClaimingTopic(redrivetest.BetaDLQ, redrivetest.BetaTopic), guessed)[0]
		order := repository.NewRedrive{
			Action: entity.RedriveMap, Options: entity.RedriveOptions{OriginalTopic: "beta.other"}, Cause: entity.By("tester"),
			Selection: entity.Selection{Filter: entity.Filter{Topic: redrivetest.BetaTopic, Visible: redrivetest.ScopeOf(t, "beta.*")}},
		}
		p, err := b.Preview(context.Background(), order)
		check.True(b, err == nil && p.Sendable == 1 && p.Reasons[attempt.SkippedNotPermitted] == 1,
			"dry run = %+v, %v, want 1 mapped and 1 not permitted", p, err)
		defer b.carry()()
		r, err := b.Wait(context.Background(), check.Must(b.Begin(context.Background(), order))(b).ID)
		check.True(b, err == nil && r.Counts.Reasons[attempt.SkippedNotPermitted] == 1 && r.Counts.Succeeded == 1,
			"redrive = %+v, %v, want 1 mapped and 1 not permitted", r.Counts, err)
		if got := b.Get(foreign); got.OriginalTopic != redrivetest.BetaTopic || got.Origin.Confidence != entity.FromName {
			b.Errorf("the message of gamma belongs to %s by %s, want it as before", got.OriginalTopic, got.Origin.Confidence)
		}
		got := b.Get(own)
		check.True(b, got.OriginalTopic == "beta.other", "the message of beta belongs to %s, want beta.other", got.OriginalTopic)
	})(t)
}

// When planning reads a record that a pointer refers to, the audit trail gets an entry if a user caused the read, by a
// retry of one message or by a redrive. A redrive adds one entry per message, however often it plans the message.
func TestReadsOfPointersAreAudited(t *testing.T) {
	t.Parallel()
	pointer := func(m *entity.Message) {
		redrivetest.ClaimingTopic("share.dlq", redrivetest.BetaTopic)(m)
		m.Record = entity.Record{Headers: []entity.Header{{Key: "__dlq.errors.topic", Value: []byte(redrivetest.BetaTopic)}}}
		m.Origin.Partition, m.Origin.Offset = new(int32(2)), new(int64(7))
	}
	reads := func(b *bench, id uuid.UUID) []entity.AuditEntry {
		b.Helper()
		trail, err := b.Store.Trail(context.Background(), repository.TrailQuery{ObjectID: id, Action: entity.ActionReadPointer, Limit: 10})
		check.NoError(b, err)
		return trail
	}
	wantOne := func(b *bench, id uuid.UUID) {
		b.Helper()
		trail := reads(b, id)
		if len(trail) != 1 || trail[0].From != "share.dlq" || !strings.Contains(trail[0].To, redrivetest.BetaTopic+", partition 2, offset 7") || trail[0].Cause.Actor != "tester" {
			b.Errorf("the trail has %+v, want one read of %s by tester", trail, redrivetest.BetaTopic)
		}
	}
	t.Run("Alone", scenario(func(b *bench) {
		id := b.Add(1, pointer)[0]
		check.Equal(b, b.retry(id), nil, "retry")
		wantOne(b, id)
	}))
	t.Run("InARedrive", scenario(func(b *bench) {
		id := b.Add(1, pointer)[0]
		plain := b.Add(1, redrivetest.ClaimingTopic("share.dlq", redrivetest.BetaTopic))[0]
		defer b.carry()()
		begun := check.Must(b.Begin(context.Background(), repository.NewRedrive{
			Action: entity.RedriveRetry, Selection: entity.Selection{IDs: []uuid.UUID{id, plain}}, Cause: entity.By("tester"),
		}))(b)
		check.Must(b.Wait(context.Background(), begun.ID))(b)
		wantOne(b, id)
		trail := reads(b, plain)
		check.True(b, len(trail) == 0, "the trail has %+v of a message that is no pointer", trail)
	}))
	t.Run("NotOfAutomaticRetry", scenario(func(b *bench) {
		id := b.Add(1, pointer)[0]
		b.autoFor(10 * time.Second)
		b.WantState(id, entity.Resolved, 1, "")
		trail := reads(b, id)
		check.True(b, len(trail) == 0, "the trail has %+v, want no read of a user", trail)
	}))
	t.Run("NotWhatAnEditReplaces", scenario(func(b *bench) {
		id := b.Add(1, pointer)[0]
		order := entity.RetryOrder{ID: id, Cause: entity.By("tester"), Edit: &entity.Edit{SetValue: true, Value: []byte("new")}}
		check.Must(b.Retry(context.Background(), order))(b)
		trail := reads(b, id)
		check.True(b, len(trail) == 0, "the trail has %+v, want nothing read", trail)
	}))
}
