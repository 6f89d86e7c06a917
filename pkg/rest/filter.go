package rest

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

const (
	maxConditions = 10

	minWord = 3

	unknownOrigin = "unknown"
)

// The parameters of a filter, to which a cursor is bound.
var (
	filterTexts = []string{
		"consumer_group", "created_after", "created_before", "dialect", "error_class", "group_id", "key", "key_base64",
		"origin", "q", "retried_after", "retried_before", "topic",
	}
	filterLists = []string{"header", "payload", "status"}
)

// filterOrder is a filter as the request gives it; queries and bodies use the same names.
type filterOrder struct {
	texts map[string]*option[string]
	lists map[string]*option[[]string]
}

func newFilterOrder() filterOrder {
	f := filterOrder{map[string]*option[string]{}, map[string]*option[[]string]{}}
	for _, name := range filterTexts {
		f.texts[name] = &option[string]{}
	}
	for _, name := range filterLists {
		f.lists[name] = &option[[]string]{}
	}
	return f
}

func (f filterOrder) fields() fields {
	all := fields{}
	for name, target := range f.texts {
		all[name] = target
	}
	for name, target := range f.lists {
		all[name] = target
	}
	return all
}

// filterOf reads the filter of a query, and reports every problem.
func filterOf(r *http.Request, p *problems) entity.Filter {
	query, f := r.URL.Query(), newFilterOrder()
	for _, name := range filterTexts {
		text, err := textParameter(query, name)
		if strings.HasSuffix(name, "_after") || strings.HasSuffix(name, "_before") {
			text = strings.Replace(text, " ", "+", 1) // the sign of an offset that was sent unescaped
		}
		if p.note(err); err == nil && query.Has(name) {
			*f.texts[name] = option[string]{true, text}
		}
	}
	for _, name := range filterLists {
		*f.lists[name] = option[[]string]{query.Has(name), query[name]}
	}
	if status := f.lists["status"]; status.given {
		status.value = strings.Split(strings.Join(status.value, ","), ",")
	}
	return f.read("", p)
}

// read reads the filter. prefix goes in front of the names in errors.
func (f filterOrder) read(prefix string, p *problems) entity.Filter {
	in := filterReader{f, prefix, p}
	filter := entity.Filter{
		Statuses: in.statuses(), ErrorClass: in.text("error_class", maxFilterText),
		ConsumerGroup: in.text("consumer_group", maxFilterText), Dialect: in.text("dialect", maxFilterText),
		Group: in.group(), UnknownOrigin: in.origin(), Headers: in.headers(), Fields: in.places(), Words: in.words(),
		Key: in.key(),
	}
	filter.Topic, filter.Topics = in.topics()
	filter.CreatedAfter, filter.CreatedBefore = in.span("created")
	filter.RetriedAfter, filter.RetriedBefore = in.span("retried")
	return filter
}

type filterReader struct {
	filterOrder
	prefix string
	*problems
}

func (in filterReader) bad(is bool, name, format string, args ...any) bool {
	return in.refuse(is, in.prefix+name, format, args...)
}

func (in filterReader) text(name string, most int) string {
	text := in.texts[name]
	if in.bad(text.given && (text.value == "" || !possibleText(text.value, most)), name,
		"must have 1 to %d characters, and none of them NUL", most) {
		return ""
	}
	return text.value
}

// topics reads a name, or a glob: no name has a star.
func (in filterReader) topics() (name string, globs entity.TopicPatterns) {
	name = in.text("topic", maxTopic)
	if !strings.Contains(name, "*") {
		return name, globs
	}
	plain := strings.ReplaceAll(name, "*", "x")
	if in.bad(len(name) > entity.MaxTopic || !entity.ValidTopic(plain), "topic",
		"a glob has A-Z a-z 0-9 . _ - and *, which stands for one or more of these, and at most %d characters", entity.MaxTopic) {
		return "", globs
	}
	globs, err := entity.ParseTopicPatterns(in.prefix+"topic", name)
	in.note(err)
	return "", globs
}

func (in filterReader) statuses() []entity.Status {
	list := in.lists["status"]
	if in.bad(list.given && len(list.value) == 0, "status", "must not be empty") {
		return nil
	}
	var statuses []entity.Status
	for _, text := range list.value {
		status, err := entity.ParseStatus(text)
		if in.bad(err != nil, "status", "%s", oneOf(entity.Statuses())) {
			return nil
		}
		statuses = append(statuses, status)
	}
	return statuses
}

