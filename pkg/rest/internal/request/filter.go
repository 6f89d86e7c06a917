package request

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

const (
	// MaxFilterText is the maximum length of a text in a filter, in characters; of a key or a header's value, in bytes.
	MaxFilterText = 1000

	maxConditions = 10
	maxFilterIDs  = 1000

	minWord = 3 // shortest word of a search, in characters
)

// dense lists scripts in which two characters are already enough for a word of a search.
var dense = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul}

// Names of the parameters of a filter: those with one text, and those with a list of texts.
var (
	filterTexts = []string{
		"consumer_group", "created_after", "created_before", "dialect", "error_class", "group_id", "key", "key_base64",
		"origin", "q", "retried_after", "retried_before", "topic",
	}
	filterLists = []string{"header", "id", "payload", "status"}
)

// FilterParameters returns the names of all parameters of a filter. The cursor of a list is valid only while these
// parameters have the same values.
func FilterParameters() []string { return slices.Concat(filterTexts, filterLists) }

// FilterOrder contains the conditions of a filter as the request gives them; queries and bodies use the same names.
type FilterOrder struct {
	texts map[string]*Option[string]
	lists map[string]*Option[[]string]
}

// NewFilterOrder returns a filter without conditions.
func NewFilterOrder() FilterOrder {
	f := FilterOrder{map[string]*Option[string]{}, map[string]*Option[[]string]{}}
	for _, name := range filterTexts {
		f.texts[name] = &Option[string]{}
	}
	for _, name := range filterLists {
		f.lists[name] = &Option[[]string]{}
	}
	return f
}

// Fields returns the fields of a body that contains a filter. Decoding such a body sets the conditions of f.
func (f FilterOrder) Fields() Fields {
	all := Fields{}
	for name, target := range f.texts {
		all[name] = target
	}
	for name, target := range f.lists {
		all[name] = target
	}
	return all
}

// ReadFilter reads the filter of a query, and reports every problem.
func ReadFilter(query url.Values, p *Problems) entity.Filter {
	return ReadFilterOrder(query, p).Read("", p)
}

// ReadFilterOrder reads the conditions of a filter from the query of a request.
func ReadFilterOrder(query url.Values, p *Problems) FilterOrder {
	f := NewFilterOrder()
	for _, name := range filterTexts {
		text, err := Text(query, name)
		if strings.HasSuffix(name, "_after") || strings.HasSuffix(name, "_before") {
			text = strings.Replace(text, " ", "+", 1) // an unescaped plus sign arrives as a space
		}
		if p.Add(err); err == nil && query.Has(name) {
			*f.texts[name] = Option[string]{true, text}
		}
	}
	for _, name := range filterLists {
		*f.lists[name] = Option[[]string]{query.Has(name), query[name]}
	}
	for _, name := range []string{"id", "status"} {
		if list := f.lists[name]; list.Given {
			list.Value = strings.Split(strings.Join(list.Value, ","), ",")
		}
	}
	return f
}

// With returns the conditions of f and one more condition, which replaces a condition of the same name unless the name
// is header, payload or id. It returns false when a filter cannot contain all of these conditions.
func (f FilterOrder) With(name, value string) (FilterOrder, bool) {
	all := FilterOrder{maps.Clone(f.texts), maps.Clone(f.lists)}
	switch {
	case f.texts[name] != nil:
		all.texts[name] = &Option[string]{true, value}
	case name == "status":
		all.lists[name] = &Option[[]string]{true, []string{value}}
	default:
		all.lists[name] = &Option[[]string]{true, append(slices.Clone(f.lists[name].Value), value)}
	}
	var p Problems
	all.Read("", &p)
	return all, len(p) == 0
}

// Has reports whether there is a condition of that name.
func (f FilterOrder) Has(name string) bool {
	return f.texts[name] != nil && f.texts[name].Given || f.lists[name] != nil && f.lists[name].Given
}

