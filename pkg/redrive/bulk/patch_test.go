package bulk

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const patchText = redrivetest.PatchText

// patching adds a patch to a redrive.
func patching(text string) func(*repository.NewRedrive) {
	return options(func(o *entity.RedriveOptions) { o.Patch = []byte(text) })
}

func TestPatchOverARedrive(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("EachMessageIsPatchedAndStaysAsItIs", scenario(func(b *bench) {
		one := b.Add(1, value(`{"state":"old","n":1}`))[0]
		two := b.Add(1, value(`{"n":2,"state":"old"}`))[0]
		before, _ := b.Store.Get(ctx, one, -1)
		b.wantAll(counted{Selected: 2, Succeeded: 2}, patching(patchText))
		b.WantRecords(orders, `={"state":"new","n":1}`, `={"n":2,"state":"new"}`)
		for _, id := range []uuid.UUID{one, two} {
			b.WantEdits(id, &entity.Edit{SetValue: true, Patch: []byte(patchText)})
		}
		b.WantRecordUnchanged(one, before)
	}))

	t.Run("WhatIsMaskedIsLeftAloneForThoseWhoMayNotSeeIt", scenario(func(b *bench) {
		for _, state := range []string{`"old"`, `{"pin":1}`, `"{\"pin\":1}"`} {
			b.Add(1, value(`{"state":`+state+`}`))
		}
		keeps := options(func(o *entity.RedriveOptions) { o.Patch, o.KeepsMasked = []byte(patchText), true })
		b.wantAll(counted{Selected: 3, Succeeded: 1, Skipped: 2, Reasons: reasons{SkippedPatchFailed: 2}}, keeps)
		b.WantRecords(orders, `={"state":"new"}`)
		b.wantAll(counted{Selected: 2, Succeeded: 2}, patching(patchText))
	}))

	t.Run("WhatItDoesNotFitIsSkippedAndNothingGoesBehindItsKey", scenario(func(b *bench) {
		key := keyed("a")
		misfits := []uuid.UUID{
			b.Add(1, key, value(`{"other":1}`))[0],
			b.Add(1, value("not json"))[0],
			b.Add(1, value(""))[0],
			b.Add(1, func(m *entity.Message) {
				m.Record = entity.Record{State: entity.ValueOverLimit, Size: 9, SHA256: make([]byte, 32)}
			})[0],
			b.Add(1, func(m *entity.Message) {
				m.Record = entity.Record{Headers: []entity.Header{{Key: "__dlq.errors.topic", Value: []byte(orders)}}}
			})[0],
		}
		b.Add(1, key, value(`{"state":"behind"}`))
		b.Add(1, value(`{"state":"old"}`))
		b.wantAll(counted{Selected: 7, Succeeded: 1, Skipped: 6, Reasons: reasons{SkippedPatchFailed: 5, SkippedKeyBlocked: 1}},
			options(func(o *entity.RedriveOptions) { o.KeepKeyOrder, o.Patch = true, []byte(patchText) }))
		b.WantRecords(orders, `={"state":"new"}`)
		for _, id := range misfits {
			b.WantState(id, entity.Pending, 0, "")
		}
	}))

	t.Run("NextOwnerPatchesAgain", scenario(func(b *bench) {
		var want []string
		for i := range 20 {
			b.Add(1, value(fmt.Sprintf(`{"state":"old","n":%d}`, i)))
			want = append(want, fmt.Sprintf(`={"state":"new","n":%d}`, i))
		}
		r := b.begin(patching(patchText))
		dead := b.another()
		l := dead.lease(r.ID)
		messages, _, err := dead.Store.Load(ctx, []uuid.UUID{l.Items[0].MessageID, l.Items[1].MessageID}, 1<<20)
		check.NoError(b, err)
		p := newPass(newRun(dead.runner, r.ID), r)
		p.run.compile(r.Options)
		taken := dead.claimBatch(r.ID, check.Must(p.applyPatch(ctx, nil, attempt.OutgoingOf(messages)))(b))
		// the process sends only the first of the claimed messages, and dies
		dead.parts.Executor.Publish(ctx, taken.Part(taken.Outgoing[:1]))

		defer b.carry()()
		b.wantEnd(r.ID, counted{Selected: 20, Succeeded: 20})
		b.WantRecords(orders, want...)
	}))

	t.Run("OneThatCannotBeIsRefused", scenario(func(b *bench) {
		b.Add(1)
		n := repository.NewRedrive{
			Action: entity.RedriveRetry, Cause: entity.By("tester"), Options: entity.RedriveOptions{Patch: []byte(`[{"op":"fly"}]`)},
			Selection: entity.Selection{Filter: entity.Filter{Topic: deadLetter}},
		}
		check.As[*entity.FieldError](b, check.Err(b.Begin(ctx, n)), "Begin")
		check.As[*entity.FieldError](b, check.Err(b.Preview(ctx, n)), "Preview")
	}))
}