func (in filterReader) group() uuid.UUID {
	text := in.texts["group_id"]
	id, ok := canonicalID(text.value)
	if in.bad(text.given && (!ok || id == uuid.Nil), "group_id", "must be the id of an error group") {
		return uuid.Nil
	}
	return id
}

func (in filterReader) origin() bool {
	text := in.texts["origin"]
	return !in.bad(text.given && text.value != unknownOrigin, "origin", "must be %s", unknownOrigin) && text.given
}

func (in filterReader) time(name string) time.Time {
	text := in.texts[name]
	if !text.given {
		return time.Time{}
	}
	at, err := parseTime(in.prefix+name, text.value)
	in.note(err)
	return at
}

func (in filterReader) span(what string) (from, until time.Time) {
	from, until = in.time(what+"_after"), in.time(what+"_before")
	in.bad(!until.IsZero() && !until.After(from), what+"_before", "must be later than %s_after", what)
	return from, until
}

// key may be empty, which differs from no key.
func (in filterReader) key() []byte {
	text, encoded := in.texts["key"], in.texts["key_base64"]
	switch {
	case in.bad(text.given && encoded.given, "key", "give either key or key_base64"):
		return nil
	case text.given:
		in.bad(len(text.value) > maxFilterText, "key", "must have at most %d bytes", maxFilterText)
		return []byte(text.value)
	case !encoded.given:
		return nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded.value)
	in.bad(err != nil || len(key) > maxFilterText, "key_base64", "must be at most %d bytes in base64", maxFilterText)
	return key
}

// headers are name or name=value each.
func (in filterReader) headers() []entity.HeaderMatch {
	var matches []entity.HeaderMatch
	for _, text := range in.conditions("header") {
		name, value, valued := strings.Cut(text, "=")
		if in.bad(name == "" || !possibleText(name, maxFilterText) || len(value) > maxFilterText, "header",
			"must be name or name=value, each of at most %d characters", maxFilterText) {
			return nil
		}
		match := entity.HeaderMatch{Name: name}
		if valued {
			match.Value = []byte(value)
		}
		matches = append(matches, match)
	}
	return matches
}

func (in filterReader) conditions(name string) []string {
	list := in.lists[name]
	if in.bad(list.given && (len(list.value) == 0 || len(list.value) > maxConditions), name, "must be 1 to %d conditions", maxConditions) {
		return nil
	}
	return list.value
}

// places are path or path=value each, with any number of spaces.
func (in filterReader) places() []entity.FieldMatch {
	var matches []entity.FieldMatch
	for _, text := range in.conditions("payload") {
		match, ok := fieldMatch(text)
		if in.bad(!ok, "payload", "must be a path such as $.customer.id or $.items[*].sku, "+
			"alone or with = and a JSON scalar or plain text, of at most %d characters", maxFilterText) {
			return nil
		}
		matches = append(matches, match)
	}
	return matches
}

func fieldMatch(text string) (entity.FieldMatch, bool) {
	if !possibleText(text, maxFilterText) {
		return entity.FieldMatch{}, false
	}
	path, rest, err := payload.ReadPath(strings.TrimSpace(text))
	if err != nil {
		return entity.FieldMatch{}, false
	}
	match := entity.FieldMatch{Path: path.String()}
	if rest = strings.TrimSpace(rest); rest == "" {
		return match, true
	}
	value, valued := strings.CutPrefix(rest, "=")
	if value = strings.TrimSpace(value); !valued || value == "" {
		return match, false
	}
	match.Values = payload.ParseScalars(value)
	return match, len(match.Values) > 0
}

// words are lower case; text between quotation marks is one of them.
func (in filterReader) words() []string {
	text := in.texts["q"]
	if !text.given {
		return nil
	}
	words, closed := splitWords(strings.ToLower(text.value))
	short := slices.ContainsFunc(words, func(w string) bool { return utf8.RuneCountInString(w) < minWord })
	if in.bad(!possibleText(text.value, maxFilterText) || !closed || short || len(words) == 0 || len(words) > maxConditions, "q",
		`must be 1 to %d words of at least %d characters each; "several words" between quotation marks are one`, maxConditions, minWord) {
		return nil
	}
	return words
}

