package browser

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
)

func TestMain(m *testing.M) { stacktest.Main(Closing(m)) }
