package opensearch

import (
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Query selects documents by a filter. Documents do not have the status of their messages and the times of their retries:
// these conditions of the filter are ignored.
type Query struct {
	Filter   entity.Filter
	Scope    repository.EngineScope // the topics that the filter matches
	Archived bool

	// Changed are messages whose documents may be out of date. They match whatever their topic and error group are, and
	// whether they are archived or not. With AnyState every message does.
	Changed  []uuid.UUID
	AnyState bool

	Excluded []uuid.UUID // messages that do not match whatever their documents are

	// Certain leaves out documents that do not have a field for which the filter asks. Otherwise they match, because the
	// field of a message may be masked in its document.
	Certain bool
}

// clauses returns the conditions of the query, all of which a document must meet.
func (q Query) clauses() []object {
	f := q.Filter
	var all []object
	if len(f.MessageIDs) > 0 {
		all = append(all, object{"terms": object{"id": f.MessageIDs}})
	}
	for field, value := range map[string]string{"error_class": f.ErrorClass, "consumer_group": f.ConsumerGroup, "dialect": f.Dialect} {
		if value == "" {
			continue
		}
		condition := object{"term": object{field: value}}
		if !q.Certain {
			condition = either(condition, object{"bool": object{"must_not": object{"exists": object{"field": field}}}})
		}
		all = append(all, condition)
	}
	if !f.CreatedAfter.IsZero() || !f.CreatedBefore.IsZero() {
		all = append(all, createdClause(f.CreatedAfter, f.CreatedBefore))
	}
	for _, any := range f.Terms() {
		all = append(all, object{"terms": object{"terms": termTexts(any)}})
	}
	for _, word := range f.Words {
		all = append(all, wordClause(word))
	}
	if len(q.Excluded) > 0 {
		all = append(all, object{"bool": object{"must_not": object{"terms": object{"id": q.Excluded}}}})
	}
	if !q.AnyState {
		state := object{"bool": object{"filter": q.state()}}
		if len(q.Changed) > 0 {
			state = either(state, object{"terms": object{"id": q.Changed}})
		}
		all = append(all, state)
	}
	return all
}

// createdClause finds documents of messages that were created at the time from or later, and before another time. The zero
// time is no limit.
func createdClause(from, before time.Time) object {
	created := object{}
	if !from.IsZero() {
		created["gte"] = entity.TruncateTime(from).UnixMicro()
	}
	if !before.IsZero() {
		created["lt"] = entity.TruncateTime(before).UnixMicro()
	}
	return object{"range": object{"created": created}}
}

// state returns the conditions of the filter on those facts that may change while the message exists, such as its
// error group.
func (q Query) state() []object {
	f := q.Filter
	all := []object{{"term": object{"archived": q.Archived}}}
	if f.Group != uuid.Nil {
		all = append(all, object{"term": object{"group": f.Group}})
	}
	if f.Topic != "" {
		all = append(all, either(object{"term": object{"topic": f.Topic}}, object{"term": object{"dlq_topic": f.Topic}}))
	}
	if f.UnknownOrigin {
		all = append(all, object{"term": object{"topic": ""}})
	}
	if t := q.Scope.Topics; t != nil {
		all = append(all, either(oneOf("topic", t.Originals), oneOf("dlq_topic", t.DeadLetters)))
	}
	if v := q.Scope.Visible; v != nil {
		unnamed := object{"bool": object{"filter": []object{{"term": object{"topic": ""}}, oneOf("dlq_topic", v.DeadLetters)}}}
		named := slices.DeleteFunc(slices.Clone(v.Originals), func(name string) bool { return name == "" })
		all = append(all, either(oneOf("topic", named), unnamed))
	}
	return all
}

func either(clauses ...object) object {
	return object{"bool": object{"should": clauses, "minimum_should_match": 1}}
}

func oneOf(field string, values []string) object {
	if values == nil {
		values = []string{}
	}
	return object{"terms": object{field: values}}
}

// literally escapes the wildcards of a wildcard query.
var literally = strings.NewReplacer(`*`, `\*`, `?`, `\?`)

// wordClause finds documents whose text contains a word.
func wordClause(word string) object {
	word = strings.ToLower(word)
	switch {
	case !utf8.ValidString(word) || strings.Contains(word, "\x00"):
		return object{"match_none": object{}}
	case word == "":
		return object{"match_all": object{}}
	case strings.Contains(word, `\`): // a wildcard query finds no backslash
		return object{"regexp": object{"text": object{"value": ".*" + quoteRegexp(word) + ".*", "flags": "NONE"}}}
	}
	return object{"wildcard": object{"text": object{"value": "*" + literally.Replace(word) + "*"}}}
}

var reserved = regexp.MustCompile("[.?+*|{}\\[\\]()\"\\\\#@&<>~^$-]")

// quoteRegexp escapes text for a regular expression of Lucene.
func quoteRegexp(text string) string { return reserved.ReplaceAllString(text, `\$0`) }
