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
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Team gamma may write to gammaDLQ, and team beta owns betaTopic.
const (
	gammaDLQ   = "gamma.dlq.v1"
	gammaTopic = "gamma.events.v1"
	betaDLQ    = "beta.dlq.v1"
	betaTopic  = "beta.events.v1"
)

// claimingTopic makes a message of a dead-letter topic whose header claims an original topic.
func claimingTopic(dlq, original string) func(*entity.Message) {
	return func(m *entity.Message) {
		m.Source.Topic, m.OriginalTopic, m.Origin.Confidence = dlq, original, entity.FromHeader
	}
}

// declare makes the bench judge origins by a configuration and the store's mapping.
func (b *bench) declare(trust string, rules ...deadletter.OriginRule) {
	b.Helper()
	cfg := deadletter.Config{Origins: rules, OriginTrust: trust}
	origins := check.Must(deadletter.NewOrigins(cfg))(b)
	decoder := check.Must(deadletter.FromConfig(cfg, deadletter.Patterns{}))(b)
	b.judge = deadletter.NewJudge(decoder, origins, b.store.Mapping).Standing
}

// declareByMapping maps the dead-letter topic to the topic.
func (b *bench) declareByMapping(dlq, topic string) {
	b.Helper()
	rules := []entity.TopicRule{{Pattern: dlq, Original: topic}}
	check.Must(b.store.ReplaceMapping(context.Background(), rules, 0, entity.By("admin")))(b)
}

var byConvention = deadletter.OriginRule{DLQ: "*.dlq.v1", Originals: []string{"$1.*"}}

func scopeOf(t *testing.T, topics ...string) *entity.TopicPatterns {
	t.Helper()
	scope := check.Must(entity.ParseTopicPatterns("topics", topics...))(t)
	return &scope
}

