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
	// maxConditions bounds how often header, payload, and words may be asked for.
	maxConditions = 10

	// minWord is the shortest word that a search can look up.
	minWord = 3

	unknownOrigin = "unknown"
)

// filterOrder says which messages are meant, in the words of the request. Queries
// and bodies name the same things alike.
type filterOrder struct {
	topic         option[string]
	status        option[[]string]
	errorClass    option[string]
	consumerGroup option[string]
	dialect       option[string]
	groupID       option[string]
	origin        option[string]
	createdAfter  option[string]
	createdBefore option[string]
	retriedAfter  option[string]
	retriedBefore option[string]
	key           option[string]
	keyBase64     option[string]
	header        option[[]string]
	payload       option[[]string]
	words         option[string]
}

// texts and lists name the parameters and where their values go.
func (f *filterOrder) texts() map[string]*option[string] {
	return map[string]*option[string]{
		"topic": &f.topic, "error_class": &f.errorClass, "consumer_group": &f.consumerGroup, "dialect": &f.dialect,
		"group_id": &f.groupID, "origin": &f.origin, "created_after": &f.createdAfter, "created_before": &f.createdBefore,
		"retried_after": &f.retriedAfter, "retried_before": &f.retriedBefore, "key": &f.key, "key_base64": &f.keyBase64,
		"q": &f.words,
	}
}

func (f *filterOrder) lists() map[string]*option[[]string] {
	return map[string]*option[[]string]{"status": &f.status, "header": &f.header, "payload": &f.payload}
}

// fields are those of a filter within a body.
func (f *filterOrder) fields() fields {
	all := fields{}
	for name, target := range f.texts() {
		all[name] = target
	}
	for name, target := range f.lists() {
		all[name] = target
	}
	return all
}

// filterNames are the parameters of a filter; what they say is what a cursor is
// bound to.
func filterNames() []string {
	var f filterOrder
	var names []string
	for name := range f.fields() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// filterOf reads the filter of a query, and says everything that is wrong with
// it.
func filterOf(r *http.Request, p *problems) entity.Filter {
	query := r.URL.Query()
	var f filterOrder
	texts, lists := f.texts(), f.lists()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		target := texts[name]
		text, err := textParameter(query, name)
		if p.note(err); err == nil && query.Has(name) {
			target.given, target.value = true, text
		}
	}
	for name, target := range lists {
		target.given, target.value = query.Has(name), query[name]
	}
	f.status.value = splitAll(f.status.value)
	for _, at := range []*option[string]{&f.createdAfter, &f.createdBefore, &f.retriedAfter, &f.retriedBefore} {
		// The plus sign of an offset, sent as it is, has become a space.
		at.value = strings.Replace(at.value, " ", "+", 1)
	}
	return f.read("", p)
}

func splitAll(lists []string) []string {
	var all []string
	for _, list := range lists {
		all = append(all, strings.Split(list, ",")...)
	}
	return all
}

// read understands the filter. prefix stands before the names in errors.
func (f *filterOrder) read(prefix string, p *problems) entity.Filter {
	in := filterReader{prefix, p}
	filter := entity.Filter{
		Statuses:      in.statuses(f.status),
		ErrorClass:    in.text("error_class", f.errorClass, maxFilterText),
		ConsumerGroup: in.text("consumer_group", f.consumerGroup, maxFilterText),
		Dialect:       in.text("dialect", f.dialect, maxFilterText),
		Group:         in.id("group_id", f.groupID),
		UnknownOrigin: in.origin(f.origin),
		Headers:       in.headers(f.header),
		Fields:        in.places(f.payload),
		Words:         in.words(f.words),
		Key:           in.key(f.key, f.keyBase64),
	}
	filter.Topic, filter.Topics = in.topics(f.topic)
	filter.CreatedAfter, filter.CreatedBefore = in.span("created", f.createdAfter, f.createdBefore)
	filter.RetriedAfter, filter.RetriedBefore = in.span("retried", f.retriedAfter, f.retriedBefore)
	return filter
}

