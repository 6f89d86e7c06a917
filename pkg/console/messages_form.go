package console

import (
	"slices"
	"strings"
)

type messageForm struct {
	Fields   map[string]messageField // fields that occur once
	Headers  []messageField
	Payloads []messageField
	Statuses []listOption
	Sorts    []listOption
	Ranges   []listLink
	Since    string
	Cols     string
	Unknown  bool // only messages of unknown origin
	More     bool // a hidden condition is set, or wrong
	Wrong    map[string]string
}

type messageField struct{ ID, Name, Label, Hint, Value, Wrong string }

type listOption struct {
	Value, Label string
	Chosen       bool
}

// always lists the fields that are always visible; the others are in a folded part.
var always = []string{"topic", "error_class", "q", "status", "since"}

var messageFields = []messageField{
	{Name: "topic", Label: "Topic", Hint: "original or dead-letter, * for any characters"},
	{Name: "error_class", Label: "Error class", Hint: "exact match"},
	{Name: "q", Label: "Words", Hint: "in the error or the payload"},
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
	headerField  = messageField{Name: "header", Label: "Header", Hint: "name or name=value"}
	payloadField = messageField{Name: "payload", Label: "Payload field", Hint: "$.customer.id = 42"}
)

var listSorts = []listOption{
	{Value: "", Label: "Newest first"},
	{Value: "created_at", Label: "Oldest first"},
	{Value: "-last_retry_at", Label: "Last attempted first"},
	{Value: "last_retry_at", Label: "Longest not attempted first"},
}

func (q question) statuses() []string {
	if q.path == archivePath {
		return []string{"RESOLVED", "DEAD"}
	}
	return []string{"PENDING", "RETRYING", "RESOLVED", "DEAD"}
}

var ranges = []listLink{{Label: "Any time"}, {Label: "15 min", Href: "15m"}, {Label: "1 h", Href: "1h"}, {Label: "24 h", Href: "24h"}, {Label: "7 d", Href: "7d"}}

func formOf(q question, problem *failure) messageForm {
	f := messageForm{
		Fields: map[string]messageField{}, Wrong: problem.byField(), Since: q.since, Cols: q.cols,
		Unknown: q.filter.Has("origin"),
	}
	for _, field := range messageFields {
		field.ID, field.Value, field.Wrong = "filter-"+field.Name, strings.Join(q.filter[field.Name], " "), f.Wrong[field.Name]
		f.Fields[field.Name] = field
		f.More = f.More || !slices.Contains(always, field.Name) && (field.Value != "" || field.Wrong != "")
	}
	f.Headers = f.conditions(q.filter["header"], headerField)
	f.Payloads = f.conditions(q.filter["payload"], payloadField)
	f.More = f.More || len(f.Headers)+len(f.Payloads) > 2 || f.Unknown || q.sort != ""
	for _, status := range q.statuses() {
		f.Statuses = append(f.Statuses, listOption{status, status, slices.Contains(q.filter["status"], status)})
	}
	for _, sort := range listSorts {
		sort.Chosen = sort.Value == q.sort
		f.Sorts = append(f.Sorts, sort)
	}
	for _, at := range ranges {
		f.Ranges = append(f.Ranges, listLink{at.Label, q.address("created_after", "", "since", at.Href), at.Href == q.since && !q.filter.Has("created_after")})
	}
	return f
}

// conditions returns the inputs of a repeatable condition: one more than are filled in.
func (f *messageForm) conditions(values []string, like messageField) []messageField {
	var fields []messageField
	for i, value := range append(slices.Clone(values), "") {
		field := like
		field.ID, field.Value = "filter-"+like.Name, value
		if i == 0 {
			field.Wrong = f.Wrong[like.Name]
		} else {
			field.ID += "-" + number(i+1)
			field.Label += " " + number(i+1)
		}
		fields = append(fields, field)
	}
	f.More = f.More || f.Wrong[like.Name] != ""
	return fields
}

func (f messageForm) names() []string {
	names := []string{"header", "payload", "status", "since"}
	for _, field := range messageFields {
		names = append(names, field.Name)
	}
	return names
}

func (f *failure) byField() map[string]string {
	wrong := map[string]string{}
	if f == nil {
		return wrong
	}
	for _, p := range f.Fields {
		wrong[p.Field] = p.Reason
	}
	if field, reason, named := strings.Cut(f.Message, ": "); named {
		wrong[field] = reason
	}
	return wrong
}

// besides returns the failure without the problems that are shown next to the fields of a form.
func (f *failure) besides(names []string) *failure {
	if f == nil {
		return nil
	}
	rest := *f
	if field, _, named := strings.Cut(f.Message, ": "); named && slices.Contains(names, field) {
		rest.Message = "Correct the fields marked below."
	}
	rest.Fields = slices.DeleteFunc(slices.Clone(f.Fields), func(p fieldProblem) bool { return slices.Contains(names, p.Field) })
	return &rest
}

type chip struct{ Name, Value, Href string }

func (q question) chips(group string) []chip {
	var chips []chip
	fields := append(slices.Clone(messageFields), messageField{Name: "status", Label: "Status"}, headerField, payloadField,
		messageField{Name: "origin", Label: "Origin"})
	for _, field := range fields {
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
	if i := slices.IndexFunc(listSorts, func(sort listOption) bool { return sort.Value == name }); i >= 0 {
		return strings.ToLower(listSorts[i].Label)
	}
	return name
}

func (q question) views() []listLink {
	views := []listLink{
		{Label: "All", Href: q.path},
		{Label: "Pending", Href: to(q.path, "status", "PENDING")},
		{Label: "Retrying", Href: to(q.path, "status", "RETRYING")},
		{Label: "Dead", Href: to(q.path, "status", "DEAD")},
		{Label: "Resolved", Href: to(q.path, "status", "RESOLVED")},
		{Label: "Unknown origin", Href: to(q.path, "origin", "unknown")},
		{Label: "Last attempted", Href: to(q.path, "sort", "-last_retry_at")},
	}
	if q.path == archivePath {
		views = []listLink{views[0], views[3], views[4], views[5]}
	}
	asked := q
	asked.cols = ""
	for i := range views {
		views[i].Current = views[i].Href == asked.address()
	}
	return views
}
