package search

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
)

// Arguments are the arguments of a query whose text depends on the filter. PostgreSQL plans such a query for its
// arguments, because one topic may have a millionth of the table and another one all of it.
type Arguments struct {
	First   int // number of the SQL parameter of the first argument, as 1 in $1
	Values  []any
	Version *[]int64 // versions of documents that the query may read; nil for any version
}

// Arg adds an argument and returns the name of its parameter.
func (a *Arguments) Arg(v any) string {
	a.Values = append(a.Values, v)
	return fmt.Sprintf("$%d", a.First+len(a.Values)-1)
}

// text adds s as an argument and returns the SQL for the argument. When s cannot be stored in a text column, it returns
// NULL, so that a comparison with any column is not true.
func (a *Arguments) text(s string) string {
	if s != codec.Clean(s) {
		return "NULL::text"
	}
	return a.Arg(s) + "::text"
}

func (a *Arguments) texts(list []string) string {
	c := codec.NewArray(codec.OIDText, len(list), 16)
	for _, s := range list {
		c.Text(s)
	}
	return a.Arg(c.Arg()) + "::text[]"
}

func (a *Arguments) numbers(list []int32) string {
	c := codec.NewArray(codec.OIDInt4, len(list), 4)
	for _, n := range list {
		c.Int32(n)
	}
	return a.Arg(c.Arg()) + "::int[]"
}

func (a *Arguments) terms(list []int64) string {
	c := codec.NewArray(codec.OIDInt8, len(list), 8)
	for _, n := range list {
		c.Int64(n)
	}
	return a.Arg(c.Arg()) + "::bigint[]"
}

// Conditions returns a filter's conditions on the message m, except those on its topics and those that need the search
// index.
func (a *Arguments) Conditions(f entity.Filter) []string {
	var all []string
	add := func(asked bool, condition func() string) {
		if asked {
			all = append(all, condition())
		}
	}
	add(len(f.MessageIDs) > 0, func() string { return "m.id = ANY (" + a.Arg(codec.UUIDArray(f.MessageIDs)) + "::uuid[])" })
	add(len(f.Statuses) > 0, func() string { return Status(f.Statuses) })
	add(f.ErrorClass != "", func() string { return "m.error_class = " + a.text(f.ErrorClass) })
	add(f.ConsumerGroup != "", func() string { return "m.consumer_group = " + a.text(f.ConsumerGroup) })
	add(f.Dialect != "", func() string { return "m.dialect = " + a.text(f.Dialect) })
	add(f.Group != uuid.Nil, func() string { return "m.group_id = " + a.Arg(f.Group) + "::uuid" })
	times := []struct {
		column, sign string
		at           any
		asked        bool
	}{
		{"created_at", ">=", entity.TruncateTime(f.CreatedAfter), !f.CreatedAfter.IsZero()},
		{"created_at", "<", entity.TruncateTime(f.CreatedBefore), !f.CreatedBefore.IsZero()},
		{"last_retry_at", ">=", entity.TruncateTime(f.RetriedAfter), !f.RetriedAfter.IsZero()},
		{"last_retry_at", "<", entity.TruncateTime(f.RetriedBefore), !f.RetriedBefore.IsZero()},
	}
	for _, t := range times {
		add(t.asked, func() string { return "m." + t.column + " " + t.sign + " " + a.Arg(t.at) + "::timestamptz" })
	}
	return all
}

// Status returns the condition on the status with the statuses written into the SQL, because then the planner knows how
// common each status is.
func Status(wanted []entity.Status) string {
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

// documented returns a filter's conditions on its words, headers and fields, as SQL for the document d of a message.
func (a *Arguments) documented(f entity.Filter) string {
	if slices.ContainsFunc(f.Words, func(word string) bool { return word != codec.Clean(word) }) {
		return "false"
	}
	all := []string{"d.version IN ((SELECT version FROM dlq.search_index), (SELECT coalesce(served_version, version) FROM dlq.search_index))"}
	if a.Version != nil {
		all = append(all, "d.version = ANY ("+a.terms(*a.Version)+")")
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
		all = append(all, "d.text LIKE "+a.Arg("%"+literally.Replace(strings.ToLower(word))+"%")+"::text")
	}
	return strings.Join(all, " AND ")
}

// literally escapes the wildcards of LIKE.
var literally = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// documentOfM is the SQL condition that d is the document of m.
const documentOfM = "d.message_id = m.id AND d.created_at = m.created_at"

// inPartitions returns conditions on the time of the document d. With them, PostgreSQL skips the partitions that can
// contain no document of the filter; it locks and reads all others.
func (a *Arguments) inPartitions(f entity.Filter) string {
	var all []string
	if !f.CreatedAfter.IsZero() {
		all = append(all, "d.created_at >= "+a.Arg(entity.TruncateTime(f.CreatedAfter))+"::timestamptz")
	}
	if !f.CreatedBefore.IsZero() {
		all = append(all, "d.created_at < "+a.Arg(entity.TruncateTime(f.CreatedBefore))+"::timestamptz")
	}
	return And(all...)
}

// Indexed returns the condition that the message m has a document that matches the filter. The planner decides whether
// it reads the messages or the documents first.
func (a *Arguments) Indexed(f entity.Filter) []string {
	if !f.NeedsSearchIndex() {
		return nil
	}
	return []string{"EXISTS (SELECT FROM dlq.message_documents d WHERE " + And(documentOfM, a.inPartitions(f), a.documented(f)) + ")"}
}

// DocumentMatches returns the same condition as Indexed in a form that makes PostgreSQL read the messages first and
// test the document of each message.
func (a *Arguments) DocumentMatches(f entity.Filter) string {
	return "(SELECT " + a.documented(f) + " FROM dlq.message_documents d WHERE " + And(documentOfM, a.inPartitions(f)) + ")"
}

// found returns the same condition as Indexed in a form that makes PostgreSQL find the documents first, and their
// messages by the primary key. It is fast for words that few messages have.
func (a *Arguments) found(f entity.Filter) string {
	return "m.id = ANY (ARRAY(SELECT d.message_id FROM dlq.message_documents d WHERE " + And(a.inPartitions(f), a.documented(f)) + "))"
}

// And joins conditions with AND; without conditions it returns true.
func And(conditions ...string) string {
	if len(conditions) == 0 {
		return "true"
	}
	return strings.Join(conditions, " AND ")
}
