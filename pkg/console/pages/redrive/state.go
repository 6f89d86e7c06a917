package redrive

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
)

// redrive is a redrive in an answer of the API.
type redrive struct {
	ID        string `json:"id"`
	Action    string `json:"action"`
	State     string `json:"state"`
	Note      string `json:"note"`
	Actor     string `json:"actor"`
	Reason    string `json:"reason"`
	Selection struct {
		By       string  `json:"by"`
		Archived bool    `json:"archived"`
		Filter   *filter `json:"filter"`
	} `json:"selection"`
	Options options           `json:"options"`
	titles  map[string]string // titles of the error groups in the filter

	CreatedAt time.Time `json:"created_at"`
	EndedAt   time.Time `json:"ended_at"`

	Selected  int64            `json:"selected"`
	Succeeded int64            `json:"succeeded"`
	Failed    int64            `json:"failed"`
	Dead      int64            `json:"dead"`
	InDoubt   int64            `json:"in_doubt"`
	Skipped   int64            `json:"skipped"`
	Waiting   int64            `json:"waiting"`
	UnderWay  int64            `json:"under_way"`
	NotSent   int64            `json:"not_sent"` // messages that an ended redrive had not taken
	Returned  int64            `json:"returned"`
	Counted   map[string]int64 `json:"reasons"`

	Progress     float64   `json:"progress"`
	Rate         float64   `json:"rate"`
	SecondsLeft  *int64    `json:"seconds_left"`
	WaitingSince time.Time `json:"waiting_since"`
	Bounds       []bound   `json:"bounds"`
	Outcomes     struct {
		Published int64 `json:"published"`
		Consumed  int64 `json:"consumed"`
		Returned  int64 `json:"returned"`
	} `json:"outcomes"`
}

// bound is how many messages may be in a topic while their outcomes are unknown.
type bound struct {
	Topic   string `json:"topic"`
	Bound   int64  `json:"bound"`
	Unknown int64  `json:"unknown"`
	Known   int64  `json:"known"`
	Waiting bool   `json:"waiting"`
	Lifted  string `json:"lifted"`
}

// Says describes the bound in a sentence.
func (b bound) Says() string {
	switch {
	case b.Lifted == "continued":
		return "It no longer waits for outcomes here: an operator continued it."
	case b.Lifted != "":
		return "It no longer waits for outcomes here: no consumer group shows them, and no message failed again for a while."
	case b.Waiting:
		return "All " + format.Number(b.Bound) + " messages that may be sent without a known outcome were sent. More are sent as outcomes become known."
	default:
		return format.Number(b.Unknown) + " of at most " + format.Number(b.Bound) + " messages are sent without a known outcome. The limit doubles as outcomes become known."
	}
}

// Waits reports whether it waits for outcomes.
func (d redrive) Waits() bool {
	return d.State == "canary" && d.Done() >= min(d.Options.Canary, d.Selected) ||
		slices.ContainsFunc(d.Bounds, func(b bound) bool { return b.Waiting })
}

type options struct {
	Canary          int64           `json:"canary"`
	CanaryWait      string          `json:"canary_wait"`
	Rate            float64         `json:"rate"`
	MaxFailureShare float64         `json:"max_failure_share"`
	MaxReturnShare  float64         `json:"max_return_share"`
	MinSample       int64           `json:"min_sample"`
	KeepKeyOrder    bool            `json:"keep_key_order"`
	Requeue         bool            `json:"requeue"`
	AcceptEnvelope  bool            `json:"accept_envelope"`
	OriginalTopic   string          `json:"original_topic"`
	Patch           json.RawMessage `json:"patch"`
	Schema          string          `json:"schema"`
}

func (d redrive) Does() action { return actionOf(d.Action, d.Selection.Archived) }

func (d redrive) URL() string { return link.Redrive(d.ID) }

func (d redrive) Title() string { return d.Does().of(d.Selected) }

// Over reports whether the redrive has ended.
func (d redrive) Over() bool { return d.State == "finished" || d.State == "cancelled" }

// Active reports whether processes work on the redrive.
func (d redrive) Active() bool { return d.State == "canary" || d.State == "running" }

// fate splits the published messages of a redrive: those that failed again, those that were consumed, and those whose
// outcome is unknown. The API reads the counts at different times, but the parts never add up to more than the whole.
type fate struct{ FailedAgain, Consumed, Unknown int64 }

func (d redrive) Fate() fate {
	f := fate{FailedAgain: min(d.Returned, d.Succeeded)}
	f.Consumed = min(d.Outcomes.Consumed, d.Succeeded-f.FailedAgain)
	f.Unknown = d.Succeeded - f.FailedAgain - f.Consumed
	return f
}

// part is the number of a redrive's messages that have one result, with this result in words.
type part struct {
	N     int64
	Words string
	Wrong bool
}

// Parts describes the results in words. It leaves out results with 0 messages, except the first.
func (d redrive) Parts() []part {
	parts := []part{
		{d.Succeeded, d.Does().Done, false},
		{d.Fate().FailedAgain, "of them failed again", true},
		{d.Failed, "failed", true},
		{d.InDoubt, "in doubt", true},
		{d.Skipped, "skipped", false},
		{d.NotSent, d.Rest(), false},
	}
	return slices.DeleteFunc(parts, func(p part) bool { return p.N == 0 && p != parts[0] })
}

