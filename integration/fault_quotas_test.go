package integration_test

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestFaultQuotas: the brokers throttle both programs, for longer than sending a record may take. Ingest and a redrive are slow,
// no attempt fails or is in doubt, and nothing is lost or doubled.
func TestFaultQuotas(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	for _, p := range s.permissions() {
		s.kafka.grant(p.acl)
	}
	const value = 2_000
	n := pick(600, 2500) // more than one batch of the redrive
	s.kafka.limit(s.userOf("dlq-ingester"), "consumer_byte_rate", 100_000)
	s.kafka.limit(s.userOf("dlq-api"), "producer_byte_rate", 60_000)
	var records []*kgo.Record
	for range n {
		r := s.letter()
		r.Value = make([]byte, value) // random, because the test's client compresses
		for i := range r.Value {
			r.Value[i] = byte(s.random.Uint32())
		}
		records = append(records, r)
	}
	ingester, api := s.startReady("ingester", s.environ(s.certify("dlq-ingester"))...), s.startReady("api", s.environ(s.certify("dlq-api"), "DLQ_KAFKA_REPUBLISH_TIMEOUT=2s")...)
	heard := map[*process]ear{ingester: ingester.listen(), api: api.listen()}
	began := time.Now()
	for some := range slices.Chunk(records, 200) { // a batch that is larger than the quota of ten seconds can never be fetched
		s.kafka.produce(some...)
	}
	eventually(t, "every record is stored", func() bool {
		check.Equal(t, ingester.status("/readyz"), 200, "the ingester is ready")
		return s.count("true") >= n
	})
	t.Logf("%d records of %d bytes were stored in %s", n, value, time.Since(began))
	check.True(t, time.Since(began) > 2*time.Second, "the brokers did not throttle the ingester")
	began = time.Now()
	got := s.finished(api, s.begin(api))
	check.Equal(t, got.Succeeded, n, "messages sent by the redrive")
	t.Logf("and sent back in %s", time.Since(began))
	check.True(t, time.Since(began) > 5*time.Second, "the brokers did not throttle the API")
	var troubles []string // a settled attempt was in doubt before
	check.NoError(t, s.db.Select(&troubles, `SELECT DISTINCT verdict || ' ' || coalesce(error_class, '') FROM dlq.attempts
		WHERE verdict NOT IN ('acknowledged', 'given_back') OR error_class = 'ALREADY_PUBLISHED'`))
	check.Equal(t, len(troubles), 0, "attempts that failed or were in doubt: %q", troubles)
	s.wantStoredOnce()
	s.wantResolvedOnce()
	for program, ear := range heard {
		about := ear.said("share groups cannot be read")
		check.Equal(t, ear.said(`"level":"warn"`)+ear.said(`"level":"error"`)-about, 0, "warnings of "+program.name)
	}
}

// limit sets a quota of a user.
func (c *cluster) limit(user, quota string, value float64) {
	c.t.Helper()
	entity := kmsg.NewAlterClientQuotasRequestEntryEntity()
	entity.Type, entity.Name = "user", &user
	op := kmsg.NewAlterClientQuotasRequestEntryOp()
	op.Key, op.Value = quota, value
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	entry.Entity, entry.Ops = []kmsg.AlterClientQuotasRequestEntryEntity{entity}, []kmsg.AlterClientQuotasRequestEntryOp{op}
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Entries = append(req.Entries, entry)
	res, err := req.RequestWith(c.t.Context(), c.client)
	check.Require(c.t, err == nil && res.Entries[0].ErrorCode == 0, "set %s of %s: %+v, %v", quota, user, res, err)
}
