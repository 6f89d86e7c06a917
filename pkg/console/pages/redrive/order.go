package redrive

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// order is a redrive with the values that the user has typed into the form.
type order struct {
	Action  string
	Archive bool // the messages are archived
	IDs     []string
	Filter  url.Values // parameters by their names in the API, without empty values
	Topic   string     // the original topic to set, for the action map
	Canary  string
	Wait    string
	Rate    string
	Failing string // percentage of the sent messages; if more fail, the redrive stops itself
	Coming  string // the same for sent messages that fail again
	Sample  string
	Ordered bool
	Requeue bool
	Patch   string
	Schema  string // "latest", or "" for the schema of the record
	Reason  string
	Meant   bool
	Shown   int64 // number of messages in the preview that the user has seen; -1: unknown

	Envelopes bool // send values that look like envelopes, as they are

	// Counted is set when the user comes from a facet: the number of messages that the facet counted for the value in
	// the filter. CountedOf is set if the facet counted only some of the matching messages: their number.
	Counted, CountedOf int64

	problems []view.FieldProblem
}

// Parameters that narrow a selection, under the names of the API. Parameters in filterLists may be repeated.
var (
	filterTexts = []string{
		"topic", "error_class", "consumer_group", "dialect", "group_id", "origin", "created_after", "created_before",
		"retried_after", "retried_before", "key", "key_base64", "q",
	}
	filterLists = []string{"status", "header", "payload"}
)

// filterPrefix distinguishes the form fields of the filter from other fields, such as key.
const filterPrefix = "filter."

// readOrder parses an order from the query of a URL or from a form. If an order without ids has a filter without
// created_before, it sets that to now.
//
// A URL gives only the messages, the action, its original topic, and the count of a facet. The options, the reason and
// the confirmation come from the form alone, because any person or site can write a URL.
func readOrder(r *http.Request, now time.Time) order {
	sent := r.Method == http.MethodPost || view.DraftOf(r).Sent()
	form, prefix := r.URL.Query(), ""
	if sent {
		form, prefix = r.PostForm, filterPrefix
	}
	o := order{
		Action: strings.TrimSpace(form.Get("action")), IDs: separated(form["ids"]), Filter: url.Values{},
		Topic: strings.TrimSpace(form.Get("original_topic")), Archive: checked(form, "archived"),
	}
	o.Counted, _ = strconv.ParseInt(form.Get("counted"), 10, 64) // 0 for any other text
	o.CountedOf, _ = strconv.ParseInt(form.Get("counted_of"), 10, 64)
	if sent {
		o.readTerms(form)
	}
	if o.Action == "" {
		o.Action = actions[0].Action
	}
	for _, name := range slices.Concat(filterTexts, filterLists) {
		values := form[prefix+name]
		if name == "status" {
			values = separated(values)
		} else if !slices.Contains(filterLists, name) {
			values = values[:min(1, len(values))]
		}
		for _, value := range values {
			if value != "" {
				o.Filter.Add(name, value)
			}
		}
	}
	if len(o.IDs) == 0 && len(o.Filter) > 0 && !o.Filter.Has("created_before") {
		o.Filter.Set("created_before", api.Time(now))
	}
	return o
}

func (o *order) readTerms(form url.Values) {
	one := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	o.Canary, o.Wait, o.Failing, o.Coming, o.Sample = one("canary"), one("canary_wait"), one("max_failure"), one("max_return"), one("min_sample")
	o.Rate, o.Ordered, o.Requeue = one("rate"), checked(form, "keep_key_order"), checked(form, "requeue")
	o.Envelopes = checked(form, "accept_envelope")
	o.Patch, o.Schema = strings.ReplaceAll(one("patch"), "\r\n", "\n"), one("schema")
	o.Reason, o.Meant = one("reason"), checked(form, "meant")
	o.Shown = -1
	if n, err := strconv.ParseInt(form.Get("shown"), 10, 64); err == nil {
		o.Shown = n
	}
}

func checked(form url.Values, name string) bool {
	value := form.Get(name)
	return value != "" && value != "false"
}

func separated(lists []string) []string {
	var all []string
	for _, list := range lists {
		for _, one := range strings.Split(list, ",") {
			if one = strings.TrimSpace(one); one != "" {
				all = append(all, one)
			}
		}
	}
	return all
}

