package redrive

import (
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/auto"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/outcomes"
)

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	check.Equal(t, DefaultConfig().Validate(), nil, "DefaultConfig().Validate()")
	err := Config{Workers: -1, ClaimExpiry: time.Second, ConsumerGroups: []outcomes.Rule{{Topic: "*"}}, Auto: auto.Config{Topics: []string{"fine", "a b", "^no end"}, BackoffMax: -1, MaxReturnShare: 1.1}}.Validate()
	for _, key := range []string{
		"workers:", "claim_expiry:", "settle_interval:", "stuck_after:", "outcome_interval:", "consumer_groups[0].group:", `auto.topics: "a b"`, `auto.topics: "^no end"`,
		"auto.batch:", "auto.parallelism:", "auto.idle_sleep:", "auto.backoff:", "auto.backoff_max:", "auto.max_return_share:",
	} {
		check.True(t, err != nil && strings.Contains(err.Error(), key), "Validate = %v, want a line about %s", err, key)
	}
}
