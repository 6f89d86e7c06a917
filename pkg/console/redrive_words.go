package console

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// redriveAction is what a redrive can do to messages, in words.
type redriveAction struct {
	Action string
	Name   string // of the action
	Title  string // with how many messages for %: "Retry 3 messages"
	Done   string // of how many it went well
	Takes  string // the states that it takes messages from
	With   string // what else they must have
	What   string // a sentence of what it does
	Hurts  bool
	Retry  bool
}

var redriveActions = []redriveAction{
	{
		Action: "retry", Name: "Retry", Title: "Retry %", Done: "sent", Takes: "PENDING", With: "with attempts left", Retry: true,
		What: "Each message is sent back to its original topic, once.",
	},
	{
		Action: "requeue", Name: "Requeue", Title: "Requeue %", Done: "requeued", Takes: "DEAD",
		What: "Each message is pending again, with no attempts used. Nothing is sent.",
	},
	{
		Action: "dead", Name: "Mark dead", Title: "Mark % dead", Done: "marked dead", Takes: "PENDING", Hurts: true,
		What: "Each message is given up. It stays here, and can be requeued until it is archived.",
	},
	{
		Action: "delete", Name: "Delete", Title: "Delete %", Done: "deleted", Takes: "PENDING, RESOLVED or DEAD", Hurts: true,
		What: "Each message is removed from here for good. Its record is not taken in again.",
	},
	{
		Action: "map", Name: "Set the origin", Title: "Set the origin of %", Done: "set", Takes: "PENDING or DEAD", With: "whose origin no header names",
		What: "Each message belongs to the topic below from now on. Nothing is sent.",
	},
}

// actionOf returns the action of that name, a retry for any other.
func actionOf(name string) redriveAction {
	for _, a := range redriveActions {
		if a.Action == name {
			return a
		}
	}
	return redriveActions[0]
}

// deadToo is the action when it takes messages that were given up as well.
func (a redriveAction) deadToo() redriveAction {
	a.Takes, a.With = "PENDING or DEAD", ""
	return a
}

// taken says which messages the action takes of those that are meant.
func (a redriveAction) taken() []phrase {
	list := []phrase{{Says: "with status", Value: a.Takes}}
	if a.With != "" {
		list = append(list, phrase{Says: a.With})
	}
	return list
}

// of is what is done to so many messages.
func (a redriveAction) of(n int64) string { return strings.Replace(a.Title, "%", messagesIn(n, ""), 1) }

// roleOf is the role that an action needs.
func roleOf(action string) string {
	if action == "delete" {
		return "admin"
	}
	return "operator"
}

// redriveReasons says in words why messages do not go, or did not.
var redriveReasons = map[string]string{
	"taken":              "another attempt has it, or its state changed",
	"gone":               "is gone, or not yours to change",
	"not_retryable":      "in another state, or no attempts left",
	"origin_known":       "its own header names its original topic",
	"given_back":         "its turn came too late to send it safely",
	"key_blocked":        "an earlier message of its key did not succeed",
	"patch_failed":       "the patch does not fit it",
	"no_kafka":           "no Kafka is configured",
	"not_permitted":      "only its headers name its original topic, and you are not operator of its dead-letter topic",
	"UNDECLARED":         "its original topic is not declared: retry it alone, map its dead-letter topic, or set its origin",
	"POINTER_REFUSED":    "it only points to its record, and the pointer is not followed",
	"UNKNOWN_TOPIC":      "the original topic is not known or does not exist",
	"UNAUTHORIZED":       "the topic may not be written to",
	"LOOP_REFUSED":       "it came back too often, or would go to a dead-letter topic",
	"ALREADY_PUBLISHED":  "it was published already",
	"BAD_RECORD":         "the broker takes no such record",
	"NETWORK_TIMEOUT":    "the broker did not answer in time",
	"BROKER_UNAVAILABLE": "the broker cannot be reached; a redrive waits for it",
	"RATE_LIMITED":       "the broker has throttled us",
	"UNKNOWN":            "for a reason that nobody knows",
}

