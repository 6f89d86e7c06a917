package shop

import (
	"reflect"
	"testing"
	"time"
)

func TestScript(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1714554000000)
	t.Run("IsTheSameForTheSameSeed", func(t *testing.T) {
		t.Parallel()
		for n := range 60 {
			one, two := newScript(Config{Seed: 7}).record(n, at), newScript(Config{Seed: 7}).record(n, at)
			if !reflect.DeepEqual(one, two) {
				t.Fatalf("record %d = %+v, then %+v", n, one, two)
			}
		}
	})
	t.Run("DiffersBySeed", func(t *testing.T) {
		t.Parallel()
		one, two := newScript(Config{Seed: 1}).record(0, at), newScript(Config{Seed: 2}).record(0, at)
		if reflect.DeepEqual(one, two) {
			t.Error("two seeds make the same record")
		}
	})
	t.Run("KeysAreNeverUsedTwice", func(t *testing.T) {
		t.Parallel()
		seen := map[string]bool{}
		for n := range 3000 {
			key := string(newScript(DefaultConfig()).record(n, at).Key)
			if seen[key] {
				t.Fatalf("record %d has the key %s of an earlier one", n, key)
			}
			seen[key] = true
		}
	})
	t.Run("PutsThePrefixBeforeTopics", func(t *testing.T) {
		t.Parallel()
		if got := newScript(Config{Prefix: "a."}).record(0, at).Topic; got != "a."+OrdersTopic {
			t.Errorf("topic = %s, want a.%s", got, OrdersTopic)
		}
	})
}

func TestSpoil(t *testing.T) {
	t.Parallel()
	body := encode(paymentBody{ID: "PM-1", Amount: money(1290), Currency: "EUR"})
	for _, want := range []defect{sound, tombstone, notUTF8, truncated, amountIsText} {
		if got := read(spoil(body, want), new(paymentBody)); got != want {
			t.Errorf("defect %d reads as %d: %q", want, got, spoil(body, want))
		}
	}
}

func TestReadTakesANumberInQuotesForText(t *testing.T) {
	t.Parallel()
	if got := read([]byte(`{"amount":"12.90"}`), new(paymentBody)); got != amountIsText {
		t.Errorf("read = %d, want %d", got, amountIsText)
	}
}

func TestTotalIsWhatTheItemsCost(t *testing.T) {
	t.Parallel()
	items := []item{{Quantity: 2, UnitPrice: money(1805)}, {Quantity: 1, UnitPrice: money(99)}}
	if got := total(items); got != "37.09" {
		t.Errorf("total = %s, want 37.09", got)
	}
}
