// Package check contains the assertions that most tests need. A failure names the line of the caller.
package check

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// True fails the test with the message unless ok.
func True(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// Require ends the test with the message unless ok.
func Require(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}

// Equal fails the test when got differs from want, by reflect.DeepEqual.
func Equal[T any](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf(what+" = %+v, want %+v", append(args, got, want)...)
	}
}

// Is fails the test unless errors.Is(err, want).
func Is(t testing.TB, err, want error, what string, args ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf(what+" = %v, want %v", append(args, err, want)...)
	}
}

// As returns the error of type E in err, and ends the test if there is none.
func As[E error](t testing.TB, err error, what string) E {
	t.Helper()
	var is E
	if !errors.As(err, &is) {
		t.Fatalf("%s = %v, want a %T", what, err, is)
	}
	return is
}

// Eventually repeats ok every 20 ms until it is true, and ends the test after 10,000 calls, which are more than three
// minutes, because tests with large records take one minute on a busy machine.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for range 10_000 {
		if ok() {
			return
		}
		<-ticker.C
	}
	t.Fatalf("never came: %s", what)
}

// NoError ends the test if err is not nil.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must is for the preparation of a test: Must(f())(t) returns the value of f, and ends the test if f returns an error.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return v
	}
}

// Err returns the error of a call with two results.
func Err[T any](_ T, err error) error { return err }

// Same fails the test as Equal does, except that nil equals an empty slice or map.
func Same[T any](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if !isEmpty(got) || !isEmpty(want) {
		Equal(t, got, want, what, args...)
	}
}

func isEmpty(v any) bool {
	r := reflect.ValueOf(v)
	return (r.Kind() == reflect.Slice || r.Kind() == reflect.Map) && r.Len() == 0
}

// Len fails the test unless the slice or map has want elements.
func Len(t testing.TB, list any, want int, what string, args ...any) {
	t.Helper()
	if n := reflect.ValueOf(list).Len(); n != want {
		t.Errorf("%s: %d elements, want %d: %+v", fmt.Sprintf(what, args...), n, want, list)
	}
}

// Says fails the test unless err contains the text.
func Says(t testing.TB, err error, text, what string, args ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s = %v, want an error with %q", fmt.Sprintf(what, args...), err, text)
	}
}

// Each calls the function of for each element of the list, and returns the results in the same order.
func Each[E, V any](list []E, of func(E) V) []V {
	var values []V
	for _, e := range list {
		values = append(values, of(e))
	}
	return values
}

// FirstDifference returns the first index at which a and b differ. If one list is the beginning of the other, the
// result is the length of the shorter list.
func FirstDifference[T comparable](a, b []T) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
