package config

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestLoadReadsTheProcessEnvironment(t *testing.T) {
	t.Setenv("DLQ_APP_NAME", "from-process")
	cfg, _, err := Load("testdata/no-sections.yaml", "DLQ_", defaults())
	check.NoError(t, err)
	if got, want := cfg.App.Name, "from-process"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