// Show returns the conditions by their names, in the form in which a request for a redrive contains its filter.
func (f FilterOrder) Show() map[string]any {
	shown := map[string]any{}
	for name, text := range f.texts {
		if text.Given {
			shown[name] = text.Value
		}
	}
	for name, list := range f.lists {
		if list.Given {
			shown[name] = list.Value
		}
	}
	return shown
}

// Read reads the filter. prefix goes in front of the names in errors.
func (f FilterOrder) Read(prefix string, p *Problems) entity.Filter {
	in := filterReader{f, prefix, p}
	filter := entity.Filter{
		MessageIDs: in.ids(), Statuses: in.statuses(), ErrorClass: in.text("error_class", MaxFilterText),
		ConsumerGroup: in.text("consumer_group", MaxFilterText), Dialect: in.text("dialect", MaxFilterText),
		Group: in.group(), UnknownOrigin: in.origin(), Headers: in.headers(), Fields: in.payloadFields(), Words: in.words(),
		Key: in.key(),
	}
	filter.Topic, filter.Topics = in.topics()
	filter.CreatedAfter, filter.CreatedBefore = in.timeRange("created")
	filter.RetriedAfter, filter.RetriedBefore = in.timeRange("retried")
	return filter
}

type filterReader struct {
	FilterOrder
	prefix string
	*Problems
}

func (in filterReader) bad(is bool, name, format string, args ...any) bool {
	return in.Refuse(is, in.prefix+name, format, args...)
}

func (in filterReader) text(name string, most int) string {
	text := in.texts[name]
	if in.bad(text.Given && (text.Value == "" || !PossibleText(text.Value, most)), name,
		"must have 1 to %d characters, and none of them NUL", most) {
		return ""
	}
	return text.Value
}

// topics reads the name of a topic, or a glob if the text has a star, because no name has a star.
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
	in.Add(err)
	return "", globs
}

func (in filterReader) statuses() []entity.Status {
	list := in.lists["status"]
	if in.bad(list.Given && len(list.Value) == 0, "status", "must not be empty") {
		return nil
	}
	var statuses []entity.Status
	for _, text := range list.Value {
		status, err := entity.ParseStatus(text)
		if in.bad(err != nil, "status", "%s", OneOf(entity.Statuses())) {
			return nil
		}
		statuses = append(statuses, status)
	}
	return statuses
}

