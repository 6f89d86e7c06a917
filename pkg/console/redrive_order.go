package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// redriveOrder is what one fills in to make a redrive, as it was typed.
type redriveOrder struct {
	Action  string
	IDs     []string
	Filter  url.Values // by the names of the API; nothing empty in it
	Topic   string     // for map
	Canary  string
	Wait    string
	Rate    string
	Failing string // percent
	Coming  string // percent that comes back
	Sample  string
	Ordered bool
	Requeue bool
	Patch   string
	Reason  string
	Meant   bool
	Shown   int64 // how many would go, as the page said that the order was given on; -1: it did not

	problems []fieldProblem
}

// What may narrow a selection, by the names of the API. Lists may be repeated.
var (
	filterTexts = []string{
		"topic", "error_class", "consumer_group", "dialect", "group_id", "origin", "created_after", "created_before",
		"retried_after", "retried_before", "key", "key_base64", "q",
	}
	filterLists = []string{"status", "header", "payload"}
)

// filterPrefix stands before the names of the filter in a form: its key is not that of
// the form.
const filterPrefix = "filter."

// readRedriveOrder reads the order of an address or of a form. The moment before which messages
// were made is fixed when it is read first: what is started is what was shown.
//
// An address says which messages are meant and what is to be done to them. How it is
// done, why, and that it is meant is for whoever looks at the page: an address may come
// from anybody.
func readRedriveOrder(r *http.Request, now time.Time) redriveOrder {
	form, prefix := r.URL.Query(), ""
	if r.Method == http.MethodPost {
		form, prefix = r.PostForm, filterPrefix
	}
	o := redriveOrder{
		Action: strings.TrimSpace(form.Get("action")), IDs: separated(form["ids"]), Filter: url.Values{},
		Topic: strings.TrimSpace(form.Get("original_topic")),
	}
	if r.Method == http.MethodPost {
		o.readTerms(form)
	}
	if o.Action == "" {
		o.Action = redriveActions[0].Action
	}
	for _, name := range filterTexts {
		if value := form.Get(prefix + name); value != "" {
			o.Filter.Set(name, value)
		}
	}
	for _, name := range filterLists {
		values := form[prefix+name]
		if name == "status" {
			values = separated(values)
		}
		for _, value := range values {
			if value != "" {
				o.Filter.Add(name, value)
			}
		}
	}
	if len(o.IDs) == 0 && len(o.Filter) > 0 && !o.Filter.Has("created_before") {
		o.Filter.Set("created_before", now.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	}
	return o
}

// readTerms reads how an order is carried out, as somebody typed it.
func (o *redriveOrder) readTerms(form url.Values) {
	one := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	o.Canary, o.Wait, o.Failing, o.Coming, o.Sample = one("canary"), one("canary_wait"), one("max_failure"), one("max_return"), one("min_sample")
	o.Rate, o.Ordered, o.Requeue = one("rate"), checked(form, "keep_key_order"), checked(form, "requeue")
	o.Patch = strings.ReplaceAll(one("patch"), "\r\n", "\n")
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

// separated takes lists apart at commas, and leaves out what is empty.
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

// Selects reports whether the order says which messages are meant.
func (o redriveOrder) Selects() bool { return len(o.IDs) > 0 || len(o.Filter) > 0 }

// Does is the order's action.
func (o redriveOrder) Does() redriveAction { return actionOf(o.Action) }

// Together are the ids in one field of a form.
func (o redriveOrder) Together() string { return strings.Join(o.IDs, ",") }

// Means says in words which messages are meant.
func (o redriveOrder) Means(titles map[string]string) []phrase {
	does := o.Does()
	if o.Requeue && does.Retry {
		does = does.deadToo()
	}
	if len(o.IDs) > 0 {
		return append([]phrase{{Says: "chosen one by one"}}, does.taken()...)
	}
	return o.filter().phrases(does, titles)
}

func (o redriveOrder) filter() redriveFilter {
	optional := func(name string) *string {
		if !o.Filter.Has(name) {
			return nil
		}
		value := o.Filter.Get(name)
		return &value
	}
	f := o.Filter
	return redriveFilter{
		Topic: f.Get("topic"), Status: f["status"], ErrorClass: f.Get("error_class"), ConsumerGroup: f.Get("consumer_group"),
		Dialect: f.Get("dialect"), GroupID: f.Get("group_id"), Origin: f.Get("origin"),
		CreatedAfter: f.Get("created_after"), CreatedBefore: f.Get("created_before"),
		RetriedAfter: f.Get("retried_after"), RetriedBefore: f.Get("retried_before"),
		Key: optional("key"), KeyBase64: optional("key_base64"), Header: f["header"], Payload: f["payload"], Words: f.Get("q"),
	}
}

// body is the order as the API takes it. What cannot be read in it is in o.problems.
func (o *redriveOrder) body() map[string]any {
	body := map[string]any{"action": o.Action}
	if len(o.IDs) > 0 {
		body["ids"] = o.IDs
	} else {
		body["filter"] = o.filterBody()
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
	if o.whole(body, "canary", o.Canary); body["canary"] != nil && o.Wait != "" {
		body["canary_wait"] = o.Wait
	}
	failing := o.decimal(body, "max_failure", "max_failure_share", o.Failing, 100)
	coming := o.decimal(body, "max_return", "max_return_share", o.Coming, 100)
	if failing || coming {
		o.whole(body, "min_sample", o.Sample)
	}
	if o.Ordered {
		body["keep_key_order"] = true
	}
	if o.Requeue {
		body["requeue"] = true
	}
	if o.Patch != "" {
		o.check(json.Valid([]byte(o.Patch)), "patch", "is not JSON; it must be a list of operations such as "+patchExample)
		body["patch"] = json.RawMessage(o.Patch)
	}
	return body
}

const patchExample = `[{"op": "replace", "path": "/currency", "value": "EUR"}]`

func (o redriveOrder) filterBody() map[string]any {
	filter := map[string]any{}
	for _, name := range filterTexts {
		if o.Filter.Has(name) {
			filter[name] = o.Filter.Get(name)
		}
	}
	for _, name := range filterLists {
		if o.Filter.Has(name) {
			filter[name] = o.Filter[name]
		}
	}
	return filter
}

func (o *redriveOrder) check(good bool, field, reason string) {
	if !good {
		o.problems = append(o.problems, fieldProblem{field, reason})
	}
}

// whole puts a whole number above zero into the body; zero and nothing are none.
func (o *redriveOrder) whole(body map[string]any, name, typed string) {
	if typed == "" {
		return
	}
	n, err := strconv.Atoi(typed)
	o.check(err == nil && n >= 0, name, "must be a whole number")
	if err == nil && n > 0 {
		body[name] = n
	}
}

// decimal puts a number, divided by parts, into the body, and reports whether there is
// one above zero.
func (o *redriveOrder) decimal(body map[string]any, field, name, typed string, parts float64) bool {
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

// looks is what decides which messages are taken and what becomes of them. A dry run
// is of that; with another one it has to be looked at anew.
func (o redriveOrder) looks() string {
	parts := []string{o.Action, o.Together(), o.Filter.Encode(), o.Topic, strconv.FormatBool(o.Requeue), o.Patch}
	return digest(strings.Join(parts, "\x00"))
}
