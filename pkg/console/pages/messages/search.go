package messages

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// token is a name that users can type into the search input: the text name:value sets a parameter of the API.
type token struct{ Name, Param, Hint string }

var tokens = []token{
	{"topic", "topic", "original or dead-letter topic, * for any characters"},
	{"status", "status", "pending, retrying, resolved or dead"},
	{"class", "error_class", "class of the error"},
	{"key", "key", "key of the record"},
	{"payload", "payload", "a field: payload.customer.id:42"},
	{"header", "header", "header:name or header:name=value"},
	{"consumer", "consumer_group", "consumer group"},
	{"group", "group_id", "id of the error group"},
	{"dialect", "dialect", "such as spring"},
	{"origin", "origin", "origin:unknown"},
	{"since", "since", "age, such as 15m, 24h or 7d"},
	{"after", "created_after", "received from: 2026-02-20"},
	{"before", "created_before", "received before: 2026-02-20"},
}

var severalOf = []string{"header", "payload"} // parameters that can have several values; all of them must match

// typedName is the parameter that keeps the text as the user typed it. It is set when the list shows the messages that
// contain the words of the text, which may be more messages than those that contain the text itself.
const typedName = "typed"

// takeTokens changes the query parameters of a page's URL. Text of the form name:value that a user typed as search
// words (parameter q) becomes the parameter of that name. Text copied from JSON or from a log ("name":"value",
// name=value) stays in q, as plain words, unless its value is true, false or null. takeTokens reports whether it
// changed a parameter.
func takeTokens(query url.Values) (changed bool) {
	typed := strings.Join(query["q"], " ")
	words, conditions, changed := readSearch(typed)
	if len(query["q"]) > 1 {
		words, changed = strings.TrimSpace(words), true
	}
	if !changed {
		return false
	}
	if query.Set("q", words); len(conditions) == 0 && words != typed && !strings.Contains(typed, `"`) {
		query.Set(typedName, strings.TrimSpace(typed))
	}
	for name, values := range conditions {
		if !slices.Contains(severalOf, name) {
			query.Del(name)
		}
		for _, value := range values {
			if !slices.Contains(query[name], value) {
				query.Add(name, value)
			}
		}
	}
	return true
}

// readSearch splits the text of the search input into words and conditions. If the text contains neither a condition
// (name:value) nor a pair (such as name=value), it is returned unchanged as words.
func readSearch(text string) (words string, conditions url.Values, changed bool) {
	in := searchReader{rest: text, conditions: url.Values{}}
	for in.next() {
	}
	if !in.changed {
		return text, nil, false
	}
	return strings.Join(in.words, " "), in.conditions, true
}

type searchReader struct {
	rest       string
	words      []string
	conditions url.Values
	changed    bool
}

func isSeparator(c rune) bool { return c == '"' || unicode.IsSpace(c) }

var (
	jsonBegins = regexp.MustCompile(`^[{}\[\],\s]*"`)
	isName     = regexp.MustCompile(`^[\pL_][\pL\d_.$-]*$`)
	states     = []string{"PENDING", "RETRYING", "RESOLVED", "DEAD"}
)

// next reads one word, phrase, condition (name:value) or pair (name=value) of the search input, and reports whether
// there was one.
func (in *searchReader) next() bool {
	if begin := jsonBegins.FindString(in.rest); begin != "" {
		in.changed = in.changed || strings.TrimSpace(begin) != `"`
		in.rest = in.rest[len(begin)-1:]
	}
	in.rest = strings.TrimLeftFunc(in.rest, unicode.IsSpace)
	if in.rest == "" {
		return false
	}
	if in.rest[0] == '"' {
		in.quoted()
		return true
	}
	end := strings.IndexFunc(in.rest, isSeparator)
	if end < 0 {
		end = len(in.rest)
	}
	text := in.rest[:end]
	in.rest = in.rest[end:]
	if !in.token(text) && !in.barePair(text) {
		in.words = append(in.words, text)
	}
	return true
}

// quoted reads a member of JSON, or else a phrase between quotation marks.
func (in *searchReader) quoted() {
	if name, rest, ok := cutString(in.rest); ok {
		if value, isPair := strings.CutPrefix(strings.TrimLeftFunc(rest, unicode.IsSpace), ":"); isPair {
			in.rest = strings.TrimLeftFunc(value, unicode.IsSpace)
			in.pair(name, in.value())
			return
		}
	}
	phrase, rest, closed := strings.Cut(in.rest[1:], `"`)
	if in.rest = rest; closed {
		phrase += `"`
	}
	in.words = append(in.words, `"`+phrase)
}

