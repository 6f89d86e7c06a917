package integration_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/proxy"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// The names that nameChange returns for the statements of a retry.
const (
	claimChange  = "claim"
	resultChange = "result"
	otherChange  = "other change"
)

// nameChange returns a name for a statement by which the API changes rows; "" for any other statement.
func nameChange(text string) string {
	switch {
	case strings.Contains(text, "UPDATE dlq.dlq_messages") && strings.Contains(text, "'RESOLVED'"):
		return resultChange
	case strings.Contains(text, "UPDATE dlq.dlq_messages") && strings.Contains(text, "claim_expires_at ="):
		return claimChange
	case strings.Contains(text, "UPDATE dlq."), strings.Contains(text, "INSERT INTO dlq."):
		return otherChange
	default:
		return ""
	}
}

// TestFaultCommitAnswersLost: PostgreSQL commits a claim or a result, but its answer to the API is lost, or the
// connection breaks so that the API cannot know whether the commit happened. Every message is still published exactly
// once.
func TestFaultCommitAnswersLost(t *testing.T) {
	t.Parallel()
	where := postgrestest.URL(t)
	database := newProxy(t, proxy.Statements(nameChange))
	database.To(hostOf(t, where))
	l := newLetters(newSystemOn(t, stacktest.Kafka(t), where))
	api := l.startReady("api", impatient("DLQ_REDRIVE_WORKERS=2", "DLQ_DATABASE_READ_TIMEOUT=2s", databaseBy(database))...)
	luck := newChance(l)

	least := map[string]int{"claim committed, not heard of": pick(1, 4), "result committed, not heard of": pick(3, 20), "cut off": pick(2, 10)}
	for round := 0; round < pick(6, 20) && !luck.enough(least); round++ {
		l.stored(3000)
		var claimed atomic.Int64
		point := 2 + int64(l.random.IntN(4))
		database.Decide(func(what string) proxy.Action {
			n := int64(0)
			if what == claimChange {
				n = claimed.Add(1)
			}
			// If the answer to a claim is lost, the retry of all messages ends, or the batch waits until the claim has
			// expired. So only one claim loses its answer. The API repeats a statement that stores a result after a
			// lost answer. So many of these answers may be lost, but not too many in a row.
			if n == point || what == resultChange && luck.of(2) || what == otherChange && luck.of(5) {
				return luck.loseCommit(what)
			}
			return proxy.Pass()
		})
		l.awaitBroken(l.retryAll(api))
		database.Decide(nil)
		l.wantNoFalseSuccess()
	}
	l.redrivesOver() // so that these redrives claim no message that is retried alone below
	least["retry succeeded"], least["retry not confirmed"] = 1, 1
	// Several rounds are necessary to see a failed retry, because the API repeats most statements whose answer is lost.
	for round := 0; round < 6 && !luck.enough(least); round++ {
		l.stored(100)
		database.Decide(func(what string) proxy.Action {
			if luck.of(3) {
				return luck.loseCommit(what)
			}
			return proxy.Pass()
		})
		l.clickUnderLosses(api, luck, 30)
		database.Decide(nil)
	}
	luck.wantCounted(t, least)
	l.retryTheRest(api)
	l.wantResolvedOnce()
	l.wantStoredOnce()
	api.wantRunning()
}

// clickUnderLosses retries n messages with one request each, all at the same time. After an answer of success, the
// record must be in the original topic; after an error, the record may be there or not.
func (l *letters) clickUnderLosses(api *process, luck *chance, n int) {
	l.t.Helper()
	answers := l.clicks(l.somePending(n), api)
	published := l.published()
	for _, a := range answers {
		if a.status != 200 {
			luck.count("retry not confirmed")
			wantUnavailable(l.t, a.answer, "retry", 503)
			continue
		}
		luck.count("retry succeeded")
		if published[a.id] != 1 || l.state(a.id).Status != "RESOLVED" {
			l.t.Errorf("retry of %s = 200 with %d records and status %s, want one and RESOLVED", a.id, published[a.id], l.state(a.id).Status)
		}
	}
}

// loseCommit returns an action of the proxy for a statement. The action lets PostgreSQL commit and drops the answer,
// with or without breaking the connection; or it breaks the connection so early that PostgreSQL may or may not commit.
func (c *chance) loseCommit(what string) proxy.Action {
	switch c.intN(8) {
	case 0, 1:
		c.count("cut off")
		return proxy.Cut()
	case 2:
		c.count("cut off")
		return proxy.CutAtAnswer(nil)
	case 3:
		c.count(what + " in a black hole")
		return proxy.BlackHole()
	default:
		c.count(what + " committed, not heard of")
		return proxy.CutAtAnswer(proxy.ReadyForQuery())
	}
}