// The permission matrix of claimed origins: a record in gamma's dead-letter topic says that it failed in beta's
// topic. Who may send it?
func TestClaimedOrigins(t *testing.T) {
	t.Parallel()
	const sent, undeclared = "", "UNDECLARED" // why it is skipped
	by := func(trust string, rules ...deadletter.OriginRule) func(*bench) {
		return func(b *bench) { b.declare(trust, rules...) }
	}
	betaOfGamma := deadletter.OriginRule{DLQ: gammaDLQ, Originals: []string{"beta.*"}}
	operator := func(m *entity.Message) { m.Origin.Confidence = entity.FromOperator }
	for name, c := range map[string]struct {
		declare func(b *bench)
		change  func(*entity.Message)

		// Result of a redrive by principals with the role on everything, on beta*, and on beta* and gamma*; and of
		// automatic retry.
		all, beta, both, auto string
	}{
		"TrustedHeader":             {by(deadletter.TrustHeader), nil, sent, skippedNotPermitted, sent, undeclared},
		"UntrustedHeader":           {by(deadletter.TrustDeclared), nil, undeclared, undeclared, undeclared, undeclared},
		"ContradictingADeclaration": {by(deadletter.TrustHeader, byConvention), nil, undeclared, undeclared, undeclared, undeclared},
		"ContradictingAMapping": {func(b *bench) {
			b.declare(deadletter.TrustHeader)
			b.declareByMapping(gammaDLQ, gammaTopic)
		}, nil, undeclared, undeclared, undeclared, undeclared},
		"Declared": {by(deadletter.TrustDeclared, byConvention, betaOfGamma), nil, sent, sent, sent, sent},
		"Mapped": {func(b *bench) {
			b.declare(deadletter.TrustDeclared, byConvention)
			b.declareByMapping(gammaDLQ, betaTopic)
		}, nil, sent, sent, sent, sent},
		"SaidByAnOperator": {by(deadletter.TrustDeclared, byConvention), operator, sent, sent, sent, sent},
	} {
		setUp := func(b *bench) uuid.UUID {
			c.declare(b)
			changes := []func(*entity.Message){claimingTopic(gammaDLQ, betaTopic)}
			if c.change != nil {
				changes = append(changes, c.change)
			}
			return b.add(1, changes...)[0]
		}
		t.Run(name+"/ARetryOfItAlone", scenario(func(b *bench) {
			id := setUp(b)
			check.Equal(b, b.retry(id), nil, "retry")
			b.wantSent(betaTopic, id)
		}))
		t.Run(name+"/AutomaticRetry", automatic(func(b *bench) {
			id := setUp(b)
			b.autoFor(2 * time.Minute)
			b.wantDecided(id, c.auto)
		}))
		for who, r := range map[string]struct {
			visible *entity.TopicPatterns
			want    string
		}{
			"Everything": {nil, c.all}, "Beta": {scopeOf(t, "beta.*"), c.beta}, "BetaAndGamma": {scopeOf(t, "beta.*", "gamma.*"), c.both},
		} {
			for by, selection := range map[string]func(uuid.UUID) entity.Selection{
				"OriginalTopic":   func(uuid.UUID) entity.Selection { return entity.Selection{Filter: entity.Filter{Topic: betaTopic}} },
				"DeadLetterTopic": func(uuid.UUID) entity.Selection { return entity.Selection{Filter: entity.Filter{Topic: gammaDLQ}} },
				"ID":              func(id uuid.UUID) entity.Selection { return entity.Selection{IDs: []uuid.UUID{id}} },
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

// wantDecided checks that the message was sent, or left unchanged for a reason.
func (b *bench) wantDecided(id uuid.UUID, reason string) {
	b.Helper()
	if reason == "" {
		b.wantSent(betaTopic, id)
		b.wantState(id, entity.Resolved, 1, "")
		return
	}
	b.wantSent(betaTopic)
	b.wantState(id, entity.Pending, 0, "")
}

// wantRedriveOf checks that dry run and redrive of one message agree.
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

// Messages with declared origins are sent by redrives and by automatic retry, however many forged records there are
// and however old they are.
func TestForgedClaimsHoldNothingUp(t *testing.T) {
	t.Parallel()
	t.Run("AutomaticRetry", automatic(func(b *bench) {
		b.declare(deadletter.TrustDeclared, byConvention)
		b.add(heldMax+500, claimingTopic(gammaDLQ, betaTopic))
		own := b.add(3, claimingTopic(betaDLQ, betaTopic))
		defer b.auto()()
		elapse(10 * time.Second)
		b.wantSent(betaTopic, own...)
		later := b.add(1, claimingTopic(betaDLQ, betaTopic))
		elapse(10 * time.Second)
		b.wantSent(betaTopic, append(own, later...)...)
	}))
	t.Run("ADryRunTellsThemApart", scenario(func(b *bench) {
		b.declare(deadletter.TrustDeclared, byConvention)
		b.add(3, claimingTopic(gammaDLQ, betaTopic))
		b.add(2, claimingTopic(betaDLQ, betaTopic))
		b.add(1, claimingTopic("shop.dlq.v1", betaTopic))
		p, err := b.Preview(context.Background(), repository.NewRedrive{
			Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: betaTopic}}, Cause: entity.By("tester"),
		})
		check.True(b, err == nil && p.Selected == 6 && p.Sendable == 2 && p.Reasons["UNDECLARED"] == 4,
			"dry run = %+v, %v, want 2 of 6 sent and 4 undeclared", p, err)
	}))
	t.Run("ADeclarationIsSeenAtTheNextAttempt", automatic(func(b *bench) {
		b.declare(deadletter.TrustDeclared)
		id := b.add(1, claimingTopic(gammaDLQ, betaTopic))[0]
		b.autoFor(time.Minute)
		b.wantState(id, entity.Pending, 0, "")
		b.declareByMapping(gammaDLQ, betaTopic)
		b.autoFor(2 * time.Minute)
		b.wantState(id, entity.Resolved, 1, "")
	}))
	t.Run("WithoutTheMappingNothingIsSent", scenario(func(b *bench) {
		id := b.add(1, claimingTopic(gammaDLQ, betaTopic))[0]
		b.judge = func(context.Context) (func(*entity.Message) entity.OriginStanding, error) {
			return nil, fmt.Errorf("read the mapping: %w", entity.ErrUnavailable)
		}
		if _, err := b.Preview(context.Background(), repository.NewRedrive{
			Action: entity.RedriveRetry, Selection: entity.Selection{IDs: []uuid.UUID{id}},
		}); !errors.Is(err, entity.ErrUnavailable) {
			b.Errorf("dry run: %v, want ErrUnavailable", err)
		}
		b.wantSent(betaTopic)
	}))
}

// Setting the original topics of many messages declares them: it needs the role on their dead-letter topic too.
func TestRedriveThatMapsNeedsTheDeadLetterTopic(t *testing.T) { //nolint:paralleltest // a scenario is parallel
	scenario(func(b *bench) {
		guessed := func(m *entity.Message) { m.Origin.Confidence = entity.FromName }
		foreign := b.add(1, claimingTopic(gammaDLQ, betaTopic), guessed)[0]
		own := b.add(1, claimingTopic(betaDLQ, betaTopic), guessed)[0]
		order := repository.NewRedrive{
			Action: entity.RedriveMap, Options: entity.RedriveOptions{OriginalTopic: "beta.other"}, Cause: entity.By("tester"),
			Selection: entity.Selection{Filter: entity.Filter{Topic: betaTopic, Visible: scopeOf(t, "beta.*")}},
		}
		p, err := b.Preview(context.Background(), order)
		check.True(b, err == nil && p.Sendable == 1 && p.Reasons[skippedNotPermitted] == 1,
			"dry run = %+v, %v, want 1 mapped and 1 not permitted", p, err)
		defer b.carry()()
		r, err := b.Wait(context.Background(), check.Must(b.Begin(context.Background(), order))(b).ID)
		check.True(b, err == nil && r.Counts.Reasons[skippedNotPermitted] == 1 && r.Counts.Succeeded == 1,
			"redrive = %+v, %v, want 1 mapped and 1 not permitted", r.Counts, err)
		if got := b.get(foreign); got.OriginalTopic != betaTopic || got.Origin.Confidence != entity.FromName {
			b.Errorf("the message of gamma belongs to %s by %s, want it as before", got.OriginalTopic, got.Origin.Confidence)
		}
		got := b.get(own)
		check.True(b, got.OriginalTopic == "beta.other", "the message of beta belongs to %s, want beta.other", got.OriginalTopic)
	})(t)
}

// Each read of a record that a pointer refers to is in the audit trail when a user caused it, for one message or in a
// redrive, and once per redrive however often it is planned.
func TestReadsOfPointersAreAudited(t *testing.T) {
	t.Parallel()
	pointer := func(m *entity.Message) {
		claimingTopic("share.dlq", betaTopic)(m)
		m.Record = entity.Record{Headers: []entity.Header{{Key: "__dlq.errors.topic", Value: []byte(betaTopic)}}}
		m.Origin.Partition, m.Origin.Offset = new(int32(2)), new(int64(7))
	}
	reads := func(b *bench, id uuid.UUID) []entity.AuditEntry {
		b.Helper()
		trail, err := b.store.Trail(context.Background(), repository.TrailQuery{ObjectID: id, Action: entity.ActionReadPointer, Limit: 10})
		check.NoError(b, err)
		return trail
	}
	wantOne := func(b *bench, id uuid.UUID) {
		b.Helper()
		trail := reads(b, id)
		if len(trail) != 1 || trail[0].From != "share.dlq" || !strings.Contains(trail[0].To, betaTopic+", partition 2, offset 7") || trail[0].Cause.Actor != "tester" {
			b.Errorf("the trail has %+v, want one read of %s by tester", trail, betaTopic)
		}
	}
	t.Run("Alone", scenario(func(b *bench) {
		id := b.add(1, pointer)[0]
		check.Equal(b, b.retry(id), nil, "retry")
		wantOne(b, id)
	}))
	t.Run("InARedrive", scenario(func(b *bench) {
		id := b.add(1, pointer)[0]
		plain := b.add(1, claimingTopic("share.dlq", betaTopic))[0]
		defer b.carry()()
		begun := check.Must(b.Begin(context.Background(), repository.NewRedrive{
			Action: entity.RedriveRetry, Selection: entity.Selection{IDs: []uuid.UUID{id, plain}}, Cause: entity.By("tester"),
		}))(b)
		check.Must(b.Wait(context.Background(), begun.ID))(b)
		wantOne(b, id)
		trail := reads(b, plain)
		check.True(b, len(trail) == 0, "the trail has %+v of a message that is no pointer", trail)
	}))
	t.Run("NotOfAutomaticRetry", automatic(func(b *bench) {
		id := b.add(1, pointer)[0]
		b.autoFor(10 * time.Second)
		b.wantState(id, entity.Resolved, 1, "")
		trail := reads(b, id)
		check.True(b, len(trail) == 0, "the trail has %+v, want no read of a user", trail)
	}))
	t.Run("NotWhatAnEditReplaces", scenario(func(b *bench) {
		id := b.add(1, pointer)[0]
		order := entity.RetryOrder{ID: id, Cause: entity.By("tester"), Edit: &entity.Edit{SetValue: true, Value: []byte("new")}}
		check.Must(b.Retry(context.Background(), order))(b)
		trail := reads(b, id)
		check.True(b, len(trail) == 0, "the trail has %+v, want nothing read", trail)
	}))
}

// A record in another team's dead-letter topic that claims a topic and a key does not hold the messages of that key
// back, neither in one run nor in another that continues it.
func TestRefusedOriginsBlockNoKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trust string
		rules []deadletter.OriginRule
		scope []string
		patch bool
		want  string
	}{
		"Undeclared":   {deadletter.TrustHeader, []deadletter.OriginRule{byConvention}, nil, false, "UNDECLARED"},
		"NotPermitted": {deadletter.TrustHeader, nil, []string{betaTopic, betaDLQ}, false, skippedNotPermitted},
		"Misfit":       {deadletter.TrustHeader, []deadletter.OriginRule{byConvention}, nil, true, "UNDECLARED"},
	} {
		t.Run(name, scenario(func(b *bench) {
			ctx := context.Background()
			b.declare(c.trust, c.rules...)
			key := keyed("customer-1")
			b.add(1, claimingTopic(gammaDLQ, betaTopic), key, value(`{"other":1}`))
			honest := b.add(2, claimingTopic(betaDLQ, betaTopic), key, value(`{"state":"old"}`))
			r := b.begin(options(func(o *entity.RedriveOptions) {
				o.KeepKeyOrder = true
				if c.patch {
					o.Patch = []byte(patchText)
				}
			}), func(n *repository.NewRedrive) {
				n.Selection = entity.Selection{Filter: entity.Filter{Topic: betaTopic}}
				if c.scope != nil {
					n.Selection.Visible = scopeOf(b.T, c.scope...)
				}
			})
			stop := b.carry()
			b.wantEnd(r.ID, counted{Selected: 3, Succeeded: 2, Skipped: 1, Reasons: reasons{c.want: 1}})
			stop()
			for _, id := range honest {
				b.wantState(id, entity.Resolved, 1, "")
			}
			known := map[uuid.UUID]entity.RedriveItem{}
			items, err := b.store.RedriveItems(ctx, r.ID, repository.ItemQuery{Limit: 10})
			for _, item := range items {
				known[item.MessageID] = item
			}
			keys, blockErr := (&run{Service: b.Service, id: r.ID}).blockedKeys(ctx, known)
			check.True(b, err == nil && blockErr == nil && len(keys.blocked) == 0,
				"a run that goes on has %d blocked keys, %v, %v, want none", len(keys.blocked), err, blockErr)
		}))
	}
}
