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

// The texts of these errors never hold the value: it may be a secret.
var (
	errWhole    = errors.New("must be a whole number")
	errRange    = errors.New("is a number out of range")
	errNumber   = errors.New("must be a number")
	errBool     = errors.New("must be true or false")
	errDuration = errors.New("must be a duration with its unit, such as 5m, 30s or 200ms")
)

// convert gives a value from YAML the type of its field.
func convert(key string, typ reflect.Type, raw any) (reflect.Value, error) {
	out := reflect.New(typ).Elem()
	text, isString := raw.(string)
	switch {
	case typ.Kind() == reflect.Pointer:
		return convert(key, typ.Elem(), raw)
	case typ == reflect.TypeFor[time.Duration]():
		return convertDuration(raw)
	case isText(typ):
		if !isString {
			if !isWhole(raw) {
				return out, notA("text", raw)
			}
			text = fmt.Sprint(raw) // a plain number of bytes
		}
		return out, out.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
	}
	switch typ.Kind() {
	case reflect.String:
		if !isString {
			return out, fmt.Errorf("%w (put it in quotes)", notA("text", raw))
		}
		out.SetString(text)
		return out, nil
	case reflect.Bool:
		b, ok := raw.(bool)
		if !ok {
			return out, fmt.Errorf("%w, not %s", errBool, kindOf(raw))
		}
		out.SetBool(b)
		return out, nil
	case reflect.Slice:
		return convertList(key, typ, raw)
	case reflect.Map:
		return convertMap(key, typ, raw)
	case reflect.Struct:
		return convertStruct(key, typ, raw)
	case reflect.Interface:
		return reflect.ValueOf(raw), nil
	default:
		return convertNumber(key, typ, raw)
	}
}

func convertDuration(raw any) (reflect.Value, error) {
	if raw == 0 {
		return reflect.ValueOf(time.Duration(0)), nil
	}
	text, ok := raw.(string)
	if !ok {
		return reflect.Value{}, fmt.Errorf("%w, not %s", errDuration, kindOf(raw))
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return reflect.Value{}, errDuration
	}
	return reflect.ValueOf(d), nil
}

func convertNumber(key string, typ reflect.Type, raw any) (reflect.Value, error) {
	out := reflect.New(typ).Elem()
	if text, ok := raw.(string); ok && strings.HasSuffix(key, "bytes") {
		var size ByteSize
		if err := size.UnmarshalText([]byte(text)); err != nil {
			return out, err
		}
		raw = int64(size)
	}
	number := reflect.ValueOf(raw)
	switch {
	case out.CanFloat() && (number.CanInt() || number.CanFloat()):
		out.Set(number.Convert(typ))
	case out.CanFloat():
		return out, fmt.Errorf("%w, not %s", errNumber, kindOf(raw))
	case !isWhole(raw):
		return out, fmt.Errorf("%w, not %s", errWhole, kindOf(raw))
	case !fits(out, number):
		return out, errRange
	default:
		out.Set(number.Convert(typ))
	}
	return out, nil
}

func isWhole(raw any) bool {
	v := reflect.ValueOf(raw)
	return v.CanInt() || v.CanUint()
}

func fits(out, number reflect.Value) bool {
	switch {
	case number.CanUint(): // YAML gives this for what int64 cannot hold
		return out.CanUint() && !out.OverflowUint(number.Uint())
	case out.CanUint():
		return number.Int() >= 0 && !out.OverflowUint(uint64(number.Int()))
	default:
		return out.CanInt() && !out.OverflowInt(number.Int())
	}
}

// convertList also takes one value where a list may stand.
func convertList(key string, typ reflect.Type, raw any) (reflect.Value, error) {
	items, ok := raw.([]any)
	if !ok {
		items = []any{raw}
	}
	out := reflect.MakeSlice(typ, 0, len(items))
	for i, item := range items {
		value, err := convert(key, typ.Elem(), item)
		if err != nil {
			return out, fmt.Errorf("item %d: %w", i+1, err)
		}
		out = reflect.Append(out, value)
	}
	return out, nil
}