// filterReader reads the parts of a filter, and notes what is wrong with them.
type filterReader struct {
	prefix string
	*problems
}

func (in filterReader) bad(is bool, name, format string, args ...any) bool {
	return in.refuse(is, in.prefix+name, format, args...)
}

func (in filterReader) text(name string, text option[string], most int) string {
	if in.bad(text.given && (text.value == "" || !possibleText(text.value, most)), name,
		"must have 1 to %d characters, and none of them NUL", most) {
		return ""
	}
	return text.value
}

// topics tells a name from a glob: no topic has a star in its name.
func (in filterReader) topics(text option[string]) (name string, globs entity.TopicPatterns) {
	name = in.text("topic", text, maxTopic)
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

func (in filterReader) statuses(list option[[]string]) []entity.Status {
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

func (in filterReader) id(name string, text option[string]) uuid.UUID {
	id, ok := canonicalID(text.value)
	if in.bad(text.given && (!ok || id == uuid.Nil), name, "must be the id of an error group") {
		return uuid.Nil
	}
	return id
}

func (in filterReader) origin(text option[string]) bool {
	return !in.bad(text.given && text.value != unknownOrigin, "origin", "must be %s", unknownOrigin) && text.given
}

func (in filterReader) time(name string, text option[string]) time.Time {
	if !text.given {
		return time.Time{}
	}
	at, err := parseTime(in.prefix+name, text.value)
	in.note(err)
	return at
}

func (in filterReader) span(what string, after, before option[string]) (from, until time.Time) {
	from, until = in.time(what+"_after", after), in.time(what+"_before", before)
	in.bad(!until.IsZero() && !until.After(from), what+"_before", "must be later than %s_after", what)
	return from, until
}

// key may be empty, which is not the same as none.
func (in filterReader) key(text, encoded option[string]) []byte {
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
func (in filterReader) headers(list option[[]string]) []entity.HeaderMatch {
	var matches []entity.HeaderMatch
	for _, text := range in.conditions("header", list) {
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

func (in filterReader) conditions(name string, list option[[]string]) []string {
	if in.bad(list.given && (len(list.value) == 0 || len(list.value) > maxConditions), name, "must be 1 to %d conditions", maxConditions) {
		return nil
	}
	return list.value
}

// places are path or path=value each, with spaces as anybody likes.
func (in filterReader) places(list option[[]string]) []entity.FieldMatch {
	var matches []entity.FieldMatch
	for _, text := range in.conditions("payload", list) {
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

// words are lower case; what stands between quotation marks is one of them.
func (in filterReader) words(text option[string]) []string {
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

// splitWords takes text apart at spaces outside of quotation marks. closed is
// false when the last quotation mark has no partner.
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

// showFilter is filterOf backwards, as far as a filter says it.
func (s *Server) showFilter(f entity.Filter) *filterJSON {
	shown := &filterJSON{
		Topic:         orNull(f.Topic),
		Status:        f.Statuses,
		ErrorClass:    orNull(f.ErrorClass),
		ConsumerGroup: orNull(f.ConsumerGroup),
		Dialect:       orNull(f.Dialect),
		GroupID:       orNull(f.Group),
		CreatedAfter:  stamp(f.CreatedAfter),
		CreatedBefore: stamp(f.CreatedBefore),
		RetriedAfter:  stamp(f.RetriedAfter),
		RetriedBefore: stamp(f.RetriedBefore),
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
		text := string(f.Key)
		shown.Key = &text
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

// showHeaderMatch and showFieldMatch keep what is masked from those who look at
// what others have searched for.
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
	var plain string // stands for the string and for the number of that spelling
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

// redactedQuery is a query without the values that a masked field or header was
// compared with.
func (s *Server) redactedQuery(query url.Values) string {
	shown := url.Values{}
	for name, values := range query {
		shown[name] = slices.Clone(values)
	}
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