func TestPreviewOfAPatch(t *testing.T) {
	t.Parallel()
	t.Run("ShowsWhatItMakesOfSome", scenario(func(b *bench) {
		texts := []string{
			`{"state":"old"}`, `{"other":1}`, "not json", "", `{"state":"` + strings.Repeat("x", repository.ListValueLimit) + `"}`, `{"state":"sixth"}`,
		}
		for i, text := range texts {
			b.Add(1, value(text), to(fmt.Sprintf("topic%d", i)))
		}
		b.Add(1, value(`{"state":"refused"}`), to("closed"))
		b.Kafka.PlanError = notTo("closed", &entity.RefusedError{Class: entity.Unauthorized, Reason: "no"})
		p, err := b.Preview(context.Background(), repository.NewRedrive{
			Action: entity.RedriveRetry, Options: entity.RedriveOptions{Patch: []byte(patchText)},
			Selection: entity.Selection{Filter: entity.Filter{Topic: deadLetter}},
		})
		// a value that is too large to be shown does not count, because its sample does not say whether the patch can
		// be applied
		misfits := 0
		for _, s := range p.Samples {
			if s.Reason != "" && s.Reason != errTooLargeToShow.Error() {
				misfits++
			}
		}
		if err != nil || p.Selected != 7 || p.Sendable != 6-misfits || p.Reasons[SkippedPatchFailed] != misfits || len(p.Samples) != maxSamples {
			b.Fatalf("Preview = %d of %d and %v with %d samples, %v, want 6 of 7 without the %d to which the patch does not apply",
				p.Sendable, p.Selected, p.Reasons, len(p.Samples), err, misfits)
		}
		for _, s := range p.Samples {
			m, err := b.Store.Get(context.Background(), s.MessageID, -1)
			check.True(b, err == nil && m.OriginalTopic != "closed",
				"sample of message %s of %s, %v, want one that would be sent", s.MessageID, m.OriginalTopic, err)
			switch string(m.Record.Value) {
			case texts[0], texts[5]:
				if string(s.Before) != string(m.Record.Value) || string(s.After) != `{"state":"new"}` || s.Reason != "" {
					b.Errorf("sample = %s, %s, %q, want the patched value", s.Before, s.After, s.Reason)
				}
			case texts[1]:
				check.True(b, string(s.Before) == texts[1] && s.After == nil && s.Reason != "",
					"sample = %s, %s, %q, want a reason", s.Before, s.After, s.Reason)
			default:
				check.True(b, s.Before == nil && s.After == nil && s.Reason != "",
					"sample of %.20q = %.20q, %s, %q, want a reason alone", m.Record.Value, s.Before, s.After, s.Reason)
			}
		}
	}))

	t.Run("ShowsOthersOfTheSelectionWhereThereAreFewGroups", scenario(func(b *bench) {
		ids := b.Add(8, value(`{"state":"old"}`), func(m *entity.Message) { m.Failure.Class = "boom" })
		b.retry(ids[0])
		foreign := b.Add(1, value(`{"state":"old"}`), func(m *entity.Message) { m.Failure.Class = "another" })[0]
		for name, selection := range map[string]entity.Selection{
			"named":   {IDs: append([]uuid.UUID{ids[0], foreign}, ids[1:]...)},
			"matched": {Filter: entity.Filter{Topic: deadLetter}},
		} {
			selection.ErrorClass = "boom"
			p, err := b.Preview(context.Background(), repository.NewRedrive{
				Action: entity.RedriveRetry, Options: entity.RedriveOptions{Patch: []byte(patchText)}, Selection: selection,
			})
			check.Require(b, err == nil && len(p.Samples) == maxSamples,
				"%s: Preview has %d samples, %v, want %d", name, len(p.Samples), err, maxSamples)
			seen := map[uuid.UUID]bool{ids[0]: true, foreign: true}
			for _, s := range p.Samples {
				check.True(b, !seen[s.MessageID] && string(s.After) == `{"state":"new"}`,
					"%s: sample = %+v, want another message of the selection", name, s)
				seen[s.MessageID] = true
			}
		}
	}))
}

