package fingerprint

import (
	"testing"
)

// recordPath is work that is done for every record. measured is how often it
// allocates, for one of the records that do works on.
type recordPath struct {
	name     string
	measured float64
	records  int
	do       func()
}

// TestAllocations keeps the paths of a record from allocating more than they have
// to, and the number here from falling behind what they do: room that nobody needs
// lets the next growth through. The count is the same on every machine.
func TestAllocations(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	for _, path := range recordPaths(t) {
		got := testing.AllocsPerRun(100, path.do) / float64(path.records)
		t.Logf("%s: %.2f allocations a record", path.name, got)
		spare := 0.5
		if path.records > 1 {
			spare = 0.05 // what is made once for all of them is shared
		}
		if got > path.measured+spare {
			t.Errorf("%s: allocations of a record = %.2f, want at most %.2f", path.name, got, path.measured+spare)
		}
		if got < path.measured-1 {
			t.Errorf("%s: allocations of a record = %.2f, lower the bound: it stands at %.2f", path.name, got, path.measured)
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
		{"Fingerprint", 3, 1, func() { maker.Of(class, message, "") }},
		{"FingerprintOfStack", 9, 1, func() { maker.Of(class, message, stack) }},
	}
}
