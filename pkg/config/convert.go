package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The texts of the errors below never contain the value of a setting, because the value may be a secret.
var (
	errWhole    = errors.New("must be a whole number; sizes may have a unit, such as 64MiB")
	errRange    = errors.New("is a number out of range")
	errNumber   = errors.New("must be a number")
	errBool     = errors.New("must be true or false")
	errDuration = errors.New("must be a duration with its unit, such as 5m, 30s or 200ms")
	errMappings = errors.New("must be a YAML list of mappings, such as [{a: x, b: y}]")
)

// convert is a decode hook of mapstructure. It converts a value from the file or the environment to the type of its
// field, and refuses values that mapstructure would convert with a loss.
func convert(from, to reflect.Value) (any, error) {
	typ, raw := to.Type(), from.Interface()
	text, isString := raw.(string)
	switch {
	case from.Type() == typ:
		return raw, nil
	case typ == reflect.TypeFor[time.Duration]():
		return duration(raw)
	case isText(typ):
		if !isString && !from.CanInt() && !from.CanUint() {
			return nil, notA("text", raw)
		}
		out := reflect.New(typ)
		err := out.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(fmt.Sprint(raw)))
		return out.Elem().Interface(), err
	case typ.Kind() == reflect.String && from.Kind() != reflect.String:
		return nil, fmt.Errorf("%w (put it in quotes)", notA("text", raw))
	case typ.Kind() == reflect.Bool && isString:
		b, err := strconv.ParseBool(text)
		return b, either(err, errBool)
	case typ.Kind() == reflect.Bool && from.Kind() != reflect.Bool:
		return nil, fmt.Errorf("%w, not %s", errBool, kindOf(raw))
	case typ.Kind() == reflect.Slice && from.Kind() != reflect.Slice:
		return []any{raw}, nil // a single value is read as a list with one item
	case to.CanFloat() && isString:
		f, err := strconv.ParseFloat(text, 64)
		return f, either(err, errNumber)
	case to.CanFloat() && !from.CanFloat() && !from.CanInt() && !from.CanUint():
		return nil, fmt.Errorf("%w, not %s", errNumber, kindOf(raw))
	case to.CanInt() || to.CanUint():
		return whole(from, to)
	}
	return raw, nil
}

func duration(raw any) (any, error) {
	text, isString := raw.(string)
	switch {
	case raw == 0:
		return time.Duration(0), nil
	case !isString:
		return nil, fmt.Errorf("%w, not %s", errDuration, kindOf(raw))
	}
	d, err := time.ParseDuration(text)
	return d, either(err, errDuration)
}

// whole reads a whole number, or a size such as 64MiB, and checks that it fits into a field of the type to.
func whole(from, to reflect.Value) (any, error) {
	if from.Kind() == reflect.String {
		n, err := strconv.ParseInt(from.String(), 10, 64)
		if err != nil {
			var size ByteSize
			err = size.UnmarshalText([]byte(from.String()))
			n = int64(size)
		}
		if err != nil {
			return nil, errWhole
		}
		from = reflect.ValueOf(n)
	}
	fits := false
	switch {
	case from.CanUint(): // the YAML package returns an unsigned number when int64 is too small
		fits = to.CanUint() && !to.OverflowUint(from.Uint())
	case !from.CanInt():
		return nil, fmt.Errorf("%w, not %s", errWhole, kindOf(from.Interface()))
	case to.CanUint():
		fits = from.Int() >= 0 && !to.OverflowUint(uint64(from.Int()))
	default:
		fits = !to.OverflowInt(from.Int())
	}
	if !fits {
		return nil, errRange
	}
	return from.Interface(), nil
}

// listOf reads the value of an environment variable as a list of the given type. A text in brackets such as [a, b] is
// read as YAML. A list of mappings must be YAML. Every other text is split at commas, even if it begins with a bracket,
// such as [::1]:9092, the address of a broker.
func listOf(text string, item reflect.Type) ([]any, error) {
	var list []any
	if strings.HasPrefix(text, "[") && yaml.Unmarshal([]byte(text), &list) == nil {
		return list, nil
	}
	if isSection(item) {
		return nil, errMappings
	}
	list = []any{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list, nil
}

// either returns nil when err is nil, and otherwise the error in the parameter instead. With either, an error does not
// contain the text of err, and so not the setting's value.
func either(err, instead error) error {
	if err != nil {
		return instead
	}
	return nil
}

func notA(want string, raw any) error {
	return fmt.Errorf("must be %s, not %s", want, kindOf(raw))
}

func kindOf(raw any) string {
	switch raw.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any, map[any]any:
		return "a mapping"
	case time.Time:
		return "a date"
	default:
		return "a number"
	}
}