func TestMapOverARedrive(t *testing.T) {
	t.Parallel()
	mapping := func(n *repository.NewRedrive) {
		n.Action, n.Options.OriginalTopic = entity.RedriveMap, "payments"
		n.Selection = entity.Selection{Filter: entity.Filter{Topic: deadLetter}}
	}
	unknown := func(m *entity.Message) { m.OriginalTopic, m.Origin.Confidence = "", entity.FromNothing }
	named := func(m *entity.Message) { m.Origin.Confidence = entity.FromHeader }

	t.Run("PreviewCountsWhatTheRecordNamesItself", scenario(func(b *bench) {
		b.Add(3, unknown)
		b.Add(2, named)
		n := repository.NewRedrive{}
		mapping(&n)
		p, err := b.Preview(context.Background(), n)
		check.True(b, err == nil && p.Selected == 5 && p.Sendable == 3 && p.Reasons[repository.SkippedOriginKnown] == 2,
			"Preview = %+v, %v, want 3 of 5, 2 whose origin is known", p, err)
	}))

	t.Run("ATopicThatCannotBeIsRefused", scenario(func(b *bench) {
		n := repository.NewRedrive{Cause: entity.By("tester")}
		mapping(&n)
		for _, name := range []string{"", "a b"} {
			n.Options.OriginalTopic = name
			check.As[*entity.FieldError](b, check.Err(b.Begin(context.Background(), n)), "Begin to map to "+name)
		}
	}))

	t.Run("SetsTheTopicAndCountsWhatADeadProcessDid", scenario(func(b *bench) {
		ids := b.Add(6, unknown)
		r := b.begin(mapping)
		b.lease(r.ID)
		change := repository.Change{Action: entity.RedriveMap, IDs: ids[:2], OriginalTopic: "payments"}
		check.Must(b.Store.Change(context.Background(), change, entity.AuditInfo{Actor: "tester", Operation: r.ID}))(b)
		defer b.carry()()
		b.wantEnd(r.ID, counted{Selected: 6, Succeeded: 6})
		for _, id := range ids {
			if m := b.Get(id); m.OriginalTopic != "payments" || m.Origin.Confidence != entity.FromOperator || m.Status != entity.Pending {
				b.Errorf("message = %s of %q by %s, want PENDING of payments by the operator", m.Status, m.OriginalTopic, m.Origin.Confidence)
			}
		}
		trail, err := b.Store.Trail(context.Background(), repository.TrailQuery{Action: entity.ActionMap, Limit: 100})
		check.True(b, err == nil && len(trail) == 6, "the trail has %d lines, %v, want 6", len(trail), err)
	}))
}

func TestItemsKnowTheirGroupAfterATakeOver(t *testing.T) {
	t.Parallel()
	t.Run("FromTheAttempt", scenario(func(b *bench) {
		ids := b.Add(2, func(m *entity.Message) { m.Failure.ConsumerGroup = "billing" })
		r := b.begin()
		dead := b.another()
		dead.lease(r.ID)
		taken := dead.claim(r.ID, ids...)
		check.Must(dead.parts.Executor.Finish(taken, dead.parts.Executor.Publish(context.Background(), taken)))(b)
		defer b.carry()()
		check.Must(b.Wait(context.Background(), r.ID))(b)
		items, err := b.Store.RedriveItems(context.Background(), r.ID, repository.ItemQuery{Limit: 10})
		var groups []string
		for _, item := range items {
			groups = append(groups, item.Group)
		}
		check.True(b, err == nil && reflect.DeepEqual(groups, []string{
			"billing",
			"billing",
		}), "groups = %q, %v, want billing twice", groups, err)
	}))
}
