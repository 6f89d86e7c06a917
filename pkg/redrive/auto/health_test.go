package auto

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	at, other := attempt.TopicPartition{Topic: orders, Partition: 1}, attempt.TopicPartition{Topic: orders, Partition: 2}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const last = true
	admits := func(t *testing.T, h *health, at attempt.TopicPartition, last bool, after time.Duration, want bool) {
		t.Helper()
		if ok, until := h.admit(at, last, now.Add(after)); ok != want || !ok && !until.After(now.Add(after)) {
			t.Errorf("admit(last %t) after %s = %t, %s, want %t", last, after, ok, until, want)
		}
	}
	for name, check := range map[string]func(t *testing.T, h *health){
		"WhatIsWellTakesEverything": func(t *testing.T, h *health) {
			h.failed(at, now)
			admits(t, h, other, last, 0, true)
			admits(t, h, other, last, 0, true)
		},
		"RestsLongerAfterEachFailureAndIsProbedByOne": func(t *testing.T, h *health) {
			after := time.Duration(0)
			for _, rest := range []time.Duration{1800, 3600, 7200, 14400, 27000, 27000} {
				h.failed(at, now.Add(after))
				admits(t, h, at, false, after+rest*time.Millisecond-1, false)
				after += rest * time.Millisecond
				admits(t, h, at, false, after, true)
				admits(t, h, at, false, after, false)
			}
		},
		"BatchesThatFailTogetherFailOnce": func(t *testing.T, h *health) {
			h.failed(at, now)
			h.failed(at, now.Add(time.Second))
			admits(t, h, at, false, 1800*time.Millisecond, true)
		},
		"SuccessEndsTheTrouble": func(t *testing.T, h *health) {
			h.failed(at, now)
			check.True(t, h.accepted(at) && !h.accepted(at), "accepted is not news once, want that")
			admits(t, h, at, last, 0, true)
		},
		"LastAttemptsWaitForPatienceAndAreRiskedOneByOne": func(t *testing.T, h *health) {
			h.failed(at, now)
			admits(t, h, at, last, 255*time.Second, false)
			admits(t, h, at, last, 256*time.Second, true)
			h.failed(at, now.Add(257*time.Second))
			admits(t, h, at, false, 300*time.Second, true)
			h.failed(at, now.Add(301*time.Second))
			admits(t, h, at, last, 511*time.Second, false)
			admits(t, h, at, last, 512*time.Second, true)
		},
		"AMissingLeaderExplainsFailures": func(t *testing.T, h *health) {
			h.failed(at, now)
			until := h.missing(at, now.Add(10*time.Second))
			admits(t, h, at, last, until.Sub(now), true)
		},
		"AProbeThatWasNotSentMakesRoomForAnother": func(t *testing.T, h *health) {
			h.failed(at, now)
			admits(t, h, at, false, 2*time.Second, true)
			h.endProbe(at, now.Add(2*time.Second))
			admits(t, h, at, false, 2*time.Second, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, newHealth(wait.Backoff{Base: 2 * time.Second, Max: 256 * time.Second, Jitter: 0.1}))
		})
	}
}