func (o order) Selects() bool { return len(o.IDs) > 0 || len(o.Filter) > 0 }

func (o order) Does() action { return actionOf(o.Action, o.Archive) }

func (o order) Together() string { return strings.Join(o.IDs, ",") }

func (o order) Means(titles map[string]string) []phrase {
	does := o.Does()
	if o.Requeue && does.Retry {
		does = does.withDead()
	}
	if len(o.IDs) > 0 {
		return append([]phrase{{Says: "chosen one by one"}}, does.taken()...)
	}
	return filter(o.Filter).phrases(does, titles)
}

// body returns the request body of the order for the API. It adds invalid values to o.problems.
func (o *order) body() map[string]any {
	body := map[string]any{"action": o.Action}
	if len(o.IDs) > 0 {
		body["ids"] = o.IDs
	} else {
		body["filter"] = o.filterBody()
	}
	if o.Archive {
		body["archived"] = true
	}
	if o.Reason != "" {
		body["reason"] = o.Reason
	}
	o.decimal(body, "rate", "rate", o.Rate, 1)
	if o.Action == "map" {
		body["original_topic"] = o.Topic
	}
	if !o.Does().Retry {
		return body
	}
	o.whole(body, "canary", o.Canary)
	failing := o.decimal(body, "max_failure", "max_failure_share", o.Failing, 100)
	coming := o.decimal(body, "max_return", "max_return_share", o.Coming, 100)
	if (body["canary"] != nil || coming) && o.Wait != "" {
		body["canary_wait"] = o.Wait
	}
	if failing || coming {
		o.whole(body, "min_sample", o.Sample)
	}
	if o.Ordered {
		body["keep_key_order"] = true
	}
	if o.Requeue {
		body["requeue"] = true
	}
	if o.Envelopes {
		body["accept_envelope"] = true
	}
	if o.Patch != "" {
		o.check(json.Valid([]byte(o.Patch)), "patch", "is not JSON; it must be a list of operations such as "+patchExample)
		body["patch"] = json.RawMessage(o.Patch)
		if o.Schema != "" {
			body["schema"] = o.Schema
		}
	}
	return body
}

const patchExample = `[{"op": "replace", "path": "/currency", "value": "EUR"}]`

func (o order) filterBody() map[string]any {
	filter := map[string]any{}
	for name, values := range o.Filter {
		if filter[name] = values[0]; slices.Contains(filterLists, name) {
			filter[name] = values
		}
	}
	return filter
}

func (o *order) check(good bool, field, reason string) {
	if !good {
		o.problems = append(o.problems, view.FieldProblem{Field: field, Reason: reason})
	}
}

// whole adds a whole number that a user has typed to the body; it leaves out zero and an empty text.
func (o *order) whole(body map[string]any, name, typed string) {
	if typed == "" {
		return
	}
	n, err := strconv.Atoi(typed)
	o.check(err == nil && n >= 0, name, "must be a whole number")
	if err == nil && n > 0 {
		body[name] = n
	}
}

// decimal divides the number that the user typed by parts, and adds it to the body; parts is 100 for a percentage. It
// reports whether the number is above zero.
func (o *order) decimal(body map[string]any, field, name, typed string, parts float64) bool {
	if typed == "" {
		return false
	}
	n, err := strconv.ParseFloat(typed, 64)
	good := err == nil && n >= 0 && (parts == 1 || n <= parts) && n <= 1e6
	if parts == 1 {
		o.check(good, field, "must be a number of at most 1,000,000")
	} else {
		o.check(good, field, "must be a number from 0 to 100")
	}
	if !good || n == 0 {
		return false
	}
	body[name] = n / parts
	return true
}

// previewID identifies the subject of a preview: which messages are selected, and what is sent.
func (o order) previewID() string {
	parts := []string{o.Action, o.Together(), o.Filter.Encode(), o.Topic, strconv.FormatBool(o.Requeue), strconv.FormatBool(o.Envelopes), o.Patch, o.Schema, strconv.FormatBool(o.Archive)}
	return format.Digest(strings.Join(parts, "\x00"))
}
