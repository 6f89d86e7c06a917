package redrive

import (
	"strings"
	"testing"
	"time"
)

func TestBackoffAfter(t *testing.T) {
	t.Parallel()
	b := Backoff{Base: 2 * time.Second, Max: 256 * time.Second, Jitter: 0.1}
	cases := []struct {
		name    string
		attempt int
		random  float64
		want    time.Duration
	}{
		{"FirstWaitsTheBase", 1, 0.5, 2 * time.Second},
		{"EachDoubles", 2, 0.5, 4 * time.Second},
		{"EighthIsTheLongest", 8, 0.5, 256 * time.Second},
		{"StaysAtTheLongest", 9, 0.5, 256 * time.Second},
		{"HugeNumbersDoNotOverflow", 1 << 30, 0.5, 256 * time.Second},
		{"NumbersBelowOneAreTheFirst", 0, 0.5, 2 * time.Second},
		{"JitterTakesATenth", 1, 0, 1800 * time.Millisecond},
		{"JitterAddsATenth", 1, 1, 2200 * time.Millisecond},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := b.After(c.attempt, c.random); got != c.want {
				t.Errorf("After(%d, %v) = %s, want %s", c.attempt, c.random, got, c.want)
			}
		})
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("DefaultConfig().Validate() = %v, want nil", err)
	}
	err := Config{Workers: -1, ClaimExpiry: time.Second, ConsumerGroups: []GroupRule{{Topic: "*"}}, Auto: Auto{Topics: []string{"fine", "a b", "^no end"}, BackoffMax: -1}}.Validate()
	for _, key := range []string{
		"workers:", "claim_expiry:", "settle_interval:", "stuck_after:", "outcome_interval:", "consumer_groups[0].group:", `auto.topics: "a b"`, `auto.topics: "^no end"`,
		"auto.batch:", "auto.parallelism:", "auto.idle_sleep:", "auto.backoff:", "auto.backoff_max:",
	} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("Validate = %v, want a line about %s", err, key)
		}
	}
}
