package jsonschema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// Limits for schemas that are compiled; values with a schema beyond them are shown without a check. The library's time
// grows with the square of the number of schemas in a document, and it stores the full path of each of them.
const (
	maxObjects = 10_000
	maxPaths   = 4 << 20
	maxRefs    = 20_000_000 // maximum product of two numbers: different references, and objects in the document
	maxProgram = 200_000    // maximum number of instructions of all regular expressions together
	maxPattern = 10_000     // maximum length of a regular expression in bytes
	maxDigits  = 1000
)

var errLarge = fmt.Errorf("cannot be checked: the JSON Schema is too large: it has more than %d objects, or very long paths, numbers or patterns",
	maxObjects)

// census counts the parts of a document that decide whether it is too large to be compiled.
type census struct {
	objects, paths int
	refs           map[string]bool
	number         bool // the document contains a number that is too long to calculate with
}

func (c *census) count(v any, path int) {
	switch v := v.(type) {
	case json.Number:
		c.number = c.number || !shortNumber(v)
	case []any:
		for _, item := range v {
			c.count(item, path+8)
		}
	case bool:
		c.objects++
		c.paths += path
	case map[string]any:
		c.objects++
		c.paths += path
		for name, item := range v {
			if ref, ok := item.(string); ok && (name == "$ref" || name == "$recursiveRef" || name == "$dynamicRef") {
				if c.refs == nil {
					c.refs = map[string]bool{}
				}
				c.refs[ref] = true
			}
			c.count(item, path+3*len(name)+1)
		}
	}
}

func (c *census) tooLarge() bool {
	return c.objects > maxObjects || c.paths > maxPaths || len(c.refs)*c.objects > maxRefs || c.number
}

func (c *census) countNumbers(v any) bool {
	c.count(v, 0)
	return !c.number
}

// shortNumber reports whether the library can calculate with a number quickly. With 1e999999 it cannot, because that
// number has a million digits.
func shortNumber(n json.Number) bool {
	text := strings.ToLower(string(n))
	_, exponent, _ := strings.Cut(text, "e")
	e, err := strconv.Atoi(exponent)
	return len(text) <= maxDigits && (exponent == "" || err == nil && max(e, -e) <= maxDigits)
}

// Limits, in steps, for the work of checking one value; a value that needs more work is not accepted. A step takes
// about a tenth of a microsecond.
const (
	minSteps = 2 << 20
	// less than minSteps, because each step of a check that explains an error may store an error with its path.
	explainSteps = 1 << 16
)

var errWork = &codec.Error{Path: "$", Reason: "cannot be checked: its JSON Schema needs too much work for it"}

// meter limits the work of checking values, for which the library has no limit. A short schema whose parts refer to
// each other can make the library check the same value 2^100 times. A meter runs one check at a time.
type meter struct {
	programs int // number of instructions that the regular expressions that are not compiled yet may have in total

	mu    sync.Mutex
	steps int
	depth int // number of schemas, in a row, that were applied to the same value
	last  reflect.Value
}

// run validates a value and returns errWork when this takes more than the given number of steps.
func (m *meter) run(s *jsonschema.Schema, v any, steps int) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps, m.programs, m.depth, m.last = steps, maxProgram, 0, reflect.Value{}
	defer func() {
		if fault := recover(); fault != nil {
			if fault != errWork { //nolint:errorlint // the value of a panic, not an error that may be wrapped
				panic(fault)
			}
			err = errWork
		}
	}()
	return s.Validate(v) //nolint:wrapcheck // the caller translates it
}

func (m *meter) spend(steps int) {
	if m.steps -= steps; m.steps < 0 {
		panic(errWork)
	}
}

// attach makes every compiled schema call the meter for each value to which it is applied, before it checks the value.
// To do so, it replaces the schema's format.
func (m *meter) attach(v reflect.Value, seen map[*jsonschema.Schema]bool) {
	switch v.Kind() {
	case reflect.Interface:
		m.attach(v.Elem(), seen)
	case reflect.Slice:
		for i := range v.Len() {
			m.attach(v.Index(i), seen)
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			m.attach(entries.Value(), seen)
		}
	case reflect.Pointer:
		if ref, ok := v.Interface().(*jsonschema.DynamicRef); ok && ref != nil {
			m.attach(reflect.ValueOf(ref.Ref), seen)
		}
		s, ok := v.Interface().(*jsonschema.Schema)
		if !ok || s == nil || seen[s] {
			return
		}
		seen[s] = true
		for i := range v.Elem().NumField() {
			if field := v.Elem().Field(i); field.CanInterface() {
				m.attach(field, seen)
			}
		}
		m.observe(s)
	default: // fields of other kinds contain no schemas
	}
}

