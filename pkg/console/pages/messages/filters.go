package messages

import (
	"maps"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

type filterForm struct {
	Fields   map[string]filterField // input of each condition that may be given only once
	Headers  []filterField
	Payloads []filterField
	Statuses []option
	Sorts    []option
	Ranges   []listLink
	Since    string
	Cols     string
	Kept     []hidden // conditions that the form sends again when the user types another search
	Tokens   []token
	Unknown  bool // only messages of unknown origin
	More     bool // a condition in the folded part of the form is invalid, so the form is shown unfolded
	Wrong    map[string]string
}

type filterField struct{ ID, Name, Label, Hint, Value, Wrong string }

type option struct {
	Value, Label string
	Chosen       bool
}

var filterFields = []filterField{
	{Name: "topic", Label: "Topic", Hint: "original or dead-letter, * for any characters"},
	{Name: "error_class", Label: "Error class", Hint: "exact match"},
	{Name: "q", Label: "Words or field:value", Hint: "words, or topic:orders.* status:dead payload.order_id:42"},
	{Name: "key", Label: "Key", Hint: "exact match"},
	{Name: "key_base64", Label: "Key in base64", Hint: "for bytes that are not text"},
	{Name: "consumer_group", Label: "Consumer group", Hint: "exact match"},
	{Name: "dialect", Label: "Dialect", Hint: "such as spring"},
	{Name: "group_id", Label: "Error group", Hint: "its id"},
	{Name: "created_after", Label: "Received from", Hint: "2026-02-20 10:30, in UTC"},
	{Name: "created_before", Label: "Received before", Hint: "2026-02-20 10:30, in UTC"},
	{Name: "retried_after", Label: "Attempted from", Hint: "2026-02-20 10:30, in UTC"},
	{Name: "retried_before", Label: "Attempted before", Hint: "2026-02-20 10:30, in UTC"},
}

var (
	headerField  = filterField{Name: "header", Label: "Header", Hint: "name or name=value"}
	payloadField = filterField{Name: "payload", Label: "Payload field", Hint: "$.customer.id = 42"}
)

var sorts = []option{
	{Value: "", Label: "Newest first"},
	{Value: "created_at", Label: "Oldest first"},
	{Value: "-last_retry_at", Label: "Last attempted first"},
	{Value: "last_retry_at", Label: "Longest not attempted first"},
}

func (q listQuery) statuses() []string {
	if q.path == link.Archive {
		return []string{"RESOLVED", "DEAD"}
	}
	return []string{"PENDING", "RETRYING", "RESOLVED", "DEAD"}
}

var ranges = []listLink{{Label: "Any time"}, {Label: "15 min", Href: "15m"}, {Label: "1 h", Href: "1h"}, {Label: "24 h", Href: "24h"}, {Label: "7 d", Href: "7d"}}

func formOf(q listQuery, problem *view.Problem) filterForm {
	f := filterForm{
		Fields: map[string]filterField{}, Wrong: problem.ByField(), Since: q.since, Cols: q.cols,
		Unknown: q.filter.Has("origin"), Tokens: tokens,
	}
	for _, name := range slices.Sorted(maps.Keys(q.own())) {
		for _, value := range q.own()[name] {
			if name != "q" {
				f.Kept = append(f.Kept, hidden{name, value})
			}
		}
	}
	for _, field := range filterFields {
		field.ID, field.Value, field.Wrong = "filter-"+field.Name, strings.Join(q.filter[field.Name], " "), f.Wrong[field.Name]
		f.Fields[field.Name] = field
		f.More = f.More || field.Name != "q" && field.Wrong != ""
	}
	f.Headers = f.conditions(q.filter["header"], headerField)
	f.Payloads = f.conditions(q.filter["payload"], payloadField)
	f.More = f.More || f.Wrong["status"] != ""
	for _, status := range q.statuses() {
		f.Statuses = append(f.Statuses, option{status, status, slices.Contains(q.filter["status"], status)})
	}
	for _, sort := range sorts {
		sort.Chosen = sort.Value == q.sort
		f.Sorts = append(f.Sorts, sort)
	}
	for _, at := range ranges {
		f.Ranges = append(f.Ranges, listLink{at.Label, q.address("created_after", "", "since", at.Href), at.Href == q.since && !q.filter.Has("created_after")})
	}
	return f
}

// conditions returns the inputs of a condition that can be repeated: one for each value, and an empty one.
func (f *filterForm) conditions(values []string, like filterField) []filterField {
	var fields []filterField
	for i, value := range append(slices.Clone(values), "") {
		field := like
		field.ID, field.Value = "filter-"+like.Name, value
		if i == 0 {
			field.Wrong = f.Wrong[like.Name]
		} else {
			field.ID += "-" + format.Number(i+1)
			field.Label += " " + format.Number(i+1)
		}
		fields = append(fields, field)
	}
	f.More = f.More || f.Wrong[like.Name] != ""
	return fields
}

func (f filterForm) names() []string {
	names := []string{"header", "payload", "status", "since"}
	for _, field := range filterFields {
		names = append(names, field.Name)
	}
	return names
}

type chip struct{ Name, Value, Href string }

func (q listQuery) chips(group string) []chip {
	var chips []chip
	fields := append(slices.Clone(filterFields), filterField{Name: "status", Label: "Status"}, headerField, payloadField,
		filterField{Name: "origin", Label: "Origin"})
	for _, field := range fields {
		if field.Name == "q" {
			continue // the input of the search shows this condition
		}
		for _, value := range q.filter[field.Name] {
			shown := value
			if field.Name == "group_id" && group != "" {
				shown = group
			}
			chips = append(chips, chip{field.Label, shown, q.without(field.Name, value)})
		}
	}
	if q.since != "" {
		chips = append(chips, chip{"Received", "in the last " + q.since, q.address("since", "")})
	}
	if q.sort != "" {
		chips = append(chips, chip{"Order", sortLabel(q.sort), q.address("sort", "")})
	}
	return chips
}

func sortLabel(name string) string {
	if i := slices.IndexFunc(sorts, func(sort option) bool { return sort.Value == name }); i >= 0 {
		return strings.ToLower(sorts[i].Label)
	}
	return name
}

func (q listQuery) views() []listLink {
	views := []listLink{
		{Label: "All", Href: q.path},
		{Label: "Pending", Href: link.To(q.path, "status", "PENDING")},
		{Label: "Retrying", Href: link.To(q.path, "status", "RETRYING")},
		{Label: "Dead", Href: link.To(q.path, "status", "DEAD")},
		{Label: "Resolved", Href: link.To(q.path, "status", "RESOLVED")},
		{Label: "Unknown origin", Href: link.To(q.path, "origin", "unknown")},
		{Label: "Last attempted", Href: link.To(q.path, "sort", "-last_retry_at")},
	}
	if q.path == link.Archive {
		views = []listLink{views[0], views[3], views[4], views[5]}
	}
	asked := q
	asked.cols = ""
	for i := range views {
		views[i].Current = views[i].Href == asked.address()
	}
	return views
}