func convertMap(key string, typ reflect.Type, raw any) (reflect.Value, error) {
	entries, ok := raw.(map[string]any)
	if !ok || typ.Key().Kind() != reflect.String {
		return reflect.Value{}, notA("a mapping", raw)
	}
	out := reflect.MakeMap(typ)
	for name, item := range entries {
		value, err := convert(key, typ.Elem(), item)
		if err != nil {
			return out, fmt.Errorf("entry %s: %w", name, err)
		}
		out.SetMapIndex(reflect.ValueOf(name).Convert(typ.Key()), value)
	}
	return out, nil
}

// convertStruct makes an item of a list: it has keys, but no defaults and no
// variables of its own.
func convertStruct(key string, typ reflect.Type, raw any) (reflect.Value, error) {
	out := reflect.New(typ).Elem()
	entries, ok := raw.(map[string]any)
	if !ok {
		return out, notA("a mapping", raw)
	}
	left := make(map[string]any, len(entries))
	for name, item := range entries {
		left[strings.ToLower(name)] = item
	}
	var problems []error
	eachField(out, "", func(name string, field reflect.Value) {
		item := left[name]
		delete(left, name)
		if item == nil {
			return
		}
		value, err := convert(name, field.Type(), item)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		case field.Kind() == reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
			field.Elem().Set(value)
		default:
			field.Set(value)
		}
	})
	for name := range left {
		problems = append(problems, fmt.Errorf("unknown key %s", join(key, name)))
	}
	return out, errors.Join(problems...)
}

// convertText gives the text of a variable the type of its field.
func convertText(key string, typ reflect.Type, text string) (reflect.Value, error) {
	switch {
	case typ.Kind() == reflect.Pointer:
		return convertText(key, typ.Elem(), text)
	case typ == reflect.TypeFor[time.Duration](), isText(typ), typ.Kind() == reflect.String:
		return convert(key, typ, text)
	}
	switch typ.Kind() {
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return reflect.Value{}, errBool
		}
		return reflect.ValueOf(b).Convert(typ), nil
	case reflect.Float32, reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return reflect.Value{}, errNumber
		}
		return reflect.ValueOf(f).Convert(typ), nil
	case reflect.Slice:
		return convertTextList(key, typ, text)
	case reflect.Map, reflect.Struct, reflect.Interface:
		return convertYAML(key, typ, text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && strings.HasSuffix(key, "bytes") {
		return convert(key, typ, text)
	}
	if err != nil {
		return reflect.Value{}, errWhole
	}
	return convert(key, typ, n)
}

// convertTextList reads [a, b] as YAML when it is that (an IPv6 broker such as
// [::1]:9092 is not), and splits at commas otherwise.
func convertTextList(key string, typ reflect.Type, text string) (reflect.Value, error) {
	if strings.HasPrefix(text, "[") {
		if list, err := convertYAML(key, typ, text); err == nil {
			return list, nil
		}
	}
	if elem := typ.Elem(); elem.Kind() == reflect.Struct && !isText(elem) || elem.Kind() == reflect.Map {
		return reflect.Value{}, errors.New("must be a YAML list of mappings, such as [{a: x, b: y}]")
	}
	out := reflect.MakeSlice(typ, 0, 1)
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		value, err := convertText(key, typ.Elem(), item)
		if err != nil {
			return out, err
		}
		out = reflect.Append(out, value)
	}
	return out, nil
}

func convertYAML(key string, typ reflect.Type, text string) (reflect.Value, error) {
	var raw any
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		return reflect.Value{}, yamlProblem(err)
	}
	return convert(key, typ, raw)
}

func notA(want string, raw any) error {
	return fmt.Errorf("must be %s, not %s", want, kindOf(raw))
}

func kindOf(raw any) string {
	switch raw.(type) {
	case nil:
		return "nothing"
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
