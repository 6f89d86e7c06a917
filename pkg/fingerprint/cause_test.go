package fingerprint

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestCauseIsWhatFailedFirst(t *testing.T) {
	t.Parallel()
	const listener = "Listener method 'public void com.example.shop.orders.OrderListener.onOrder(com.example.Order)' threw exception"
	for _, tt := range []struct{ name, class, message, stack, want string }{
		{name: "Plain", message: "no stock of article 7", want: "no stock of article 7"},
		{name: "Empty"},
		{name: "Unknown", message: entity.UnknownError, want: entity.UnknownError},
		{name: "OneLine", message: "cannot read:\n\tline 3 is cut\nmore", want: "cannot read: line 3 is cut"},

		{name: "Listener", message: listener + "; product P-NEW-7 is not in the catalogue", want: "product P-NEW-7 is not in the catalogue"},
		{name: "ListenerFailed", message: "Listener failed; timed out", want: "timed out"},
		{name: "ListenerAlone", message: listener, want: listener},
		{name: "ListenerOfNull", message: listener + "; null", want: listener + "; null"},
		{name: "Nested", message: listener + "; nested exception is java.lang.IllegalStateException: no stock", class: "java.lang.IllegalStateException", want: "no stock"},
		{name: "NestedTwice", message: "a; nested exception is b; nested exception is no stock", want: "no stock"},
		{
			name: "ClassesInFront", class: "java.util.concurrent.ExecutionException",
			message: "java.util.concurrent.ExecutionException: java.net.ConnectException: refused", want: "java.net.ConnectException: refused",
		},
		{name: "OtherClassInFrontStays", class: "ServiceError", message: "KeyError: 'sku'", want: "KeyError: 'sku'"},
		{name: "SentenceWithColon", class: "X", message: "order 7: no stock: none", want: "order 7: no stock: none"},
		{name: "Go", message: "handle order 7: store: dial tcp 10.0.0.1:5432: connect: connection refused", want: "handle order 7: store: dial tcp 10.0.0.1:5432: connect: connection refused"},

		{
			name: "Java", class: "org.example.OrderFailed", message: "cannot store the order",
			stack: "org.example.OrderFailed: cannot store the order\n\tat a.B.c(B.java:1)\nCaused by: a.Middle: between\n\tat a.B.c(B.java:2)\n" +
				"Caused by: java.net.ConnectException: Connection refused\n\tat a.B.c(B.java:3)\n\t... 3 more\n",
			want: "ConnectException: Connection refused",
		},
		{
			name: "JavaOfTheClass", class: "java.net.ConnectException", message: "Exiting WorkerSinkTask due to unrecoverable exception.",
			stack: "org.apache.kafka.connect.errors.ConnectException: Exiting\n\tat a.B.c(B.java:1)\nCaused by: java.net.ConnectException: Connection refused\n",
			want:  "Connection refused",
		},
		{
			name: "JavaWithoutText", class: "org.example.OrderFailed", message: "cannot store the order",
			stack: "org.example.OrderFailed: x\nCaused by: java.lang.NullPointerException: null\n\tat a.B.c(B.java:3)\n", want: "NullPointerException",
		},
		{
			name: "JavaWithoutTextOfTheClass", class: "java.lang.NullPointerException", message: "cannot store the order",
			stack: "x.Y: z\nCaused by: java.lang.NullPointerException\n\tat a.B.c(B.java:3)\n", want: "cannot store the order",
		},
		{
			name: "JavaSuppressed", class: "org.example.OrderFailed", message: "no stock",
			stack: "org.example.OrderFailed: no stock\n\tat a.B.c(B.java:1)\n\tSuppressed: a.C: closing\n\tCaused by: a.D: broken\n", want: "no stock",
		},
		{
			name: "JavaInTheMessage", message: "cannot store\nCaused by: java.io.IOException: disk full", want: "IOException: disk full",
		},
		{name: "JavaNoClass", message: "m", stack: "x\nCaused by: something else\n", want: "m"},
		{
			name: "Net", class: "System.AggregateException", message: "One or more errors occurred.",
			stack: "System.AggregateException: One or more errors occurred.\n ---> System.TimeoutException: no answer\n   at A.B()\n   --- End of inner exception stack trace ---\n   at C.D()",
			want:  "TimeoutException: no answer",
		},
		{
			name: "PythonChain", class: "shop.OrderError", message: "order 7 failed",
			stack: "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'sku'\n\n" + pythonCause +
				"\n\nTraceback (most recent call last):\n  File \"a.py\", line 3, in g\nshop.OrderError: order 7 failed\n",
			want: "KeyError: 'sku'",
		},
		{
			name: "PythonHandlerFailed", class: "shop.OrderError", message: "order 7 failed",
			stack: "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'sku'\n\n" + pythonContext +
				"\n\nTraceback (most recent call last):\n  File \"a.py\", line 3, in g\nshop.OrderError: order 7 failed\n",
			want: "order 7 failed",
		},
		{
			name: "PythonStackAlone", message: entity.UnknownError,
			stack: "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'sku'\n", want: "KeyError: 'sku'",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Cause(tt.class, tt.message, tt.stack)
			check.Equal(t, got, tt.want, "Cause")
			check.Equal(t, Cause(tt.class, got, ""), got, "Cause of the cause")
		})
	}
}

// A change of the title must not change the id of a stored error group: even if the title comes only from the cause,
// the id is computed from the whole message.
func TestGroupIsOfTheMessageAlsoWhereTheTitleIsTheCause(t *testing.T) {
	t.Parallel()
	m := check.Must(New(DefaultConfig()))(t)
	const class, message = "org.example.OrderFailed", "cannot store the order 7"
	f := m.Fingerprint(class, message, "x.Y: z\nCaused by: java.net.ConnectException: no route to shop-7f3a9c21\n")
	check.Equal(t, f.Title, "ConnectException: no route to shop-<hex>", "Title")
	check.Equal(t, f.ID(), entity.Fingerprint{Class: class, Title: "cannot store the order <n>"}.ID(), "ID")
}
