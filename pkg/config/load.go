// Package config fills a program's configuration struct from its defaults, one
// YAML file and the environment. What the settings mean, which are needed and
// what their defaults are is left to the packages that own them.
package config

import (
	"errors"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"github.com/spf13/viper"
)

// Option changes how Load works.
type Option func(*loader)

// WithEnviron replaces the process's environment by the given "NAME=value"
// entries, the form of os.Environ.
func WithEnviron(entries []string) Option {
	return func(l *loader) { l.environ = entries }
}

type loader struct {
	path    string
	prefix  string
	environ []string
}

// Load returns defaults, overridden by the YAML file at path, overridden by
// the environment. T is a struct whose fields carry `mapstructure:"name"`
// tags; nested structs are sections, and the key of a setting is its path,
// such as "database.port".
//
// The environment variable of a key is the prefix and the key in upper case
// with "_" for ".": DLQ_DATABASE_PORT. An empty variable counts as not set.
// Lists are separated by commas; what commas cannot say (a list of mappings,
// an expression with a comma in it) is written as a YAML list in brackets.
// Variables with the prefix that no key answers to are returned as warnings,
// sorted, except those that begin with the prefix and STACK_.
//
// A field that is a pointer to a struct is an optional section. It is nil
// unless the file has the section as a mapping, be it an empty one, or a variable
// sets one of its keys; then it holds what the pointer in defaults points to,
// plus the overrides. The section's name without a value is an error: it could
// mean either. Defaults are never written to.
//
// Durations are written with a unit ("5m"). An integer whose key ends in
// "bytes" also takes a size such as "64MiB" (see ByteSize). Numbers and text
// are not converted into one another: an unquoted 0123 in a password would
// silently become 83.
//
// At last Validate() error is called on every section that has it (its parts
// are then its own business), and on T for what spans sections. The error lists all problems on one line, each with
// the file or the variable and the key, and never with a value. The file must
// exist and may only hold keys that T has.
func Load[T any](path, envPrefix string, defaults T, opts ...Option) (T, []string, error) {
	l := loader{path: path, prefix: strings.TrimSuffix(envPrefix, "_") + "_", environ: os.Environ()}
	for _, o := range opts {
		o(&l)
	}
	cfg, warnings, err := load(l, defaults)
	if err != nil {
		var zero T
		return zero, warnings, err
	}
	return cfg, warnings, nil
}

func load[T any](l loader, defaults T) (T, []string, error) {
	var out T
	keys, err := describe(reflect.ValueOf(&defaults).Elem())
	if err != nil {
		return out, nil, err
	}
	file := &fileDecoder{keys: keys, present: map[string]bool{}}
	v := viper.NewWithOptions(viper.WithDecoderRegistry(file))

	if err := readFile(v, l.path); err != nil {
		return out, nil, err
	}
	env := readEnvironment(keys, l.prefix, l.environ)
	if err := oneLine(prefixed(l.path, file.problems), env.problems); err != nil {
		return out, env.warnings, err
	}

	for key, value := range env.values {
		v.Set(key, value)
		file.present.markParents(key)
	}
	for key, s := range keys.settings {
		if keys.reachable(key, file.present) && s.byDefault.IsValid() {
			v.SetDefault(key, s.byDefault.Interface())
		}
	}

	out = defaults
	prepare(reflect.ValueOf(&out).Elem(), "", file.present)
	// Every value already has its field's type, so nothing is left to guess.
	if err := v.Unmarshal(&out, strictTypes); err != nil {
		return out, env.warnings, errors.New(l.path + ": cannot be decoded: a setting has the wrong type")
	}
	return out, env.warnings, oneLine(prefixed(l.path, validate(reflect.ValueOf(&out).Elem())))
}

// readFile lets viper read the file, with our decoder behind it. Problems
// inside the file are collected by that decoder.
func readFile(v *viper.Viper, path string) error {
	if path == "" {
		return errors.New("config file: no name given")
	}
	v.SetConfigFile(path)
	v.SetConfigType("yaml")
	err := v.ReadInConfig()
	var at *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &at):
		return errors.New("config file " + path + ": " + at.Err.Error())
	default:
		return errors.New("config file " + path + ": " + err.Error())
	}
}