// redriveReason is a number of messages that have a reason in common.
type redriveReason struct {
	Code     string
	Messages int64
}

// Words says the reason; of one that we do not know it is its code.
func (r redriveReason) Words() string { return reasonWords(r.Code) }

func reasonWords(code string) string {
	if words, ok := redriveReasons[code]; ok {
		return words
	}
	return code
}

// reasonsOf sorts reasons, the most frequent first.
func reasonsOf(counts map[string]int64) []redriveReason {
	var list []redriveReason
	for code, n := range counts {
		list = append(list, redriveReason{code, n})
	}
	slices.SortFunc(list, func(a, b redriveReason) int {
		if a.Messages != b.Messages {
			return int(b.Messages - a.Messages)
		}
		return strings.Compare(a.Code, b.Code)
	})
	return list
}

// redriveFilter is what narrows messages, as the API has it.
type redriveFilter struct {
	Topic         string   `json:"topic"`
	Status        []string `json:"status"`
	ErrorClass    string   `json:"error_class"`
	ConsumerGroup string   `json:"consumer_group"`
	Dialect       string   `json:"dialect"`
	GroupID       string   `json:"group_id"`
	Origin        string   `json:"origin"`
	CreatedAfter  string   `json:"created_after"`
	CreatedBefore string   `json:"created_before"`
	RetriedAfter  string   `json:"retried_after"`
	RetriedBefore string   `json:"retried_before"`
	Key           *string  `json:"key"`
	KeyBase64     *string  `json:"key_base64"`
	Header        []string `json:"header"`
	Payload       []string `json:"payload"`
	Words         string   `json:"q"`
}

// phrase is a condition in words: "of topic", "orders.v1".
type phrase struct {
	Says  string
	Value string
	Link  string // of what the value names; mostly empty
}

// phrases says what the filter means. Titles are those of groups, where known.
func (f redriveFilter) phrases(action redriveAction, titles map[string]string) []phrase {
	var list []phrase
	add := func(says, value string) {
		if value != "" {
			list = append(list, phrase{Says: says, Value: value})
		}
	}
	add("of topic", f.Topic)
	if f.Origin != "" {
		list = append(list, phrase{Says: "of unknown origin"})
	}
	if f.GroupID != "" {
		title := titles[f.GroupID]
		if title == "" {
			title = f.GroupID
		}
		list = append(list, phrase{Says: "of the group", Value: title, Link: groupState{ID: f.GroupID}.Here()})
	}
	if len(f.Status) == 0 {
		list = append(list, action.taken()...)
	}
	add("with status", strings.Join(f.Status, " or "))
	add("of error class", f.ErrorClass)
	add("of consumer group", f.ConsumerGroup)
	add("of dialect", f.Dialect)
	if f.Key != nil {
		list = append(list, phrase{Says: "with key", Value: strconv.Quote(*f.Key)})
	}
	if f.KeyBase64 != nil {
		add("with key", "base64:"+*f.KeyBase64)
	}
	for _, h := range f.Header {
		add("with header", h)
	}
	for _, p := range f.Payload {
		add("with payload", p)
	}
	add("that contain", f.Words)
	add("created since", momentWords(f.CreatedAfter))
	add("created before", momentWords(f.CreatedBefore))
	add("last retried since", momentWords(f.RetriedAfter))
	add("last retried before", momentWords(f.RetriedBefore))
	return list
}

// momentWords is a time of the API in UTC; what is no time is left as it is.
func momentWords(text string) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	if t.Nanosecond() == 0 {
		return t.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return utc(t)
}

// sharePercent is a share of 0 to 1 in percent, as one writes it into a form.
func sharePercent(share float64) string {
	return strconv.FormatFloat(share*100, 'f', -1, 64)
}

// waitWords is a duration of the API without parts that are zero: "1m0s" is "1m".
func waitWords(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil {
		return text
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
