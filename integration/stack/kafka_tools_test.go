package stack

import (
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestKafkaToolRunsWithTheBrokersJars(t *testing.T) {
	t.Parallel()
	cmd, err := KafkaTool(t.Context(), 64, "org.apache.kafka.tools.ProducerPerformance", "--help")
	check.NoError(t, err)
	out, _ := cmd.CombinedOutput() // --help exits with 1
	if !strings.Contains(string(out), "--payload-file") {
		t.Errorf("the tool's help has no --payload-file:\n%s", out)
	}
}