func (in filterReader) ids() []uuid.UUID {
	list := in.lists["id"]
	if in.bad(list.Given && (len(list.Value) == 0 || len(list.Value) > maxFilterIDs), "id", "must be 1 to %d ids of messages", maxFilterIDs) {
		return nil
	}
	var ids []uuid.UUID
	for _, text := range list.Value {
		id, ok := CanonicalID(text)
		if in.bad(!ok, "id", "must be the id of a message, is %s", respond.Clip(text)) {
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}

func (in filterReader) group() uuid.UUID {
	text := in.texts["group_id"]
	id, ok := CanonicalID(text.Value)
	if in.bad(text.Given && (!ok || id == uuid.Nil), "group_id", "must be the id of an error group") {
		return uuid.Nil
	}
	return id
}

func (in filterReader) origin() bool {
	text := in.texts["origin"]
	return !in.bad(text.Given && text.Value != wire.UnknownOrigin, "origin", "must be %s", wire.UnknownOrigin) && text.Given
}

func (in filterReader) time(name string) time.Time {
	text := in.texts[name]
	if !text.Given {
		return time.Time{}
	}
	at, err := ParseTime(in.prefix+name, text.Value)
	in.Add(err)
	return at
}

func (in filterReader) timeRange(what string) (from, until time.Time) {
	from, until = in.time(what+"_after"), in.time(what+"_before")
	in.bad(!until.IsZero() && !until.After(from), what+"_before", "must be later than %s_after", what)
	return from, until
}

// key returns the key to search for. An empty key is a condition; nil means that there is no condition.
func (in filterReader) key() []byte {
	text, encoded := in.texts["key"], in.texts["key_base64"]
	switch {
	case in.bad(text.Given && encoded.Given, "key", "give either key or key_base64"):
		return nil
	case text.Given:
		in.bad(len(text.Value) > MaxFilterText, "key", "must have at most %d bytes", MaxFilterText)
		return []byte(text.Value)
	case !encoded.Given:
		return nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded.Value)
	in.bad(err != nil || len(key) > MaxFilterText, "key_base64", "must be at most %d bytes in base64", MaxFilterText)
	return key
}

// headers reads conditions on headers, each of the form name or name=value.
func (in filterReader) headers() []entity.HeaderMatch {
	var matches []entity.HeaderMatch
	for _, text := range in.conditions("header") {
		name, value, valued := strings.Cut(text, "=")
		if in.bad(name == "" || !PossibleText(name, MaxFilterText) || len(value) > MaxFilterText, "header",
			"must be name or name=value, each of at most %d characters", MaxFilterText) {
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
	if in.bad(list.Given && (len(list.Value) == 0 || len(list.Value) > maxConditions), name, "must be 1 to %d conditions", maxConditions) {
		return nil
	}
	return list.Value
}

// payloadFields reads conditions on payloads, each of the form path, path=value or path==value, with any number of
// spaces.
func (in filterReader) payloadFields() []entity.FieldMatch {
	var matches []entity.FieldMatch
	for _, text := range in.conditions("payload") {
		match, ok := ParseFieldMatch(text)
		if in.bad(!ok, "payload", "must be a path such as $.customer.id or $.items[*].sku, "+
			"alone, with = and a JSON scalar or plain text, or with == and a JSON scalar, of at most %d characters", MaxFilterText) {
			return nil
		}
		matches = append(matches, match)
	}
	return matches
}

// ParseFieldMatch reads path, path=value or path==value; false for other text. A value after == is JSON: 42 means only
// the number, and not the string.
func ParseFieldMatch(text string) (entity.FieldMatch, bool) {
	if !PossibleText(text, MaxFilterText) {
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
	if json, exact := strings.CutPrefix(value, "="); exact {
		scalar, ok := payload.Scalar([]byte(json))
		match.Values = []string{scalar}
		return match, ok
	}
	if value = strings.TrimSpace(value); !valued || value == "" {
		return match, false
	}
	match.Values = payload.ParseScalars(value)
	return match, len(match.Values) > 0
}

// words returns the words of a search as typed; text between quotation marks is one word.
func (in filterReader) words() []string {
	text := in.texts["q"]
	if !text.Given {
		return nil
	}
	words, closed := splitWords(text.Value)
	short := slices.ContainsFunc(words, tooShort)
	if in.bad(!PossibleText(text.Value, MaxFilterText) || !closed || short || len(words) == 0 || len(words) > maxConditions, "q",
		`must be 1 to %d words of at least %d characters each, 2 in Chinese, Japanese or Korean; "several words" between quotation marks are one`, maxConditions, minWord) {
		return nil
	}
	return words
}

// RefuseSlowWords refuses a filter whose words have only two characters, unless it has another condition that an index
// finds. Without an index, a redrive or an export would read every message. prefix goes in front of the name in the
// error.
func (p *Problems) RefuseSlowWords(prefix string, f entity.Filter) {
	indexed := len(f.MessageIDs) > 0 || f.Topic != "" || f.Group != uuid.Nil || len(f.Terms()) > 0 ||
		!f.CreatedAfter.IsZero() || !f.RetriedAfter.IsZero() ||
		slices.ContainsFunc(f.Words, func(word string) bool { return utf8.RuneCountInString(word) >= minWord })
	p.Refuse(len(f.Words) > 0 && !indexed, prefix+"q", "has only words of 2 characters, which no index finds: "+
		"add a word of at least %d, or one of topic (a name), group_id, id, key, header, payload, created_after, retried_after", minWord)
}

// ShowsMasked reports whether the query of a list contains a comparison with a masked value, or cannot be read.
func ShowsMasked(text string, by wire.Masking) bool {
	var p Problems
	query, err := url.ParseQuery(text)
	filter := ReadFilter(query, &p)
	return err != nil || len(p) > 0 || strings.Contains(string(wire.Encode(wire.NewFilter(filter, by))), wire.MaskedText)
}

func tooShort(word string) bool {
	n := utf8.RuneCountInString(word)
	return n < minWord && (n < 2 || !strings.ContainsFunc(word, func(r rune) bool { return unicode.IsOneOf(dense, r) }))
}

// splitWords splits text at spaces outside of quotation marks, and drops repeated words. closed is false when the last
// quotation mark has no partner.
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
		} else if end := strings.IndexFunc(text, wire.IsSpaceOrQuote); end < 0 {
			word, text = text, ""
		} else {
			word, text = text[:end], text[end:]
		}
		if !slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, word) }) {
			words = append(words, word)
		}
	}
}

