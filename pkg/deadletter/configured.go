package deadletter

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// maxDialects is the maximum number of dialects that a user may add; a dialectSet has no bits for more.
const maxDialects = 32

var dialectName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// compileDialects compiles the user's dialects. Its error names the setting of each problem.
func compileDialects(list []DialectConfig) ([]*dialect, error) {
	var errs []error
	wrong := func(field, reason string) { errs = append(errs, &entity.FieldError{Field: field, Reason: reason}) }
	if len(list) > maxDialects {
		wrong("kafka.dialects", fmt.Sprintf("must be %d or fewer", maxDialects))
	}
	taken := make(map[string]bool)
	for _, name := range Dialects() {
		taken[name] = true
	}
	out := make([]*dialect, len(list))
	for i := range list {
		where := fmt.Sprintf("kafka.dialects[%d]", i)
		switch name := list[i].Name; {
		case !dialectName.MatchString(name):
			wrong(where+".name", fmt.Sprintf("%q: must be 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit", name))
		case taken[name]:
			wrong(where+".name", fmt.Sprintf("%q is the name of another dialect", name))
		}
		taken[list[i].Name] = true
		list[i].check(where, wrong)
		topics, err := list[i].patterns(where + ".topics")
		errs = append(errs, err)
		out[i] = list[i].dialect(topics)
	}
	return out, errors.Join(errs...)
}

// check reports problems with the names of a dialect's headers.
func (c DialectConfig) check(where string, wrong func(field, reason string)) {
	header := func(field, name string) {
		switch {
		case name == "":
			wrong(where+"."+field, "must not be empty")
		case ours(name):
			wrong(where+"."+field, name+" is a header of ours, which no producer writes")
		}
	}
	if len(c.Anchors) == 0 {
		wrong(where+".anchors", "at least one header is needed to recognise a record by")
	}
	for i, name := range c.Anchors {
		header(fmt.Sprintf("anchors[%d]", i), name)
	}
	reads := false
	for _, f := range c.fields() {
		if f.header != "" {
			header(f.key, f.header)
			reads = true
		}
	}
	if !reads {
		wrong(where, "names no header to read: topic, partition, offset, timestamp, class, message, stack, group or attempts")
	}
	if c.Topic == "" && c.Partition+c.Offset != "" {
		wrong(where+".topic", "is needed where partition or offset is given")
	}
	for i, name := range c.Strip {
		if stem := strings.TrimSuffix(name, "*"); stem == "" || strings.Contains(stem, "*") {
			wrong(fmt.Sprintf("%s.strip[%d]", where, i), fmt.Sprintf("%q: must be a header's name, or a prefix that ends with *", name))
		}
	}
}

// fields returns the headers that the dialect reads, each with the key of its setting.
func (c DialectConfig) fields() []struct{ key, header string } {
	return []struct{ key, header string }{
		{"topic", c.Topic},
		{"partition", c.Partition},
		{"offset", c.Offset},
		{"timestamp", c.Timestamp},
		{"class", c.Class},
		{"message", c.Message},
		{"stack", c.Stack},
		{"group", c.Group},
		{"attempts", c.Attempts},
	}
}

func (c DialectConfig) patterns(field string) (Patterns, error) {
	if len(c.Topics) == 0 {
		return entity.ParseTopicPatterns(field, "*")
	}
	return parsePatterns(field, c.Topics)
}

// parsePatterns does the same as entity.ParseTopicPatterns, but its errors name the index of each wrong pattern.
func parsePatterns(field string, list []string) (Patterns, error) {
	var errs []error
	for i, text := range list {
		if _, err := entity.ParseTopicPattern(text); err != nil {
			errs = append(errs, &entity.FieldError{Field: fmt.Sprintf("%s[%d]", field, i), Reason: err.Error()})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Patterns{}, err
	}
	return entity.ParseTopicPatterns(field, list...)
}

func (c DialectConfig) dialect(topics Patterns) *dialect {
	return &dialect{
		name: c.Name, configured: true, where: topics,
		anchors: [][]string{slices.Clone(c.Anchors)}, newestFirst: c.NewestFirst,
		topic: c.Topic, partition: c.Partition, offset: c.Offset, timestamp: c.Timestamp,
		classes: some(c.Class), messages: some(c.Message), stacks: some(c.Stack),
		groups: some(c.Group), attempts: some(c.Attempts),
	}
}

// strippedForConfigured returns, by the name of each of the user's dialects, the headers that the dialect reads or
// lists in Strip. If none of these is an anchor, a replay would be recognised as a dead letter again, so then the
// anchors are returned too.
func strippedForConfigured(list []DialectConfig) map[string]ownNames {
	out := make(map[string]ownNames, len(list))
	for _, c := range list {
		own := ownNames{names: map[string]bool{}}
		for _, f := range c.fields() {
			if f.header != "" {
				own.names[f.header] = true
			}
		}
		for _, name := range c.Strip {
			if prefix, ok := strings.CutSuffix(name, "*"); ok {
				own.prefixes = append(own.prefixes, prefix)
			} else {
				own.names[name] = true
			}
		}
		if !slices.ContainsFunc(c.Anchors, own.has) {
			for _, anchor := range c.Anchors {
				own.names[anchor] = true
			}
		}
		out[c.Name] = own
	}
	return out
}
