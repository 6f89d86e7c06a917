package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// fileDecoder reads YAML for viper. It knows the keys, so it can refuse
// unknown ones by name and hand out values that have their field's type.
type fileDecoder struct {
	keys     keyTable
	present  presence
	problems []error
}

// Decoder gives the decoder itself whatever the format: there is only one.
func (d *fileDecoder) Decoder(string) (viper.Decoder, error) { return d, nil }

// Decode fills into; everything that is wrong is kept in problems.
func (d *fileDecoder) Decode(raw []byte, into map[string]any) error {
	var doc map[string]any
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		d.problems = append(d.problems, yamlProblem(err))
		return nil
	}
	maps.Copy(into, d.section("", doc))
	return nil
}

func (d *fileDecoder) section(parent string, raw map[string]any) map[string]any {
	out := make(map[string]any, len(raw))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if value, ok := d.entry(join(parent, name), raw[name]); ok {
			out[strings.ToLower(name)] = value
		}
	}
	return out
}

func (d *fileDecoder) entry(key string, raw any) (any, bool) {
	optional, isSection := d.keys.sections[key]
	s, isSetting := d.keys.settings[key]
	switch {
	case !isSection && !isSetting:
		d.complain("unknown key %s", key)
		return nil, false
	case raw == nil && optional:
		// A template that broke must not look like the choice to do without.
		d.complain("%s: the section is empty; remove it or fill it in", key)
		return nil, false
	case raw == nil: // as if it were not written
		return nil, false
	case isSetting:
		value, err := convert(key, s.typ, raw)
		if err != nil {
			d.complain("%s: %w", key, err)
			return nil, false
		}
		return value.Interface(), true
	}
	inner, ok := raw.(map[string]any)
	if !ok {
		d.complain("%s: must be a section with keys of its own, not %s", key, kindOf(raw))
		return nil, false
	}
	d.present[key] = true
	return d.section(key, inner), true
}

func (d *fileDecoder) complain(format string, args ...any) {
	d.problems = append(d.problems, fmt.Errorf(format, args...))
}

var yamlLine = regexp.MustCompile(`line (\d+): (.*)`)

// yamlProblem keeps of a YAML error what cannot hold a piece of the file: an
// unquoted password that begins with "*" is an alias to YAML, which would
// print it as the name that it does not know.
func yamlProblem(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	switch {
	case strings.Contains(text, "cannot unmarshal"):
		return errors.New("not a YAML mapping of keys to values")
	case strings.Contains(text, "unknown anchor"):
		return errors.New("not valid YAML: a value begins with * (put it in quotes)")
	case strings.Contains(text, "already defined"):
		return errors.New("not valid YAML: a key is there twice: " + firstLine(text))
	}
	if m := yamlLine.FindStringSubmatch(text); m != nil && !strings.ContainsAny(m[2], "`{") {
		return fmt.Errorf("not valid YAML: line %s: %s", m[1], m[2])
	}
	return errors.New("not valid YAML")
}

func firstLine(text string) string {
	if m := yamlLine.FindString(text); m != "" {
		return m
	}
	return "no line known"
}