const (
	// searchSlack is how late the search index may be while answers still count as complete. An indexer that has
	// nothing to do polls every two seconds.
	searchSlack = 10 * time.Second

	// searchLimit is how late the search index may be for exports, facets and redrives. These would take a message that
	// is not indexed yet for one that does not match.
	searchLimit = time.Minute
)

// Index tells up to which time the search index is complete.
type Index interface {
	IndexedUntil(ctx context.Context) (time.Time, error)
}

// SearchedUntil says how complete the search index was before a query. It is zero for a query that does not use the
// search index.
type SearchedUntil struct {
	asked   bool
	until   time.Time // time up to which the index is complete; zero: it was never built
	lag     time.Duration
	covered bool // the index is complete for the whole period of the query, which ended in the past
}

// QueryIndex asks how complete the search index is, for a query with the filter f. The caller must call it before the
// query: a time that is read after the query may be later than what the query has seen.
func QueryIndex(ctx context.Context, index Index, now func() time.Time, f entity.Filter) (SearchedUntil, error) {
	if !f.NeedsSearchIndex() {
		return SearchedUntil{}, nil
	}
	until, err := index.IndexedUntil(ctx)
	covered := !f.CreatedBefore.IsZero() && !f.CreatedBefore.After(until)
	return SearchedUntil{asked: true, until: until, lag: now().Sub(until), covered: covered}, err
}

// Until returns the time up to which the index is complete; zero for a query that does not use the index.
func (u SearchedUntil) Until() time.Time { return u.until }

// Show returns the text of the time up to which the index is complete; nil for a query that does not use the index,
// and for an empty index.
func (u SearchedUntil) Show() *string { return wire.Stamp(u.until) }

// Complete reports whether the query covers every message of its period, except those of the last seconds before now.
func (u SearchedUntil) Complete() bool { return !u.asked || u.covered || u.lag <= searchSlack }

// TooLate returns an error when the index is late by more than searchLimit, and not complete for the whole period of the
// query. field is the part of the request that uses the index.
func (u SearchedUntil) TooLate(field string) error {
	if !u.asked || u.covered || u.lag <= searchLimit {
		return nil
	}
	reason := "the search index is late: it is still empty"
	if at := u.Show(); at != nil {
		reason = "the search index is late: it is complete until " + *at
	}
	return respond.Refused(entity.ErrUnavailable, fmt.Sprintf("%s (%s)", reason, field), respond.Detail{Field: field, Reason: reason})
}

// TooBroad converts a *repository.TooBroadError to an error about the filter of the request, and returns all other
// errors unchanged.
func TooBroad(err error) error {
	var broad *repository.TooBroadError
	if !errors.As(err, &broad) {
		return err
	}
	return respond.Refused(entity.ErrInvalid, broad.Error(), respond.Detail{Field: "filter", Reason: strings.TrimPrefix(broad.Error(), "the filter ")})
}