// Rest describes in words the messages without a result: those of an ended redrive are not waiting.
func (d redrive) Rest() string {
	switch {
	case !d.Over():
		return "waiting"
	case d.Does().Retry:
		return "not sent"
	default:
		return "not processed"
	}
}

// Unresolved returns the number of messages without a result that the page shows.
func (d redrive) Unresolved() int64 {
	if d.Over() {
		return d.NotSent
	}
	return d.Waiting
}

// Look returns the CSS class of the state's badge: a finished redrive counts as good only when no message failed,
// failed again or is in doubt.
func (d redrive) Look() string {
	if d.State == "finished" && d.Failed+d.InDoubt+d.Returned > 0 {
		return "caution"
	}
	return d.State
}

func (d redrive) Done() int64 { return d.Selected - d.Waiting }

func (d redrive) Reasons() []reason { return reasonsOf(d.Counted) }

func (d redrive) Means() []phrase {
	if d.Selection.Filter == nil {
		return []phrase{{Says: "chosen one by one"}}
	}
	does := d.Does()
	if d.Options.Requeue {
		does = does.withDead()
	}
	return d.Selection.Filter.phrases(does, d.titles)
}

// Every returns how often the page polls the redrive; "" for never. After the end, the page polls for returnsWatched if
// there are published messages or messages in doubt, because they may fail again.
func (d redrive) Every(now time.Time) string {
	switch {
	case d.Active():
		return "every 2s"
	case !d.Over(), d.State == "cancelled" && d.UnderWay > 0, d.Outcomes.Published+d.InDoubt > 0 && now.Sub(d.EndedAt) < returnsWatched:
		// The page polls at least twice in the ten seconds after which live.js marks a part of the page as out of date.
		return "every 5s"
	default:
		return ""
	}
}

const returnsWatched = 30 * time.Minute

// Speed returns the rate in words; "" when there is none, because the redrive has ended or has no results yet.
func (d redrive) Speed() string {
	switch {
	case d.Rate <= 0, d.Over():
		return ""
	case d.Rate < 1:
		return oneDigit(d.Rate*60) + " a minute"
	case d.Rate < 100:
		return oneDigit(d.Rate) + " a second"
	default:
		return format.Number(int64(d.Rate)) + " a second"
	}
}

// oneDigit formats a number with at most one decimal.
func oneDigit(n float64) string { return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0") }

// Left returns the estimated time left, in words; "" when it is unknown.
func (d redrive) Left() string {
	if d.SecondsLeft == nil || d.Over() {
		return ""
	}
	return "about " + format.Rough(time.Duration(max(1, *d.SecondsLeft))*time.Second)
}

func (d redrive) Says() string {
	switch d.State {
	case "canary":
		return d.canary()
	case "running":
		return ""
	case "paused":
		return "No more messages are taken until it is resumed."
	case "stopped":
		return "Nothing more is sent until it is resumed."
	case "cancelled":
		return "Messages that it had not taken are unchanged."
	default:
		return "All messages were processed."
	}
}

func (d redrive) canary() string {
	sent, it, goes := "message was", "it is", "has"
	if d.Options.Canary != 1 {
		sent, it, goes = "messages were", "they are", "have"
	}
	if d.Done() < d.Options.Canary && d.Selected > d.Options.Canary {
		return "The canary is sent first: " + format.Messages(d.Options.Canary, "") + "."
	}
	return format.Number(min(d.Options.Canary, d.Selected)) + " " + sent + " sent first. The rest follows when " + it +
		" consumed, or, where the consumer group is unknown, " + goes + " not failed again for " + waitWords(d.Options.CanaryWait) + "."
}

func (o options) Chosen() []string {
	var list []string
	add := func(is bool, words string) {
		if is {
			list = append(list, words)
		}
	}
	add(o.OriginalTopic != "", "original topic "+o.OriginalTopic)
	add(o.Canary > 0, format.Messages(o.Canary, "")+" first as a canary, waiting "+waitWords(o.CanaryWait))
	add(o.Rate > 0, "at most "+strconv.FormatFloat(o.Rate, 'f', -1, 64)+" a second")
	add(o.MaxFailureShare > 0, "stop when more than "+sharePercent(o.MaxFailureShare)+" % fail")
	add(o.MaxReturnShare > 0, "stop when more than "+sharePercent(o.MaxReturnShare)+" % fail again; few are sent before outcomes are known")
	add(o.MinSample > 0, "judged after "+format.Number(o.MinSample)+" were sent")
	add(o.KeepKeyOrder, "in the order of each key")
	add(o.Requeue, "dead messages too")
	add(o.AcceptEnvelope, "envelopes as they are")
	return list
}

const maxPatch = 16 << 10

// Patched returns the patch formatted, or its beginning; "" for none.
func (o options) Patched() string {
	text, used, ok := format.JSON(o.Patch, maxPatch)
	if !ok || string(o.Patch) == "null" {
		return ""
	}
	if used < len(o.Patch) {
		text = strings.ToValidUTF8(text, "") + "\n…"
	}
	return text
}

func anyActive(list []redrive) bool { return slices.ContainsFunc(list, redrive.Active) }
