// Package config fills a program's configuration struct from its defaults, one YAML file and the environment. The
// packages that use the settings define what they mean, their defaults, and which settings are required.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// Option configures Load.
type Option func(*loader)

// WithEnviron makes Load read the given entries in place of the process's environment; they have the form "NAME=value",
// as in os.Environ.
func WithEnviron(entries []string) Option {
	return func(l *loader) { l.environ = entries }
}

type loader struct {
	path    string
	prefix  string
	environ []string

	schema    schema
	present   map[string]bool   // keys of the sections that the file contains
	variables map[string]string // name of the variable that sets a key, by the key
	problems  []error           // problems in the file and in the environment
}

// Load returns the parameter defaults, changed first by the values that the YAML file at path sets, and then by the
// values that the environment sets. T is a struct whose fields carry `mapstructure:"name"` tags; nested structs are
// sections, and the key of a setting is its path, such as "database.port".
//
// The environment variable of a key is the prefix and the key in upper case with "_" for ".", such as
// DLQ_DATABASE_PORT. An empty variable counts as not set. Lists are separated by commas; a list of mappings, or an item
// with a comma, is written as a YAML list in brackets. Load returns a warning for each variable that begins with the
// prefix but belongs to no key, sorted, except for variables that begin with the prefix and STACK_.
//
// A field that is a pointer to a struct is an optional section. An optional section is nil unless the file contains the
// section as a mapping, possibly an empty one, or a variable sets one of its keys. When it is not nil, its values are
// those of the section in defaults, changed by the file and the variables. A section's name without a value in the file
// is an error, because its meaning would not be clear. The parameter defaults is never modified.
//
// Durations other than 0 are written with a unit ("5m"), integers may be sizes such as "64MiB" (see ByteSize). Text is
// read as a number, or as true or false, where the field needs it. But a number is not read as text: an unquoted
// password 0123 would silently become 83.
//
// If the file and the environment have no problem, Load finally calls the method Validate() error of every section that
// has it. It also calls the method Validate of T, which checks rules across sections. A section with the method
// Validate has to validate its own parts. The error lists, on one line, all problems that were found. Each problem
// names the key and the file or the variable, but never a value. The file must exist and may contain only keys that T
// has.
func Load[T any](path, envPrefix string, defaults T, opts ...Option) (T, []string, error) {
	l := loader{
		path: path, prefix: strings.TrimSuffix(envPrefix, "_") + "_", environ: os.Environ(),
		schema: schemaOf(reflect.ValueOf(&defaults).Elem()), present: map[string]bool{}, variables: map[string]string{},
	}
	for _, o := range opts {
		o(&l)
	}
	warnings, err := l.load(&defaults)
	if err == nil {
		err = oneLine(prefixed(l.path, validate(reflect.ValueOf(&defaults).Elem())))
	}
	if err != nil {
		var none T
		return none, warnings, err
	}
	return defaults, warnings, nil
}

func (l *loader) load(into any) (warnings []string, err error) {
	v := viper.NewWithOptions(viper.WithDecoderRegistry(l))
	if err := l.readFile(v); err != nil {
		return nil, err
	}
	warnings = l.setVariables(v)
	for _, s := range l.schema.settings {
		if s.optional == "" || v.IsSet(s.optional) || l.present[s.optional] {
			v.SetDefault(s.key, s.byDefault.Interface())
		}
	}
	l.complainOf(v.UnmarshalExact(into, func(c *mapstructure.DecoderConfig) {
		c.WeaklyTypedInput, c.ZeroFields, c.DecodeHook = false, true, convert
	}))
	return warnings, oneLine(l.problems)
}

func (l *loader) readFile(v *viper.Viper) error {
	if l.path == "" {
		return errors.New("config file: no name given")
	}
	v.SetConfigFile(l.path)
	v.SetConfigType("yaml")
	err := v.ReadInConfig()
	var at *fs.PathError
	switch {
	case errors.As(err, &at):
		return errors.New("config file " + l.path + ": " + at.Err.Error())
	case err != nil:
		return fmt.Errorf("%s: %w", l.path, errors.Unwrap(err))
	}
	return nil
}

// Decoder implements viper.DecoderRegistry. It always returns the loader itself, which decodes YAML, the only format of
// the file.
func (l *loader) Decoder(string) (viper.Decoder, error) { return l, nil }

// Decode implements viper.Decoder. Problems with keys are added to l.problems, not returned.
func (l *loader) Decode(text []byte, into map[string]any) error {
	if err := yaml.Unmarshal(text, &into); err != nil {
		return yamlProblem(err)
	}
	l.section("", into)
	return nil
}

