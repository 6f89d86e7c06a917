package redrive

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
)

type action struct {
	Action string
	Name   string // name of the action
	Title  string // title in which % is the number of messages: "Retry 3 messages"
	Done   string // label for the number of messages on which the action succeeded
	Takes  string // the statuses of the messages that the action takes
	With   string // a further condition that these messages must meet, in words
	What   string // a sentence that says what the action does to each message
	Hurts  bool
	Retry  bool
}

var actions = []action{
	{
		Action: "retry", Name: "Retry", Title: "Retry %", Done: "published", Takes: "PENDING", With: "with attempts left", Retry: true,
		What: "Each message is sent back to its original topic, or to the target of its redirect, once.",
	},
	{
		Action: "requeue", Name: "Requeue", Title: "Requeue %", Done: "requeued", Takes: "DEAD",
		What: "Each message is pending again, with no attempts used. Nothing is sent.",
	},
	{
		Action: "dead", Name: "Mark dead", Title: "Mark % dead", Done: "marked dead", Takes: "PENDING", Hurts: true,
		What: "Each message is marked dead. It stays here, and can be requeued until it is archived.",
	},
	{
		Action: "delete", Name: "Delete", Title: "Delete %", Done: "deleted", Takes: "PENDING, RESOLVED or DEAD", Hurts: true,
		What: "Each message is removed permanently. Its record is not ingested again.",
	},
	{
		Action: "map", Name: "Set the origin", Title: "Set the origin of %", Done: "set", Takes: "PENDING or DEAD", With: "whose origin no header names",
		What: "The original topic of each message is set to the topic below. Nothing is sent.",
	},
}

// archivedActions are the actions on archived messages.
var archivedActions = []action{
	{
		Action: "retry", Name: "Retry", Title: "Retry %", Done: "published", With: inArchive, Retry: true,
		What: "Each message is restored from the archive and sent back to its original topic, or to the target of its redirect, once.",
	},
	{
		Action: "restore", Name: "Restore", Title: "Restore %", Done: "restored", With: inArchive,
		What: "Each message is restored from the archive and is pending. Nothing is sent, except by automatic retry.",
	},
	{
		Action: "dead", Name: "Mark dead", Title: "Mark % dead", Done: "marked dead", With: inArchive, Hurts: true,
		What: "Each message is restored from the archive and marked dead.",
	},
	{
		Action: "delete", Name: "Erase", Title: "Erase %", Done: "erased", With: inArchive, Hurts: true,
		What: "Each message is erased from the archive permanently, with its attempts and edits.",
	},
}

const inArchive = "in the archive"

// actionsOn returns the actions on archived or on live messages.
func actionsOn(archived bool) []action {
	if archived {
		return archivedActions
	}
	return actions
}

// actionOf returns the action of that name on archived or on live messages, or retry for an unknown name.
func actionOf(name string, archived bool) action {
	list := actionsOn(archived)
	i := slices.IndexFunc(list, func(a action) bool { return a.Action == name })
	return list[max(0, i)]
}

// withDead returns the action with other words for its selection: the redrive takes PENDING messages and DEAD messages.
func (a action) withDead() action {
	a.Takes, a.With = "PENDING or DEAD", ""
	return a
}

func (a action) taken() []phrase {
	var list []phrase
	if a.Takes != "" {
		list = append(list, phrase{Says: "with status", Value: a.Takes})
	}
	if a.With != "" {
		list = append(list, phrase{Says: a.With})
	}
	return list
}

func (a action) of(n int64) string { return strings.Replace(a.Title, "%", format.Messages(n, ""), 1) }

