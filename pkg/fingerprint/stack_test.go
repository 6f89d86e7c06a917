package fingerprint

import (
	"slices"
	"testing"
)

// traces are stack traces of many languages and runtimes, with the frames that are expected in a fingerprint.
var traces = []struct {
	name, stack string
	frames      []string // the frames without configuration
}{
	{
		"Java", `java.lang.IllegalStateException: no stock
	at com.acme.orders.OrderService$1.run(OrderService.java:17)
	at app//com.acme.orders.OrderService.lambda$book$3(OrderService.java:42)
	at com.acme.orders.OrderService$$Lambda$14/0x0000000800c8.apply(Unknown Source)
	at com.acme.orders.OrderService$$EnhancerBySpringCGLIB$$1a2b.book(<generated>)
	at java.base/jdk.internal.reflect.GeneratedMethodAccessor12.invoke(Unknown Source)
	at org.springframework.kafka.listener.Container.run(Container.java:99)
	at com.acme.orders.Listener.on(Listener.java:7) ~[app.jar:1.2]
	Suppressed: java.io.IOException: x`,
		[]string{"com.acme.orders.OrderService$.run", "com.acme.orders.OrderService.lambda$book$", "com.acme.orders.Listener.on"},
	},
	{
		"JavaRootCause", `a.B: outer
	at com.acme.Outer.a(Outer.java:1)
Caused by: c.D: middle
	at com.acme.Middle.b(Middle.java:2)
	... 3 more
Caused by: java.net.ConnectException: refused
	at java.base/sun.nio.ch.Net.pollConnect(Native Method)
	... 9 more`,
		[]string{"com.acme.Middle.b"},
	},
	{
		"Kotlin", "x.Y: z\n\tat com.acme.OrdersKt.handle$lambda-4(Orders.kt:12)\n\tat kotlinx.coroutines.X.y(X.kt:1)\n\tat com.acme.OrdersKt$handle$2.invokeSuspend(Orders.kt:9)",
		[]string{"com.acme.OrdersKt.handle$lambda-", "com.acme.OrdersKt$handle$.invokeSuspend"},
	},
	{
		"Scala", "x.Y: z\n\tat com.acme.Orders$.$anonfun$handle$1(Orders.scala:12)\n\tat scala.util.Try$.apply(Try.scala:210)",
		[]string{"com.acme.Orders$.$anonfun$handle$"},
	},
	{
		"Python", `Traceback (most recent call last):
  File "/usr/lib/python3.12/asyncio/runners.py", line 118, in run
    return loop.run()
  File "/srv/app/orders/main.py", line 12, in main
    handle(m)
  File "/srv/app/orders/service.py", line 40, in handle
    raise NoStock(17)
  File "/srv/venv/lib/python3.12/site-packages/pydantic/main.py", line 1, in validate
orders.errors.NoStock: 17`,
		[]string{"orders/service.py handle", "orders/main.py main"},
	},
	{
		"PythonRootCause", `Traceback (most recent call last):
  File "/app/db.py", line 1, in query
KeyError: 'a'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/main.py", line 2, in main
ValueError: b`,
		[]string{"app/db.py query"},
	},
	{
		"Go", "panic: no stock\n\ngoroutine 17 [running]:\nruntime/debug.Stack()\n\t/usr/local/go/src/runtime/debug/stack.go:24 +0x65\npanic({0x1, 0x2})\n\t/usr/local/go/src/runtime/panic.go:884 +0x213\n" +
			"github.com/acme/orders.(*Service).Book(0xc0001, {0x1, 0x2})\n\t/app/service.go:42 +0x1d\ngithub.com/acme/orders.Run.func1.2()\n\t/app/run.go:7 +0x2\n" +
			"github.com/segmentio/kafka-go.(*Reader).run(0x1)\n\t/root/go/pkg/mod/github.com/segmentio/kafka-go@v0.4.47/reader.go:1 +0x1\ncreated by main.main in goroutine 1\n\t/app/main.go:3 +0x4",
		[]string{"github.com/acme/orders.(*Service).Book", "github.com/acme/orders.Run.func"},
	},
	{
		"GoErrors", "no stock\nmain.book\n\t/app/main.go:12\nmain.main\n\t/app/main.go:3\nruntime.main\n\t/usr/local/go/src/runtime/proc.go:250",
		[]string{"main.book", "main.main"},
	},
	{
		"Node", `TypeError: Cannot read properties of undefined (reading 'id')
    at Object.<anonymous> (/app/src/boot.js:1:2)
    at new Order (/app/src/order.js:3:4)
    at async OrderService.book [as handler] (file:///app/src/orders.js:42:13)
    at /app/src/anonymous.js:9:1
    at processTicksAndRejections (node:internal/process/task_queues:95:5)
    at Runner.processEachMessage (/app/node_modules/kafkajs/src/consumer/runner.js:231:20)
    at Array.map (<anonymous>)`,
		[]string{"src/boot.js", "src/order.js Order", "src/orders.js OrderService.book", "src/anonymous.js"},
	},
	{
		"DotNet", `System.AggregateException: One or more errors occurred. (boom)
 ---> System.InvalidOperationException: boom
   at Acme.Orders.OrderService.<BookAsync>d__5.MoveNext() in /src/OrderService.cs:line 42
   at System.Runtime.CompilerServices.TaskAwaiter.GetResult()
   at Acme.Orders.OrderService.<>c__DisplayClass5_0.<Find>b__0(Order o)
   --- End of inner exception stack trace ---
   at Acme.Orders.Outer.Handle(String id)`,
		[]string{"Acme.Orders.OrderService.<BookAsync>d__.MoveNext", "Acme.Orders.OrderService.<>c__DisplayClass_.<Find>b__"},
	},
	{
		"Ruby", "/app/lib/orders.rb:12:in 'Orders#book': no stock (NoStock)\n\tfrom /app/lib/orders.rb:7:in `block (2 levels) in handle'\n\tfrom /usr/local/bundle/gems/karafka-2.0/lib/runner.rb:1:in 'run'",
		[]string{"lib/orders.rb Orders#book", "lib/orders.rb handle"},
	},
	{
		"PHP", "#0 /app/src/Orders.php(12): Acme\\Orders->book(Object(Acme\\Order), 3)\n#1 [internal function]: Acme\\Orders->handle()\n#2 /app/vendor/x/y/Z.php(3): X\\Y\\Z->run()\n#3 {main}",
		[]string{`Acme\Orders->book`},
	},
	{
		"Rust", "thread 'main' panicked at src/main.rs:3:5:\nno stock\nstack backtrace:\n   0: rust_begin_unwind\n             at /rustc/9fc6/library/std/src/panicking.rs:645:5\n   1: orders::service::book::h0123456789abcdef\n             at /app/src/service.rs:12:9\n   2: orders::main::{{closure}}\n   3: core::ops::function::FnOnce::call_once\n",
		[]string{"orders::service::book", "orders::main::{{closure}}"},
	},
	{"NoTrace", "something went wrong\nat noon, somewhere", nil},
	{"OnlyTheFramework", "java.lang.NullPointerException\n\tat java.util.Objects.requireNonNull(Objects.java:1)", nil},
}

