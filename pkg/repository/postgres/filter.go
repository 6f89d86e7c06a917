package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// arguments are those of a query whose text depends on what is asked for. Such a
// query is planned for its very arguments: one topic may be a millionth of the
// table and the next one all of it.
type arguments struct {
	first   int // number of the first one's parameter
	values  []any
	version *int64 // of documents, beside the search index's own; nil: any
}

func (a *arguments) arg(v any) string {
	a.values = append(a.values, v)
	return fmt.Sprintf("$%d", a.first+len(a.values)-1)
}

// text is an argument that nothing equals when no column can hold it.
func (a *arguments) text(s string) string {
	if s != clean(s) {
		return "NULL::text"
	}
	return a.arg(s) + "::text"
}

func (a *arguments) texts(list []string) string {
	c := newColumn(oidText, len(list), 16)
	for _, s := range list {
		c.text(s)
	}
	return a.arg(c.arg()) + "::text[]"
}

func (a *arguments) numbers(list []int32) string {
	c := newColumn(oidInt4, len(list), 4)
	for _, n := range list {
		c.int32(n)
	}
	return a.arg(c.arg()) + "::int[]"
}

func (a *arguments) terms(list []int64) string {
	c := newColumn(oidInt8, len(list), 8)
	for _, n := range list {
		c.int64(n)
	}
	return a.arg(c.arg()) + "::bigint[]"
}

// conditions are those of a filter on m, a message, without what its topics and
// the search catalogue say.
func (a *arguments) conditions(f entity.Filter) []string {
	var all []string
	add := func(asked bool, condition func() string) {
		if asked {
			all = append(all, condition())
		}
	}
	add(len(f.Statuses) > 0, func() string { return status(f.Statuses) })
	add(f.ErrorClass != "", func() string { return "m.error_class = " + a.text(f.ErrorClass) })
	add(f.ConsumerGroup != "", func() string { return "m.consumer_group = " + a.text(f.ConsumerGroup) })
	add(f.Dialect != "", func() string { return "m.dialect = " + a.text(f.Dialect) })
	add(f.Group != uuid.Nil, func() string { return "m.group_id = " + a.arg(f.Group) + "::uuid" })
	times := []struct {
		column, sign string
		at           any
		asked        bool
	}{
		{"created_at", ">=", entity.Moment(f.CreatedAfter), !f.CreatedAfter.IsZero()},
		{"created_at", "<", entity.Moment(f.CreatedBefore), !f.CreatedBefore.IsZero()},
		{"last_retry_at", ">=", entity.Moment(f.RetriedAfter), !f.RetriedAfter.IsZero()},
		{"last_retry_at", "<", entity.Moment(f.RetriedBefore), !f.RetriedBefore.IsZero()},
	}
	for _, t := range times {
		add(t.asked, func() string { return "m." + t.column + " " + t.sign + " " + a.arg(t.at) + "::timestamptz" })
	}
	return all
}

// status is spelt out, for the planner knows how common each one is.
func status(wanted []entity.Status) string {
	var known []string
	for _, s := range entity.Statuses() {
		if slices.Contains(wanted, s) {
			known = append(known, "'"+string(s)+"'")
		}
	}
	if len(known) == 0 {
		return "false"
	}
	return "m.status IN (" + strings.Join(known, ", ") + ")"
}

// documented are a filter's conditions on d, the message's document.
func (a *arguments) documented(f entity.Filter) string {
	if slices.ContainsFunc(f.Words, func(word string) bool { return word != clean(word) }) {
		return "false"
	}
	all := []string{"d.version = (SELECT version FROM dlq.search_index)"}
	if a.version != nil {
		all = append(all, "d.version = "+a.arg(*a.version)+"::bigint")
	}
	var every []int64
	for _, any := range f.Terms() {
		if len(any) == 1 {
			every = append(every, any[0])
			continue
		}
		all = append(all, "d.terms && "+a.terms(any))
	}
	if len(every) > 0 {
		all = append(all, "d.terms @> "+a.terms(every))
	}
	for _, word := range f.Words {
		all = append(all, "d.text LIKE "+a.arg("%"+literally.Replace(word)+"%")+"::text")
	}
	return strings.Join(all, " AND ")
}

// literally makes of what LIKE would read as a pattern plain text.
var literally = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// documentOfM is the condition that d is the document of m.
const documentOfM = "d.message_id = m.id AND d.created_at = m.created_at"

// inPartitions are the conditions on d that leave out the partitions in which a filter can
// have no document: all that are left are locked, and read or looked into.
func (a *arguments) inPartitions(f entity.Filter) string {
	var all []string
	if !f.CreatedAfter.IsZero() {
		all = append(all, "d.created_at >= "+a.arg(entity.Moment(f.CreatedAfter))+"::timestamptz")
	}
	if !f.CreatedBefore.IsZero() {
		all = append(all, "d.created_at < "+a.arg(entity.Moment(f.CreatedBefore))+"::timestamptz")
	}
	return and(all...)
}

// catalogued is the condition that m has such a document; the planner decides
// where to begin.
func (a *arguments) catalogued(f entity.Filter) []string {
	if !f.Catalogued() {
		return nil
	}
	return []string{"EXISTS (SELECT FROM dlq.message_documents d WHERE " + and(documentOfM, a.inPartitions(f), a.documented(f)) + ")"}
}

// lookedUp is the same, to be asked of one message after the other: the planner
// cannot turn it round.
func (a *arguments) lookedUp(f entity.Filter) string {
	return "(SELECT " + a.documented(f) + " FROM dlq.message_documents d WHERE " + and(documentOfM, a.inPartitions(f)) + ")"
}

// found is the same again, for words that few messages have: the documents are
// found first, and their messages by the primary key.
func (a *arguments) found(f entity.Filter) string {
	return "m.id = ANY (ARRAY(SELECT d.message_id FROM dlq.message_documents d WHERE " + and(a.inPartitions(f), a.documented(f)) + "))"
}

// and joins conditions; none is always true.
func and(conditions ...string) string {
	if len(conditions) == 0 {
		return "true"
	}
	return strings.Join(conditions, " AND ")
}
