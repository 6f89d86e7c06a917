package bulk

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func TestPreviewTargets(t *testing.T) {
	t.Parallel()
	all := entity.Selection{Filter: entity.Filter{Topic: deadLetter}}
	// told returns the groups and the messages of a preview, as "topic to target".
	told := func(p entity.Preview) (groups, messages []string) {
		for _, g := range p.Groups {
			groups = append(groups, fmt.Sprintf("%d %s to %s %s", g.Messages, g.Topic, g.Target, g.Class))
		}
		for _, m := range p.Messages {
			messages = append(messages, m.Message.OriginalTopic+" to "+m.Target)
		}
		slices.Sort(messages)
		return groups, messages
	}

	t.Run("NamesWhereMessagesWouldBeSent", scenario(func(b *bench) {
		ctx := context.Background()
		check.Must(b.Store.SaveRedirect(ctx, orders, moved, nil, entity.By("alice")))(b)
		check.Must(b.Store.SaveRedirect(ctx, "closed", "locked", nil, entity.By("alice")))(b)
		b.Add(4)
		b.Add(2, to("payments"))
		b.Add(1, to("closed"))
		b.Kafka.PlanError = notTo("closed", &entity.RefusedError{Class: entity.Unauthorized})
		p := check.Must(b.Preview(ctx, repository.NewRedrive{Action: entity.RedriveRetry, Selection: all}))(b)
		groups, messages := told(p)
		check.Equal(b, groups, []string{"4 orders to orders.v2 ", "2 payments to payments ", "1 closed to locked UNAUTHORIZED"}, "groups")
		check.Len(b, messages, maxExamples, "messages")
		check.True(b, slices.Contains(messages, "orders to orders.v2") && slices.Contains(messages, "payments to payments"), "messages = %q", messages)
	}))

	t.Run("NamesNoTargetWhenNothingIsSent", scenario(func(b *bench) {
		ctx := context.Background()
		check.Must(b.Store.SaveRedirect(ctx, orders, moved, nil, entity.By("alice")))(b)
		ids := b.Add(5)
		order := repository.NewRedrive{Action: entity.RedriveDead, Selection: entity.Selection{IDs: ids}}
		groups, messages := told(check.Must(b.Preview(ctx, order))(b))
		check.Equal(b, groups, []string{"5 orders to  "}, "groups")
		check.Equal(b, messages, []string{"orders to ", "orders to ", "orders to "}, "messages")
	}))

	t.Run("ShowsOnlyWhatWouldBeTaken", scenario(func(b *bench) {
		good := b.Add(1)
		b.claim(uuid.Nil, b.Add(1)[0])
		b.Add(2, to("undeclared"))
		b.Judge = func(context.Context) (func(*entity.Message) entity.OriginStanding, error) {
			return func(m *entity.Message) entity.OriginStanding {
				if m.OriginalTopic == "undeclared" {
					return entity.OriginStanding{Undeclared: "no"}
				}
				return entity.OriginStanding{Declaration: entity.Declared}
			}, nil
		}
		p := check.Must(b.Preview(context.Background(), repository.NewRedrive{Action: entity.RedriveRetry, Selection: all}))(b)
		check.True(b, len(p.Messages) == 1 && p.Messages[0].Message.ID == good[0], "messages = %+v, want %s alone", p.Messages, good[0])
	}))

	t.Run("ShowsOnlyTopicsOnWhichTheCallerHasTheRole", scenario(func(b *bench) {
		b.Add(1)
		b.Add(5, to("payments"), value(`{"state":"secret"}`))
		visible := check.Must(entity.ParseTopicPatterns("topics", orders))(b)
		selection := all
		selection.Visible = &visible
		for _, options := range []entity.RedriveOptions{{}, {Patch: []byte(patchText)}} {
			p := check.Must(b.Preview(context.Background(), repository.NewRedrive{Action: entity.RedriveRetry, Selection: selection, Options: options}))(b)
			_, messages := told(p)
			check.Equal(b, messages, []string{"orders to orders"}, "messages")
			for _, s := range p.Samples {
				check.Equal(b, s.Topic, orders, "topic of a sample of the patch")
			}
		}
	}))
}
