package stack

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestOpenSearch_KeepsItsAddressWhenItIsKilled(t *testing.T) {
	t.Parallel()
	s := check.Must(StartOpenSearch(patient(t)))(t)
	t.Cleanup(func() { check.NoError(t, s.Stop()) })
	check.NoError(t, s.Kill())
	check.True(t, Ping(t.Context(), s.Address+recovered) != nil, "the killed node answers")
	check.NoError(t, s.Restart(patient(t)))
	check.NoError(t, Ping(t.Context(), s.Address+recovered))
}
