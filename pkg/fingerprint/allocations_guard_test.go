package fingerprint

import (
	"testing"
)

// recordPath is work that is done for every record. most is what it may allocate,
// for one of the records that do works on.
type recordPath struct {
	name    string
	most    float64
	records int
	do      func()
}

// TestAllocations keeps the paths of a record from allocating more than they have
// to. The count is the same on every machine; when it changes on purpose, change
// it here.
func TestAllocations(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	for _, path := range recordPaths(t) {
		got := testing.AllocsPerRun(100, path.do) / float64(path.records)
		t.Logf("%s: %.2f allocations a record", path.name, got)
		if got > path.most {
			t.Errorf("%s: allocations of a record = %.2f, want at most %.2f", path.name, got, path.most)
		}
	}
}

func recordPaths(tb testing.TB) []recordPath {
	tb.Helper()
	maker, err := New(DefaultConfig())
	if err != nil {
		tb.Fatal(err)
	}
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
	return []recordPath{
		{"Fingerprint", 4, 1, func() { maker.Of(class, message, "") }},
		{"FingerprintOfStack", 11, 1, func() { maker.Of(class, message, stack) }},
	}
}
