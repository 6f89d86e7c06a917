package redrive_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// TestRealServersEnvelopes: no way to send messages sends an envelope unasked. When a person accepts that, its bytes are
// sent as they are.
func TestRealServersEnvelopes(t *testing.T) {
	const n = 20 // messages; the last one is ordinary
	s := newSystem(t)
	s.origin = entity.FromMapping
	value := func(i int) []byte {
		if i == n-1 {
			return []byte(`{"order":1}`)
		}
		return fmt.Appendf(nil, ` { "original_topic": "%s", "original_value": "{\"order\": %d}", "error": "declined" } `, s.topic, i)
	}
	s.fillWith(n, value)
	var envelopes []uuid.UUID
	var ordinary uuid.UUID
	for _, m := range check.Must(s.store.List(t.Context(), s.topic, repository.Page{Number: 1, Size: n}))(t).Messages {
		if strings.Contains(string(m.Record.Value), "original_topic") {
			envelopes = append(envelopes, m.ID)
		} else {
			ordinary = m.ID
		}
	}
	check.Require(t, len(envelopes) == n-1, "%d envelopes, want %d", len(envelopes), n-1)
	unchanged := func(when string) {
		t.Helper()
		for _, id := range envelopes {
			m := check.Must(s.store.Get(t.Context(), id, 0))(t)
			check.True(t, m.Status == entity.Pending && m.RetryCount == 0, "%s: %s is %s after %d attempts", when, id, m.Status, m.RetryCount)
		}
	}

	process := func(cfg redrive.Config) *redrive.Service {
		return redrive.New(cfg, stores.Fill[redrive.Stores](s.store), s.publisher, prometheus.NewRegistry(), zap.NewNop())
	}

	refused := check.As[*entity.RefusedError](t, check.Err(s.Retry(t.Context(), entity.RetryOrder{ID: envelopes[0], Cause: entity.By("tester")})), "Retry")
	check.Equal(t, refused.Class, entity.Envelope, "class of a retry")
	unchanged("after a retry")

	order := repository.NewRedrive{Action: entity.RedriveRetry, Selection: entity.Selection{IDs: envelopes}, Cause: entity.By("tester")}
	preview := check.Must(s.Preview(t.Context(), order))(t)
	check.True(t, preview.Sendable == 0 && preview.Reasons["ENVELOPE"] == len(envelopes), "dry run = %+v, want all of them skipped as ENVELOPE", preview)
	for patch, sendable := range map[string]int{`[{"op":"remove","path":"/error"}]`: len(envelopes), `[{"op":"add","path":"/a","value":1}]`: 0} {
		patched := order
		patched.Options.Patch = []byte(patch)
		preview := check.Must(s.Preview(t.Context(), patched))(t)
		check.True(t, preview.Sendable == sendable, "dry run with the patch %s = %+v, want %d sent", patch, preview, sendable)
	}
	r, err := s.finish(process(redrive.DefaultConfig()), check.Must(s.Begin(t.Context(), order))(t).ID)
	check.True(t, err == nil && r.Counts.Skipped == len(envelopes) && r.Counts.Reasons["ENVELOPE"] == len(envelopes), "redrive = %+v, %v", r.Counts, err)
	unchanged("after a redrive")

	cfg := redrive.DefaultConfig()
	cfg.Auto.Topics = []string{"redrive.*"}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { process(cfg).RunAuto(ctx); close(over) }()
	check.Eventually(s, "an automatic retry of the ordinary message, the newest", func() bool {
		m, err := s.store.Get(t.Context(), ordinary, 0)
		return err == nil && m.Status == entity.Resolved
	})
	stop()
	<-over
	unchanged("after automatic retry")

	r, err = s.finish(process(redrive.DefaultConfig()), s.begin().ID) // as retry-all does
	check.True(t, err == nil && r.Counts.Reasons["ENVELOPE"] == len(envelopes), "redrive of the topic = %+v, %v", r.Counts, err)
	unchanged("after a redrive of the topic")
	check.Equal(t, len(s.values(s.topic)), 1, "records before anyone accepted an envelope")

	check.Must(s.Retry(t.Context(), entity.RetryOrder{ID: envelopes[0], AcceptEnvelope: true, Cause: entity.By("tester")}))(t)
	trail := check.Must(s.store.Trail(t.Context(), repository.TrailQuery{ObjectID: envelopes[0], Action: entity.ActionAcceptEnvelope, Limit: 2}))(t)
	check.True(t, len(trail) == 1 && trail[0].Cause.Actor == "tester" && trail[0].To == s.topic, "audit trail = %+v", trail)
	order.Options.AcceptEnvelope = true
	order.Selection.IDs = envelopes[1:]
	begun := check.Must(s.Begin(t.Context(), order))(t)
	r, err = s.finish(process(redrive.DefaultConfig()), begun.ID) // a process that did not create the redrive reads its options from the store
	check.True(t, err == nil && r.Counts.Succeeded == n-2 && r.Options.AcceptEnvelope, "redrive that accepts envelopes = %+v, %v", r, err)
	sent := s.values(s.topic)
	for i := range n {
		check.Equal(t, sent[fmt.Sprint(i)], string(value(i)), "value of record %d", i)
	}
}
