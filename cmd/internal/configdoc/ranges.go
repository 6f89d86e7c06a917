package main

import (
	"math"
	"reflect"
	"strconv"
)

// accepts reports whether a configuration with this value at a setting is valid,
// the others being as they are.
type accepts func(s setting, value reflect.Value) bool

// rangeOf says which numbers a setting takes, "" for what is no number. It
// supposes that what is valid is one interval around the value that is there.
func (ok accepts) rangeOf(s setting) string {
	switch {
	case s.value.CanInt():
		return s.between(ok.lowest(s), ok.highest(s))
	case s.value.CanFloat():
		low, high := ok.lowestFloat(s), ok.highestFloat(s)
		return format(low) + " to " + format(high)
	default:
		return ""
	}
}

func (ok accepts) int(s setting, n int64) bool {
	if s.value.OverflowInt(n) {
		return false
	}
	return ok(s, reflect.ValueOf(n).Convert(s.value.Type()))
}

// lowest is found by halving between the smallest number and one that is valid.
func (ok accepts) lowest(s setting) int64 {
	bad, good := int64(math.MinInt64), s.value.Int()
	if ok.int(s, bad) {
		return bad
	}
	for good-1 > bad {
		if middle := bad + int64(uint64(good-bad)/2); ok.int(s, middle) {
			good = middle
		} else {
			bad = middle
		}
	}
	return good
}

func (ok accepts) highest(s setting) int64 {
	good, bad := s.value.Int(), int64(math.MaxInt64)
	if ok.int(s, bad) {
		return bad
	}
	for good+1 < bad {
		if middle := good + (bad-good)/2; ok.int(s, middle) {
			good = middle
		} else {
			bad = middle
		}
	}
	return good
}

// between says an interval in words. One to which everything below or above
// belongs is open at that end; what begins at the very smallest unit is above 0.
func (s setting) between(low, high int64) string {
	from := s.number(low)
	unit := s.isDuration() && low%1000 == 1 // a bound that is itself not allowed
	if unit {
		from = "more than " + s.number(low-1)
	}
	switch {
	case low == math.MinInt64 && high == math.MaxInt64:
		return "any"
	case high == math.MaxInt64 && unit:
		return from
	case high == math.MaxInt64:
		return from + " or more"
	case low == math.MinInt64:
		return "at most " + s.number(high)
	default:
		return from + " to " + s.number(high)
	}
}

func (ok accepts) lowestFloat(s setting) float64 {
	return ok.edge(s, s.value.Float()-1e6)
}

func (ok accepts) highestFloat(s setting) float64 {
	return ok.edge(s, s.value.Float()+1e6)
}

// edge halves between the value that is there and one far away.
func (ok accepts) edge(s setting, bad float64) float64 {
	good := s.value.Float()
	for range 80 {
		middle := good + (bad-good)/2
		if ok(s, reflect.ValueOf(middle).Convert(s.value.Type())) {
			good = middle
		} else {
			bad = middle
		}
	}
	return math.Round(good*1e6) / 1e6
}

func format(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// valid calls every Validate method in a configuration, as loading does.
func valid(v reflect.Value) bool {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return true
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return true
	}
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() && !valid(v.Field(i)) {
			return false
		}
	}
	if c, can := v.Addr().Interface().(interface{ Validate() error }); can {
		return c.Validate() == nil
	}
	return true
}
