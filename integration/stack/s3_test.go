package stack

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestS3_KeepsItsAddressWhenItIsKilled(t *testing.T) {
	t.Parallel()
	s := check.Must(StartS3(patient(t)))(t)
	t.Cleanup(func() { check.NoError(t, s.Stop()) })
	check.NoError(t, s.Kill())
	check.True(t, Ping(t.Context(), s.Endpoint+"/health") != nil, "the killed server answers")
	check.NoError(t, s.Restart(t.Context()))
	check.NoError(t, Ping(t.Context(), s.Endpoint+"/health"))
}
