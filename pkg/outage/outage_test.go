package outage

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestReport(t *testing.T) {
	t.Parallel()
	core, lines := observer.New(zap.DebugLevel)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refused := errors.New("refused")
	var l Log
	for _, try := range []struct {
		ctx context.Context
		err error
	}{
		{t.Context(), nil},
		{ended, refused},
		{t.Context(), refused},
		{t.Context(), refused},
		{ended, nil},
		{t.Context(), nil},
		{t.Context(), nil},
		{t.Context(), refused},
	} {
		l.Report(try.ctx, zap.New(core), try.err, "lost", "back")
	}
	var got []string
	for _, line := range lines.All() {
		got = append(got, line.Level.String()+" "+line.Message)
	}
	if want := []string{"warn lost", "info back", "warn lost"}; !slices.Equal(got, want) {
		t.Errorf("lines = %q, want %q", got, want)
	}
}
