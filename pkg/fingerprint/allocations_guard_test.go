package fingerprint

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/recordtest"
)

func TestAllocations(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	recordtest.Allocations(t, recordPaths(t))
}

func BenchmarkRecord(b *testing.B) { recordtest.Benchmark(b, recordPaths(b)) }

func recordPaths(tb testing.TB) []recordtest.Path {
	tb.Helper()
	maker, err := New(DefaultConfig())
	check.NoError(tb, err)
	const (
		class   = "org.example.PaymentDeclined"
		message = "the card 4711 of customer 550e8400-e29b-41d4-a716-446655440000 was declined by the bank"
		stack   = class + ": " + message + "\n" +
			"\tat org.example.Payments.charge(Payments.java:41)\n" +
			"\tat org.example.Orders.pay(Orders.java:112)\n" +
			"\tat org.springframework.kafka.listener.Container.run(Container.java:2001)\n" +
			"\tat java.base/java.lang.Thread.run(Thread.java:1583)\n" +
			"Caused by: java.net.SocketTimeoutException: Read timed out\n" +
			"\tat org.example.Bank.call(Bank.java:77)\n\t... 4 more\n"
	)
	return []recordtest.Path{
		{Name: "Fingerprint", Allocations: 3, Records: 1, Do: func() { maker.Fingerprint(class, message, "") }},
		{Name: "FingerprintOfStack", Allocations: 12, Records: 1, Do: func() { maker.Fingerprint(class, message, stack) }},
	}
}