var reasonTexts = map[string]string{
	"taken":              "another attempt is under way, or its state changed",
	"gone":               "it no longer exists, or you may not change it",
	"unreadable":         "its object in the archive is missing or damaged",
	"refused":            "the database refuses to change it",
	"REPEAT":             "a dead letter of the same record was handled before; retry it alone to send it",
	"not_retryable":      "it is in another state, or has no attempts left",
	"origin_known":       "its own header names its original topic",
	"given_back":         "its turn came too late to send it safely",
	"key_blocked":        "an earlier message of its key did not succeed",
	"patch_failed":       "the patch does not apply to it",
	"no_kafka":           "Kafka is not configured",
	"not_permitted":      "only its headers name its original topic, and you are not operator of its dead-letter topic",
	"UNDECLARED":         "its original topic is not declared: retry it alone, map its dead-letter topic, or set its origin",
	"ENVELOPE":           "its value looks like an envelope around the record that failed",
	"POINTER_REFUSED":    "it only refers to its record, and the reference is not followed",
	"UNKNOWN_TOPIC":      "the original topic is not known or does not exist",
	"UNAUTHORIZED":       "dlq-manager may not write to the topic",
	"LOOP_REFUSED":       "it failed again too often, or would be sent to a dead-letter topic",
	"ALREADY_PUBLISHED":  "it was already published",
	"BAD_RECORD":         "the broker rejects the record",
	"NETWORK_TIMEOUT":    "the broker did not answer in time",
	"BROKER_UNAVAILABLE": "the broker is unreachable; a redrive waits for it",
	"RATE_LIMITED":       "the broker throttles dlq-manager",
	"UNKNOWN":            "the reason is unknown",
}

type reason struct {
	Code     string
	Messages int64
}

func (r reason) Words() string { return reasonWords(r.Code) }

func reasonWords(code string) string { return cmp.Or(reasonTexts[code], code) }

func reasonsOf(counted map[string]int64) []reason {
	var list []reason
	for code, n := range counted {
		list = append(list, reason{code, n})
	}
	slices.SortFunc(list, func(a, b reason) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Code, b.Code))
	})
	return list
}

// filter holds the conditions that select messages, by the parameter names of the API. A condition that the key is
// empty is kept, although its value is "".
type filter url.Values

// UnmarshalJSON reads a filter of the API, whose members are texts, lists of texts, or null.
func (f *filter) UnmarshalJSON(raw []byte) error {
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	*f = filter{}
	for name, value := range members {
		list, isList := value.([]any)
		if !isList {
			list = []any{value}
		}
		for _, one := range list {
			if text, ok := one.(string); ok {
				(*f)[name] = append((*f)[name], text)
			}
		}
	}
	return nil
}

// phrase is a condition in words, such as "of topic" with the value "orders.v1".
type phrase struct {
	Says  string
	Value string
	Link  string // link to the page of the named object; "" for most conditions
}

// phrases describes the filter in words. titles holds the known titles of error groups.
func (f filter) phrases(action action, titles map[string]string) []phrase {
	var list []phrase
	add := func(says, value, address string) {
		if value != "" {
			list = append(list, phrase{says, value, address})
		}
	}
	all := func(says, name string) {
		for _, value := range f[name] {
			add(says, value, "")
		}
	}
	all("of topic", "topic")
	if len(f["origin"]) > 0 {
		list = append(list, phrase{Says: "of unknown origin"})
	}
	for _, id := range f["group_id"] {
		add("of the group", cmp.Or(titles[id], id), link.ErrorGroup(id))
	}
	if len(f["status"]) == 0 {
		list = append(list, action.taken()...)
	}
	add("with status", strings.Join(f["status"], " or "), "")
	all("of error class", "error_class")
	all("of consumer group", "consumer_group")
	all("of dialect", "dialect")
	for _, key := range f["key"] {
		add("with key", strconv.Quote(key), "")
	}
	for _, key := range f["key_base64"] {
		add("with key", "base64:"+key, "")
	}
	all("with header", "header")
	all("with payload", "payload")
	all("that contain", "q")
	for _, at := range [][2]string{
		{"created since", "created_after"},
		{"created before", "created_before"},
		{"last retried since", "retried_after"},
		{"last retried before", "retried_before"},
	} {
		for _, value := range f[at[1]] {
			add(at[0], timeWords(value), "")
		}
	}
	return list
}

// timeWords formats a time of the API in UTC; any other text is returned unchanged.
func timeWords(text string) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	if t.Nanosecond() == 0 {
		return t.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return format.UTC(t)
}

func sharePercent(share float64) string { return strconv.FormatFloat(share*100, 'f', -1, 64) }

// waitWords formats a duration of the API without zero parts: "1m0s" becomes "1m".
func waitWords(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil {
		return text
	}
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}
