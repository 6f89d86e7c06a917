package fingerprint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func newMaker(t testing.TB, cfg Config) *Fingerprinter {
	t.Helper()
	m, err := New(cfg)
	check.NoError(t, err)
	return m
}

type failure struct{ class, message, stack string }

func TestOf_TheSameCauseIsTheSameGroup(t *testing.T) {
	t.Parallel()
	java := func(line, lambda int, cause string) string {
		return fmt.Sprintf(`org.springframework.kafka.listener.ListenerExecutionFailedException: Listener failed
	at org.springframework.kafka.listener.KafkaMessageListenerContainer.invoke(KafkaMessageListenerContainer.java:%d)
	at java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.lang.IllegalStateException: order %s
	at com.acme.orders.OrderService.lambda$book$%d(OrderService.java:%d)
	at java.base/java.util.Optional.orElseThrow(Optional.java:403)
	at com.acme.orders.OrderService.book(OrderService.java:%d)
	... 12 more`, line, cause, lambda, line, line)
	}
	for name, same := range map[string][]failure{
		"OtherIDs": {
			{"E", "order 1 of 550e8400-e29b-41d4-a716-446655440000 at 10.0.0.1:9092", ""},
			{"E", "order 4711 of 00000000-0000-0000-0000-000000000001 at 192.168.7.12:19092", ""},
		},
		"OtherTimes": {
			{"E", "timed out at 2026-11-21T10:00:00Z after 500ms", ""},
			{"E", "timed out at 2025-01-02 03:04:05,678 +0100 after 1.5s", ""},
		},
		"OtherLengthOfALists": {{"E", "ids [1] gone", ""}, {"E", "ids [1, 22, 333] gone", ""}},
		"OtherSpace":          {{"E", "no  stock\n", ""}, {" E ", " no stock", ""}},
		"OtherDetailsBelow":   {{"E", "no stock\nof 17", ""}, {"E", "no stock\nof socks", ""}},
		"OtherLinesAndLambdas": {
			{"java.lang.IllegalStateException", "order 1", java(10, 3, "1")},
			{"java.lang.IllegalStateException", "order 2", java(99, 12, "2")},
		},
		"TheWrappersCause": {
			{"java.lang.IllegalStateException", "order 1", java(10, 3, "1")},
			{"org.springframework.kafka.listener.ListenerExecutionFailedException", "order 1", java(10, 3, "1")},
			{"", "order 1", java(10, 3, "1")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMaker(t, DefaultConfig())
			first := m.Fingerprint(same[0].class, same[0].message, same[0].stack)
			for _, f := range same[1:] {
				if got := m.Fingerprint(f.class, f.message, f.stack); got.ID() != first.ID() {
					t.Errorf("got %+v, want the group of %+v", got, first)
				}
			}
		})
	}
}

func TestOf_OtherCausesAreOtherGroups(t *testing.T) {
	t.Parallel()
	const at = "E: x\n\tat com.acme.%s(A.java:1)"
	m := newMaker(t, DefaultConfig())
	seen := map[string]failure{}
	for _, f := range []failure{
		{"E", "order 1 not found", ""},
		{"F", "order 1 not found", ""},
		{"", "order 1 not found", ""},
		{"E", "order 1 not paid", ""},
		{"E", "order not found", ""},
		{"E", "upstream said HTTP 404", ""},
		{"E", "upstream said HTTP 503", ""},
		{"E", "ORA-00942: no", ""},
		{"E", "ORA-00001: no", ""},
		{"E", "order 1 not found", fmt.Sprintf(at, "A.a")},
		{"E", "order 1 not found", fmt.Sprintf(at, "A.b")},
		{"E", "", ""},
		{"", "", ""},
	} {
		id := m.Fingerprint(f.class, f.message, f.stack).ID().String()
		if other, known := seen[id]; known {
			t.Errorf("got one group for %q and %q, want two", other, f)
		}
		seen[id] = f
	}
}