// splitWords splits text at spaces outside of quotation marks. closed is false when the last one has no partner.
func splitWords(text string) (words []string, closed bool) {
	for {
		text = strings.TrimSpace(text)
		if text == "" {
			return words, true
		}
		var word string
		if quoted, ok := strings.CutPrefix(text, `"`); ok {
			if word, text, closed = strings.Cut(quoted, `"`); !closed {
				return words, false
			}
		} else if end := strings.IndexFunc(text, isSpaceOrQuote); end < 0 {
			word, text = text, ""
		} else {
			word, text = text[:end], text[end:]
		}
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
}

func isSpaceOrQuote(c rune) bool {
	return c == '"' || strings.ContainsRune(" \t\r\n\v\f\u0085\u00a0", c)
}

// showFilter is the inverse of filterOf, as far as a filter keeps the request's values.
func (s *Server) showFilter(f entity.Filter) *filterJSON {
	shown := &filterJSON{
		Topic: orNull(f.Topic), Status: f.Statuses, ErrorClass: orNull(f.ErrorClass),
		ConsumerGroup: orNull(f.ConsumerGroup), Dialect: orNull(f.Dialect), GroupID: orNull(f.Group),
		CreatedAfter: stamp(f.CreatedAfter), CreatedBefore: stamp(f.CreatedBefore),
		RetriedAfter: stamp(f.RetriedAfter), RetriedBefore: stamp(f.RetriedBefore),
	}
	for name, text := range map[string]*string{"error_class": shown.ErrorClass, "consumer_group": shown.ConsumerGroup} {
		if text != nil && s.maskedParameter(name) {
			*text = maskedText
		}
	}
	if globs := f.Topics.Texts(); len(globs) > 0 {
		shown.Topic = orNull(strings.Join(globs, ", "))
	}
	if f.UnknownOrigin {
		shown.Origin = orNull(unknownOrigin)
	}
	if utf8.Valid(f.Key) && f.Key != nil {
		shown.Key = new(string(f.Key))
	} else {
		shown.KeyBase64 = f.Key
	}
	for _, h := range f.Headers {
		shown.Header = append(shown.Header, s.showHeaderMatch(h))
	}
	for _, m := range f.Fields {
		shown.Payload = append(shown.Payload, s.showFieldMatch(m))
	}
	if len(f.Words) > 0 {
		shown.Words = orNull(joinWords(f.Words))
	}
	return shown
}

// showHeaderMatch and showFieldMatch hide masked values in filters that other users have searched with.
func (s *Server) showHeaderMatch(h entity.HeaderMatch) string {
	switch {
	case h.Value == nil:
		return h.Name
	case s.masks.Header(h.Name):
		return h.Name + "=" + maskedText
	default:
		return h.Name + "=" + strings.ToValidUTF8(string(h.Value), "\uFFFD")
	}
}

func (s *Server) showFieldMatch(m entity.FieldMatch) string {
	if len(m.Values) == 0 {
		return m.Path
	}
	if path, err := payload.ParsePath(m.Path); err != nil || s.masks.CoversPath(path) {
		return m.Path + "=" + maskedText
	}
	if len(m.Values) == 1 {
		return m.Path + "=" + m.Values[0]
	}
	var plain string // the string and the number of that spelling
	if json.Unmarshal([]byte(m.Values[0]), &plain) != nil {
		plain = m.Values[0]
	}
	return m.Path + "=" + plain
}

func joinWords(words []string) string {
	var all []string
	for _, word := range words {
		if strings.ContainsFunc(word, isSpaceOrQuote) {
			word = `"` + word + `"`
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}

// redactedQuery returns a query without the values that were compared with masked fields or headers.
func (s *Server) redactedQuery(query url.Values) string {
	shown := maps.Clone(query)
	shown["header"], shown["payload"] = slices.Clone(query["header"]), slices.Clone(query["payload"])
	for _, name := range []string{"error_class", "consumer_group"} {
		if s.maskedParameter(name) && shown.Has(name) {
			shown.Set(name, maskedText)
		}
	}
	for i, text := range shown["header"] {
		if name, _, valued := strings.Cut(text, "="); valued && s.masks.Header(name) {
			shown["header"][i] = name + "=" + maskedText
		}
	}
	for i, text := range shown["payload"] {
		if match, ok := fieldMatch(text); !ok || len(match.Values) > 0 {
			shown["payload"][i] = s.showFieldMatch(match)
		}
	}
	delete(shown, "cursor")
	return shown.Encode()
}
