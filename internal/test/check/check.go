// Package check has the few assertions that most tests need. The line of the caller is reported.
package check

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// True reports the message unless ok.
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

// Equal reports what has another value than want, by reflect.DeepEqual.
func Equal[T any](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf(what+" = %+v, want %+v", append(args, got, want)...)
	}
}

// Is reports what returned an error that is not want.
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

// Eventually asks until ok, for 50 seconds at most.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for range 2500 {
		if ok() {
			return
		}
		<-ticker.C
	}
	t.Fatalf("never came: %s", what)
}

// NoError ends the test if there is an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must is for setup: Must(f())(t) is the value of f and ends the test if there is an error.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return v
	}
}

// Err returns the error of a call of two results.
func Err[T any](_ T, err error) error { return err }

// Same is Equal, but nil equals a slice or a map that is empty.
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

// Len reports a slice or a map that has not so many elements.
func Len(t testing.TB, list any, want int, what string, args ...any) {
	t.Helper()
	if n := reflect.ValueOf(list).Len(); n != want {
		t.Errorf("%s: %d elements, want %d: %+v", fmt.Sprintf(what, args...), n, want, list)
	}
}

// Says reports what returned no error with that text.
func Says(t testing.TB, err error, text, what string, args ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s = %v, want an error with %q", fmt.Sprintf(what, args...), err, text)
	}
}

// Each returns what of returns for each element of list.
func Each[E, V any](list []E, of func(E) V) []V {
	var values []V
	for _, e := range list {
		values = append(values, of(e))
	}
	return values
}