// section checks the keys of a section of the file. It removes keys without a value, because viper would otherwise not
// use their defaults.
func (l *loader) section(parent string, keys map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		key, value := join(parent, name), keys[name]
		optional, isSection := l.schema.sections[key]
		inner, isMapping := value.(map[string]any)
		switch {
		case isSection && isMapping:
			l.present[key] = true
			l.section(key, inner)
			continue
		case !l.schema.has(key):
			l.complain("unknown key %s", key)
		case value == nil && optional:
			// The section could be empty because a template is broken. Load must not treat an empty section like a section that
			// was left out on purpose.
			l.complain("%s: the section is empty; remove it or fill it in", key)
		case value != nil && isSection:
			l.complain("%s: must be a section with keys of its own, not %s", key, kindOf(value))
		case value != nil:
			continue
		}
		delete(keys, name)
	}
}

// setVariables finds the variable of each key. Finding the key of a variable would be ambiguous, because "_" in a
// variable may stand for "." or for "_" in the key.
func (l *loader) setVariables(v *viper.Viper) (warnings []string) {
	given := map[string]string{}
	for _, entry := range l.environ {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, l.prefix) && !strings.HasPrefix(name, l.prefix+"STACK_") {
			given[name] = value
		}
	}
	for _, s := range l.schema.settings {
		name := l.prefix + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
		if text := given[name]; text != "" {
			l.variables[s.key] = name
			l.setVariable(v, s, text)
		}
		delete(given, name)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		warnings = append(warnings, fmt.Sprintf("environment variable %s is not a setting: ignored", name))
	}
	return warnings
}

func (l *loader) setVariable(v *viper.Viper, s setting, text string) {
	if strings.HasPrefix(text, "tcp://") && s.byDefault.CanInt() {
		// The variable is not meant as a setting, because Kubernetes sets DLQ_SERVER_PORT in every pod when a Service is
		// named dlq-server.
		l.problems = append(l.problems, fmt.Errorf("%s: looks like a Kubernetes service link: set enableServiceLinks: false", l.variables[s.key]))
		return
	}
	var value any = text
	if typ := s.byDefault.Type(); typ.Kind() == reflect.Slice && !isText(typ) {
		list, err := listOf(text, typ.Elem())
		if err != nil {
			l.problems = append(l.problems, fmt.Errorf("%s: %w", l.variables[s.key], err))
			return
		}
		value = list
	}
	v.Set(s.key, value)
}

func (l *loader) complain(format string, args ...any) {
	l.problems = append(l.problems, prefixed(l.path, []error{fmt.Errorf(format, args...)})...)
}

// complainOf adds the errors of mapstructure to problems, each with its key or its variable.
func (l *loader) complainOf(err error) {
	var several interface{ Unwrap() []error }
	var at *mapstructure.DecodeError
	switch {
	case err == nil:
	case errors.As(err, &several):
		for _, problem := range several.Unwrap() {
			l.complainOf(problem)
		}
	case !errors.As(err, &at):
		l.complain("%w", err)
	default:
		l.complainOfKey(at.Name(), at.Unwrap())
	}
}

func (l *loader) complainOfKey(key string, err error) {
	setting, _, _ := strings.Cut(key, "[")
	if names, unknown := strings.CutPrefix(err.Error(), "has invalid keys: "); unknown { // an item of a list, such as a rule, contains unknown keys
		for name := range strings.SplitSeq(names, ", ") {
			l.complain("unknown key %s", join(key, name))
		}
	} else if variable := l.variables[setting]; variable != "" {
		l.problems = append(l.problems, fmt.Errorf("%s: %w", variable, err))
	} else {
		l.complain("%s: %w", key, err)
	}
}

var yamlLine = regexp.MustCompile(`line (\d+): (.*)`)

// yamlProblem returns an error with only those parts of a YAML error that cannot contain text of the file. The full
// error could contain a password: an unquoted password that starts with "*" is an alias in YAML, and the error about an
// unknown alias contains its name.
func yamlProblem(err error) error {
	text := err.Error()
	line := yamlLine.FindStringSubmatch(text)
	switch {
	case strings.Contains(text, "cannot unmarshal"):
		return errors.New("not a YAML mapping of keys to values")
	case strings.Contains(text, "unknown anchor"):
		return errors.New("not valid YAML: a value begins with * (put it in quotes)")
	case strings.Contains(text, "already defined") && line != nil:
		return errors.New("not valid YAML: a key is there twice: " + line[0])
	case line != nil && !strings.ContainsAny(line[2], "`{"):
		return errors.New("not valid YAML: " + line[0])
	}
	return errors.New("not valid YAML")
}