func TestFrames(t *testing.T) {
	t.Parallel()
	for _, c := range traces {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := newMaker(t, DefaultConfig()).Fingerprint("", "m", c.stack).Frames; !slices.Equal(got, c.frames) {
				t.Errorf("\n got %q\nwant %q", got, c.frames)
			}
		})
	}
}

func TestFrames_AreTheInnermostFive(t *testing.T) {
	t.Parallel()
	const java = "E\n\tat a.A.a(A.java:1)\n\tat a.A.b(A.java:1)\n\tat a.A.c(A.java:1)\n\tat a.A.d(A.java:1)\n\tat a.A.e(A.java:1)\n\tat a.A.f(A.java:1)"
	const python = "Traceback (most recent call last):\n File \"a.py\", line 1, in a\n File \"a.py\", line 1, in b\n File \"a.py\", line 1, in c\n File \"a.py\", line 1, in d\n File \"a.py\", line 1, in e\n File \"a.py\", line 1, in f\nE: x"
	for stack, want := range map[string][]string{
		java:   {"a.A.a", "a.A.b", "a.A.c", "a.A.d", "a.A.e"},
		python: {"a.py f", "a.py e", "a.py d", "a.py c", "a.py b"},
	} {
		if got := newMaker(t, DefaultConfig()).Fingerprint("E", "m", stack).Frames; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFrames_OfConfiguredPrefixesOnly(t *testing.T) {
	t.Parallel()
	m := newMaker(t, Config{Frames: []string{"com.acme.", "org.apache.kafka.connect.", "orders/"}})
	for stack, want := range map[string][]string{
		"E\n\tat com.other.A.a(A.java:1)\n\tat com.acme.B.b(B.java:2)\n\tat org.apache.kafka.connect.C.c(C.java:3)":   {"com.acme.B.b", "org.apache.kafka.connect.C.c"},
		"E: x\n    at f (/app/orders/deep/down/a.js:1:2)\n    at g (/app/other/b.js:1:2)\n    at h (orders/c.js:1:2)": {"down/a.js f", "orders/c.js h"},
		"E\n\tat com.other.A.a(A.java:1)": nil,
	} {
		if got := m.Fingerprint("E", "m", stack).Frames; !slices.Equal(got, want) {
			t.Errorf("Of(%q): got %q, want %q", stack, got, want)
		}
	}
}
