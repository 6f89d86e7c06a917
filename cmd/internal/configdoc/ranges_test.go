package main

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/cmd/internal/program"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/config"
)

// Every range that a comment in configs/config.yaml states agrees with Validate: Validate accepts the first and the
// last number of the range, and refuses the next numbers outside of it.
func TestRangesAgreeWithValidate(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(reference)
	check.NoError(t, err)
	comments, numbers := readComments(string(text)), 0
	check := newChecker(t)
	for _, s := range check.settings {
		if !s.isNumber() {
			continue
		}
		numbers++
		span, _ := s.cutRange(comments.meaning(s.key))
		if problem := check.disagreement(s, span); problem != "" {
			t.Errorf("%s [%s]: %s", s.key, span, problem)
		}
	}
	if numbers < 60 {
		t.Errorf("got %d settings that are numbers, want all of them", numbers)
	}
}

func TestRangesThatDisagreeAreFound(t *testing.T) {
	t.Parallel()
	check := newChecker(t)
	for _, c := range []struct{ key, right, wrong, want string }{
		{"ingest.writers", "1 to 16", "1 to 15", "16 is accepted"},
		{"ingest.writers", "1 to 16", "1 to 17", "17 is refused"},
		{"ingest.writers", "1 to 16", "0 to 16", "0 is refused"},
		{"ingest.writers", "1 to 16", "2 to 16", "1 is accepted"},
		{"ingest.writers", "1 to 16", "1 or more", "is refused"},
		{"ingest.writers", "1 to 16", "few", `"few" is no number`},
		{"ingest.max_header_bytes", "1 to 64MiB", "1 to 64KiB", "65537 is accepted"},
		{"server.port", "0 to 65535", "more than 0 to 65535", "0 is accepted"},
		{"auth.oidc.timeout", "more than 0s to 10s", "0s to 10s", "0s is refused"},
		{"auth.oidc.timeout", "more than 0s to 10s", "more than 0s", "is refused"},
		{"redrive.auto.jitter", "0 to less than 1", "0 to 1", "1 is refused"},
		{"redrive.auto.jitter", "0 to less than 1", "0 to less than 0.5", "0.5 is accepted"},
		{"redrive.auto.jitter", "0 to less than 1", "0.1 or more", "is refused"},
	} {
		for _, s := range check.settings {
			if s.key != c.key {
				continue
			}
			if got := check.disagreement(s, c.right); got != "" {
				t.Errorf("%s [%s]: got %q, want no disagreement", c.key, c.right, got)
			}
			if got := check.disagreement(s, c.wrong); !strings.Contains(got, c.want) {
				t.Errorf("%s [%s]: got %q, want %q", c.key, c.wrong, got, c.want)
			}
		}
	}
}

// checker calls Validate on the configuration in the reference file with one value changed.
type checker struct {
	whole    reflect.Value
	settings []setting
}

// newChecker returns a checker of the reference configuration with OIDC on, because Validate ignores the settings of
// OIDC while it is off.
func newChecker(t *testing.T) checker {
	t.Helper()
	base, _, err := config.Load(reference, "DLQ_", program.DefaultConfig(), config.WithEnviron([]string{
		"DLQ_AUTH_MODE=oidc", "DLQ_AUTH_OIDC_ISSUER=https://issuer.example.com", "DLQ_AUTH_OIDC_AUDIENCE=dlq-manager",
		"DLQ_AUTH_OIDC_GRANTS=[{value: team, role: viewer, topics: [orders]}]",
	}))
	check.NoError(t, err)
	whole := reflect.ValueOf(&base)
	check.NoError(t, validate(whole))
	return checker{whole, settingsOf(whole.Elem(), "")}
}

// disagreement compares a range, written "1 to 16", "1 or more", "more than 0s", "more than 0s to 10s" or "0 to less
// than 1", with Validate. It returns "" when the range and Validate agree, and otherwise what is different.
func (c checker) disagreement(s setting, span string) string {
	from, to, bounded := strings.Cut(strings.TrimSuffix(span, " or more"), " to ")
	from, openBelow := strings.CutPrefix(from, "more than ")
	to, openAbove := strings.CutPrefix(to, "less than ")
	low, err := s.parse(from)
	if err != nil {
		return err.Error()
	}
	inside, outside := []number{low}, []number{s.step(low, -1)}
	if openBelow {
		inside, outside = []number{s.step(low, 1)}, []number{low}
	}
	if bounded {
		high, err := s.parse(to)
		if err != nil {
			return err.Error()
		}
		last, next := high, s.step(high, 1)
		if openAbove {
			last, next = s.step(high, -1), high
		}
		inside, outside = append(inside, last), append(outside, next)
	} else {
		inside = append(inside, number{math.MaxInt64, math.MaxFloat64})
	}
	for _, n := range inside {
		if err := c.try(s, n); err != nil {
			return fmt.Sprintf("%s is refused: %v", s.show(n), err)
		}
	}
	for _, n := range outside {
		if c.try(s, n) == nil {
			return s.show(n) + " is accepted"
		}
	}
	return ""
}

// number is the value of a setting: a whole number or a fraction.
type number struct {
	whole    int64
	fraction float64
}

func (s setting) parse(text string) (n number, err error) {
	var size config.ByteSize
	var wait time.Duration
	switch {
	case s.isDuration():
		wait, err = time.ParseDuration(text)
		n.whole = int64(wait)
	case s.isSize():
		err = size.UnmarshalText([]byte(text))
		n.whole = int64(size)
	case s.value.CanInt():
		n.whole, err = strconv.ParseInt(text, 10, 64)
	default:
		n.fraction, err = strconv.ParseFloat(text, 64)
	}
	if err != nil {
		return n, fmt.Errorf("%q is no number: %w", text, err)
	}
	return n, nil
}

// step returns the number next to n: 1 more or less for a whole number, 0.000001 more or less for a fraction. A
// negative sign means less.
func (s setting) step(n number, sign int) number {
	return number{n.whole + int64(sign), n.fraction + float64(sign)*1e-6}
}

func (s setting) show(n number) string {
	if s.value.CanInt() {
		return s.number(n.whole)
	}
	return strconv.FormatFloat(n.fraction, 'f', -1, 64)
}

func (c checker) try(s setting, n number) error {
	old := reflect.ValueOf(s.value.Interface())
	defer s.value.Set(old)
	if s.value.CanInt() {
		s.value.SetInt(n.whole)
	} else {
		s.value.SetFloat(n.fraction)
	}
	return validate(c.whole)
}

// validate calls the Validate methods in a configuration, inner sections first, until one of them returns an error.
func validate(v reflect.Value) error {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			if err := validate(v.Field(i)); err != nil {
				return err
			}
		}
	}
	if c, can := v.Addr().Interface().(interface{ Validate() error }); can {
		return c.Validate()
	}
	return nil
}