// value reads the value of a JSON member: "" for an object or an array, whose members follow.
func (in *searchReader) value() string {
	if text, rest, ok := cutString(in.rest); ok {
		in.rest = strings.TrimLeft(rest, ",}] ")
		return text
	}
	end := strings.IndexFunc(in.rest, func(c rune) bool { return isSeparator(c) || strings.ContainsRune("{}[],", c) })
	if end < 0 {
		end = len(in.rest)
	}
	text := in.rest[:end]
	in.rest = strings.TrimLeft(in.rest[end:], "{}[], ")
	return text
}

// cutString reads the JSON string at the beginning of a text.
func cutString(text string) (content, rest string, ok bool) {
	for i := 1; i < len(text) && text[0] == '"'; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return content, text[i+1:], json.Unmarshal([]byte(text[:i+1]), &content) == nil
		}
	}
	return "", text, false
}

// token reads a condition of the form name:value, payload.PATH:value or $.PATH=value.
func (in *searchReader) token(text string) bool {
	name, value, _ := strings.Cut(text, ":")
	if path, isPath := strings.CutPrefix(name, "payload."); isPath || strings.HasPrefix(text, "$.") {
		if !isPath {
			name, value = cutPair(text)
			path = strings.TrimPrefix(name, "$.")
		}
		if value = in.completed(value); value != "" {
			value = " = " + value
		}
		return in.set("payload", "$."+path+value)
	}
	at := slices.IndexFunc(tokens, func(t token) bool { return t.Name == name || t.Param == name })
	if at < 0 || !strings.Contains(text, ":") {
		return false
	}
	if value = in.completed(value); value == "" {
		return false
	}
	switch param := tokens[at].Param; param {
	case "status":
		given := strings.Split(strings.ToUpper(value), ",")
		if slices.ContainsFunc(given, func(s string) bool { return !slices.Contains(states, s) }) {
			return false
		}
		for _, status := range given {
			in.set(param, status)
		}
	case "payload":
		if path, content := cutPair(value); !strings.HasPrefix(value, "$") {
			value = "$." + path
			if content != "" {
				value += " = " + content
			}
		}
		in.set(param, value)
	default:
		in.set(param, value)
	}
	return true
}

// completed returns the value together with the text between quotation marks that directly follows it in the input.
func (in *searchReader) completed(value string) string {
	if value != "" && !strings.HasSuffix(value, "=") {
		return value
	}
	text, rest, ok := cutString(in.rest)
	if ok {
		in.rest = rest
	}
	return value + text
}

func (in *searchReader) set(param, value string) bool {
	in.changed = true
	in.conditions.Add(param, value)
	return true
}

// barePair reads name=value, name:value or name: value.
func (in *searchReader) barePair(text string) bool {
	name, value := cutPair(text)
	switch {
	case !isName.MatchString(name) || name == text || strings.HasPrefix(value, "//"):
		return false
	case value == "" && strings.HasPrefix(in.rest, `"`):
		value = in.value()
	case value == "" && strings.HasSuffix(text, ":") && strings.TrimSpace(in.rest) != "":
		in.rest = strings.TrimLeftFunc(in.rest, unicode.IsSpace)
		value = in.value()
	case short(name) || short(value):
		return false
	}
	in.pair(name, strings.TrimRight(value, ",;:"))
	return true
}

// cutPair splits a text at the first colon or equals sign.
func cutPair(text string) (name, value string) {
	at := strings.IndexAny(text, ":=")
	if at < 0 {
		return text, ""
	}
	return text[:at], text[at+1:]
}

// pair adds a search for a name and its value. If the value is short, it searches for both as one phrase, because in
// the index of a JSON payload they follow each other. Otherwise it searches for each of them, without a short name.
func (in *searchReader) pair(name, value string) {
	in.changed = true
	switch {
	// The search index has no words for true, false and null, so they are searched as the value of a payload field.
	case value == "true" || value == "false" || value == "null":
		in.set("payload", "$."+name+" = "+value)
	case value == "":
		in.word(name)
	case short(value):
		in.word(name + " " + value)
	default:
		if !short(name) {
			in.word(name)
		}
		in.word(value)
	}
}

func short(word string) bool { return utf8.RuneCountInString(word) < 3 }

// word adds a word, as a phrase if it has spaces. It splits the text at quotation marks, and drops short pieces.
func (in *searchReader) word(text string) {
	for _, piece := range strings.Split(text, `"`) {
		if piece = strings.TrimSpace(piece); short(piece) {
			continue
		}
		if strings.ContainsFunc(piece, unicode.IsSpace) {
			piece = `"` + piece + `"`
		}
		in.words = append(in.words, piece)
	}
}
