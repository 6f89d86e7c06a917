package shop

import (
	"testing"
	"time"
)

func TestWorld(t *testing.T) {
	t.Parallel()
	clock := time.UnixMilli(0)
	w := newWorld(Config{Outage: time.Minute, CatalogueLag: time.Second}, func() time.Time { return clock })
	w.open()
	expect := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s at %v = %v, want %v", what, clock.UTC().Format("04:05"), got, want)
		}
	}
	expect("another provider answers", w.answers("cardworks"), true)
	expect("the provider answers", w.answers(unreliableProvider), false)
	expect("an old product is listed", w.lists("P-100"), true)
	expect("a new product is listed", w.lists(newProduct(1)), false)

	clock = clock.Add(time.Second)
	expect("the product is listed after the lag", w.lists(newProduct(1)), true)
	expect("a newer one is listed", w.lists(newProduct(2)), false)
	expect("the provider answers", w.answers(unreliableProvider), false)

	w.recover()
	expect("the newer one is listed after recovery", w.lists(newProduct(2)), true)
	expect("the provider answers after recovery", w.answers(unreliableProvider), true)
	expect("a product without an earlier order is listed", w.lists(newProduct(3)), false)
}

func TestOutageEndsByItself(t *testing.T) {
	t.Parallel()
	clock := time.UnixMilli(0)
	w := newWorld(Config{Outage: time.Minute}, func() time.Time { return clock })
	w.open()
	clock = clock.Add(time.Minute)
	if !w.answers(unreliableProvider) {
		t.Error("the provider does not answer after the outage")
	}
}

func TestRecentForgetsTheOldest(t *testing.T) {
	t.Parallel()
	r := newRecent[int, string](2)
	for n := range 4 {
		r.put(n, "x")
		r.put(n, "y")
	}
	if _, ok := r.get(1); ok || len(r.values) != 2 || len(r.order) != 2 {
		t.Errorf("recent keeps %v in order %v, want the last two", r.values, r.order)
	}
	if got, _ := r.get(3); got != "y" {
		t.Errorf("get(3) = %q, want the latest value y", got)
	}
}

func TestConfigReportsEveryProblem(t *testing.T) {
	t.Parallel()
	err := Config{Partitions: 0, Burst: -1, Outage: -1, CatalogueLag: -1}.Validate()
	if err == nil {
		t.Fatal("Validate = nil, want problems")
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 6 {
		t.Errorf("Validate = %v, want six problems", err)
	}
}