func (m *meter) observe(s *jsonschema.Schema) {
	format := s.Format
	weight := 1 + len(s.Required) + len(s.AllOf) + len(s.AnyOf) + len(s.OneOf) + len(s.Dependencies) + len(s.DependentSchemas)
	for _, names := range s.DependentRequired {
		weight += 1 + len(names)
	}
	compared := 0
	if s.Enum != nil {
		compared += size(s.Enum.Values) / cheap
	}
	if s.Const != nil {
		compared += size(*s.Const) / cheap
	}
	// the library compares with enum and const before it calls the format: move them to a schema that it applies
	// afterwards
	if weight += compared; compared > 16 {
		only := &jsonschema.Schema{DraftVersion: s.DraftVersion, Location: s.Location, Enum: s.Enum, Const: s.Const}
		s.Enum, s.Const, s.AllOf = nil, nil, append(s.AllOf[:len(s.AllOf):len(s.AllOf)], only)
	}
	s.Format = &jsonschema.Format{Name: "steps", Validate: func(v any) error {
		m.visit(v, weight)
		if format != nil {
			return format.Validate(v) //nolint:wrapcheck // the library handles its own error
		}
		return nil
	}}
	if format != nil {
		s.Format.Name = format.Name
	}
}

// visit counts the work of applying a schema to a value. Many schemas in a row for the same value count more, because
// the library searches the list of these schemas each time.
func (m *meter) visit(v any, weight int) {
	at := reflect.ValueOf(v)
	switch at.Kind() {
	case reflect.Map, reflect.Slice:
		weight += 2 * at.Len()
	case reflect.String:
		weight += at.Len() / 16
	default:
	}
	if same(at, m.last) {
		m.depth++
	} else {
		m.depth = 0
	}
	m.last = at
	m.spend(weight + m.depth/64)
}

func same(a, b reflect.Value) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case reflect.Map, reflect.Slice:
		return a.Pointer() == b.Pointer()
	case reflect.Invalid: // null
		return true
	default:
		return a.Equal(b)
	}
}

// cheap is the number of comparisons of short texts that together count as one step.
const cheap = 16

// size returns how much work it is to compare a value with another one, in comparisons of short texts. Numbers count
// more than texts, because the library parses them for each comparison.
func size(v any) int {
	sum := 1
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			sum += size(item)
		}
	case map[string]any:
		for _, item := range v {
			sum += 4 + size(item)
		}
	case string:
		sum += len(v) / 64
	case json.Number:
		sum += 4 * cheap
	}
	return sum
}

// pattern is a regular expression that counts the work of each match in the meter.
type pattern struct {
	*regexp.Regexp
	meter  *meter
	weight int // number of instructions
}

// MatchString implements the library's Regexp. The time of a match is at most proportional to the length of the text
// times the number of instructions.
func (p pattern) MatchString(text string) bool {
	p.meter.spend(1 + (len(text)+1)*p.weight/16)
	return p.Regexp.MatchString(text)
}

// compile implements the library's RegexpEngine. The library also calls it for values whose format is regex.
func (m *meter) compile(text string) (jsonschema.Regexp, error) {
	if len(text) > maxPattern {
		m.programs = -1
		return nil, errLarge
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err //nolint:wrapcheck // the library adds the pattern to the error
	}
	weight := instructions(parsed)
	if m.programs -= weight; m.programs < 0 {
		return nil, errLarge
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	return pattern{compiled, m, weight}, nil
}

// instructions returns the approximate number of instructions to which a regular expression is compiled. For .{1000} it
// is a thousand.
func instructions(r *syntax.Regexp) int {
	sum := 1 + len(r.Rune)/2
	for _, sub := range r.Sub {
		sum += instructions(sub)
	}
	if r.Op == syntax.OpRepeat {
		sum *= max(r.Min, r.Max, 1)
	}
	return sum
}