func TestOf_Class(t *testing.T) {
	t.Parallel()
	const caused = "java.lang.RuntimeException: a\n\tat x.Y.z(Y.java:1)\nCaused by: java.io.IOException: b\nCaused by: java.net.ConnectException\n\tat x.Y.z(Y.java:2)"
	for name, c := range map[string]struct{ class, stack, want string }{
		"AsGiven":               {"com.acme.NoStock", caused, "com.acme.NoStock"},
		"OfTheRootCause":        {"java.lang.RuntimeException", caused, "java.net.ConnectException"},
		"WhenNobodySaid":        {"", caused, "java.net.ConnectException"},
		"AWrapperWithoutStack":  {"java.lang.RuntimeException", "", "java.lang.RuntimeException"},
		"AWrapperWithoutCauses": {"java.lang.RuntimeException", "java.lang.RuntimeException: x\n\tat a.B.c(B.java:1)", "java.lang.RuntimeException"},
		"DotNet":                {"System.AggregateException", "System.AggregateException: One\n ---> System.IO.IOException: two\n   at A.B()", "System.IO.IOException"},
		"JavaHead":              {"", "java.lang.IllegalStateException: x\n\tat a.B.c(B.java:1)", "java.lang.IllegalStateException"},
		"PythonTail":            {"", "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    x()\norders.errors.NoStock: 17", "orders.errors.NoStock"},
		"ScriptHead":            {"", "TypeError: x is not a function\n    at f (/app/a.js:1:2)", "TypeError"},
		"Nothing":               {"", "something went wrong: see above", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := newMaker(t, DefaultConfig()).Fingerprint(c.class, "m", c.stack).Class; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestOf_Rules(t *testing.T) {
	t.Parallel()
	m := newMaker(t, Config{Rules: []Rule{
		{Name: "payment", Pattern: `(?i)payment (\w+) by (?P<who>\w+)`, Title: "payment $1 (${who})"},
		{Name: "late", Pattern: `payment`, Title: "never: the one before won"},
		{Name: "bare", Pattern: `^bare`},
	}})
	const stack = "E: x\n\tat com.acme.A.b(A.java:1)"
	for _, c := range []struct{ message, rule, title string }{
		{"order 17: Payment refused by acme42", "payment", "payment refused (acme42)"},
		{"no payment", "late", "never: the one before won"},
		{"bare 17", "bare", "bare"},
		{"order 17", "", "order <n>"},
	} {
		got := m.Fingerprint("E", c.message, stack)
		if got.Rule != c.rule || got.Title != c.title || got.Class != "E" || (c.rule == "") != (len(got.Frames) > 0) {
			t.Errorf("Of(%q) = %+v, want rule %q, title %q, and no frames with a rule", c.message, got, c.rule, c.title)
		}
	}
}

func TestConfig_NamesEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := New(Config{
		Rules:  []Rule{{Name: "a", Pattern: "("}, {Name: "a", Pattern: "x"}, {Pattern: ""}},
		Frames: []string{"com.acme.", " "},
	})
	for _, want := range []string{
		"groups.rules[0].pattern", `groups.rules[1].name "a" is there twice`, "groups.rules[2].name is empty",
		"groups.rules[2].pattern is empty", "groups.frames[1] is empty",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("default: got %v, want nil", err)
	}
}

func FuzzOf(f *testing.F) {
	for _, c := range traces {
		f.Add("", "boom 17", c.stack)
	}
	f.Add("java.lang.RuntimeException", "x\n\ty", "Caused by: ---> Caused by: a.B\n#1 \n3: a\n at (")
	m := newMaker(f, Config{Rules: []Rule{{Name: "r", Pattern: "rule(.*)", Title: "$1"}}})
	f.Fuzz(func(t *testing.T, class, message, stack string) {
		got := m.Fingerprint(class, message, stack)
		texts := append([]string{got.Class, got.Title}, got.Frames...)
		for _, text := range texts {
			if len(text) > 2*maxClass || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\n") {
				t.Errorf("Of(%q, %q, %q) has the text %q", class, message, stack, text)
			}
		}
		if len(got.Frames) > maxFrames || got.ID() != m.Fingerprint(class, message, stack).ID() {
			t.Errorf("Of(%q, %q, %q) = %+v", class, message, stack, got)
		}
	})
}

func BenchmarkOf(b *testing.B) {
	m := newMaker(b, DefaultConfig())
	stack := "java.lang.IllegalStateException: x\n" +
		strings.Repeat("\tat org.springframework.kafka.listener.Container.invoke(Container.java:12)\n", 60) +
		"Caused by: java.lang.IllegalStateException: y\n\tat com.acme.A.b(A.java:1)\n\tat com.acme.A.c(A.java:2)\n\t... 60 more\n"
	b.ReportAllocs()
	for b.Loop() {
		m.Fingerprint("java.lang.IllegalStateException", "order 4711 not found", stack)
	}
}

func TestOf_IsLinear(t *testing.T) {
	t.Parallel()
	m := newMaker(t, DefaultConfig())
	for _, line := range []string{
		"Caused by: \n", "Caused by: a.B\n", "---> \n", "--- End of inner exception\n", "Traceback (most recent call last)\n", "at a(\n", "at \n", "#1 x: \n",
		"1: a::b\n", "a.b()\n\tx.go:1\n", "x.rb:1:in in in in \n", "File \"x\", line 1, in f\n", "((((((\n\t.go:\n", "))))))))\n\ta.go:1\n", "\n", "at $$$$.$$$.\n",
	} {
		stack := strings.Repeat(line, maxStack/len(line))
		for range 5 {
			if got := m.Fingerprint("", "x", stack); len(got.Frames) > maxFrames {
				t.Errorf("%q: got %d frames", line, len(got.Frames))
			}
		}
	}
}

func TestOf_NothingIsShared(t *testing.T) {
	t.Parallel()
	m := newMaker(t, DefaultConfig())
	const stack = "E\n\tat com.acme.A.b(A.java:1)"
	a := m.Fingerprint("E", "m", stack)
	a.Frames[0] = "changed"
	if got := m.Fingerprint("E", "m", stack).Frames; !slices.Equal(got, []string{"com.acme.A.b"}) {
		t.Errorf("got %q, want [com.acme.A.b]", got)
	}
}
