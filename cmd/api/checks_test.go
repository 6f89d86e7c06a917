package main

import (
	"errors"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestIngesterFault(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]error{"Stable": nil, "PreparingRebalance": nil, "Empty": errNoIngester, "Dead": errNoIngester, "": errNoIngester} {
		check.Is(t, ingesterFault(map[string]string{"g": state, "other": "Stable"}, nil, "g"), want, "state "+state)
	}
	check.Is(t, ingesterFault(nil, errors.New("no answer"), "g"), errUnknownIngester, "Kafka that does not answer")
}
