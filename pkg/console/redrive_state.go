package console

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

type redriveState struct {
	ID        string `json:"id"`
	Action    string `json:"action"`
	State     string `json:"state"`
	Note      string `json:"note"`
	Actor     string `json:"actor"`
	Reason    string `json:"reason"`
	Selection struct {
		By     string         `json:"by"`
		Filter *redriveFilter `json:"filter"`
	} `json:"selection"`
	Options redriveOptions `json:"options"`

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
	Returned  int64            `json:"returned"`
	Counted   map[string]int64 `json:"reasons"`

	Progress     float64   `json:"progress"`
	Rate         float64   `json:"rate"`
	SecondsLeft  *int64    `json:"seconds_left"`
	WaitingSince time.Time `json:"waiting_since"`
	Outcomes     struct {
		Published int64 `json:"published"`
		Consumed  int64 `json:"consumed"`
		Returned  int64 `json:"returned"`
	} `json:"outcomes"`
}

type redriveOptions struct {
	Canary          int64           `json:"canary"`
	CanaryWait      string          `json:"canary_wait"`
	Rate            float64         `json:"rate"`
	MaxFailureShare float64         `json:"max_failure_share"`
	MaxReturnShare  float64         `json:"max_return_share"`
	MinSample       int64           `json:"min_sample"`
	KeepKeyOrder    bool            `json:"keep_key_order"`
	Requeue         bool            `json:"requeue"`
	OriginalTopic   string          `json:"original_topic"`
	Patch           json.RawMessage `json:"patch"`
}

func (d redriveState) Does() redriveAction { return actionOf(d.Action) }

func (d redriveState) Here() string { return "/redrives/" + url.PathEscape(d.ID) }

func (d redriveState) Title() string { return d.Does().of(d.Selected) }

// Over reports whether the redrive has ended.
func (d redriveState) Over() bool { return d.State == "finished" || d.State == "cancelled" }

// Active reports whether processes work on it.
func (d redriveState) Active() bool { return d.State == "canary" || d.State == "running" }

func (d redriveState) Done() int64 { return d.Selected - d.Waiting }

func (d redriveState) Reasons() []redriveReason { return reasonsOf(d.Counted) }

func (d redriveState) Means() []phrase {
	if d.Selection.Filter == nil {
		return []phrase{{Says: "chosen one by one"}}
	}
	does := d.Does()
	if d.Options.Requeue {
		does = does.deadToo()
	}
	return d.Selection.Filter.phrases(does, nil)
}

// Every is how often a page polls the redrive; "" for never. Messages may fail again for a while after its end.
func (d redriveState) Every(now time.Time) string {
	switch {
	case d.Active():
		return "every 2s"
	case !d.Over(): // until it is resumed or cancelled
		return "every 15s"
	case d.Outcomes.Published+d.InDoubt > 0 && now.Sub(d.EndedAt) < stillLookedAt:
		return "every 5s"
	default:
		return ""
	}
}

const stillLookedAt = 30 * time.Minute

func (d redriveState) Speed() string {
	switch {
	case d.Rate <= 0:
		return ""
	case d.Rate < 1:
		return oneDigit(d.Rate*60) + " a minute"
	case d.Rate < 100:
		return oneDigit(d.Rate) + " a second"
	default:
		return number(int64(d.Rate)) + " a second"
	}
}

// oneDigit formats a number with at most one decimal.
func oneDigit(n float64) string { return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0") }

// Left returns the estimated time left, in words; "" when it is unknown.
func (d redriveState) Left() string {
	if d.SecondsLeft == nil || d.Over() {
		return ""
	}
	return "about " + rough(time.Duration(max(1, *d.SecondsLeft))*time.Second)
}

func (d redriveState) Says() string {
	switch d.State {
	case "canary":
		return d.canary()
	case "running":
		return ""
	case "paused":
		return "No more messages are taken until it is resumed."
	case "stopped":
		return "It stopped itself. Resume sends the waiting messages as if the canary had passed and nothing had failed so far."
	case "cancelled":
		return "Messages that it had not taken are unchanged."
	default:
		return "All messages were processed."
	}
}

func (d redriveState) canary() string {
	sent, it, goes := "message was", "it is", "has"
	if d.Options.Canary != 1 {
		sent, it, goes = "messages were", "they are", "have"
	}
	if d.Done() < d.Options.Canary && d.Selected > d.Options.Canary {
		return "The canary is sent first: " + messagesIn(d.Options.Canary, "") + "."
	}
	return number(min(d.Options.Canary, d.Selected)) + " " + sent + " sent first. The rest follows when " + it +
		" consumed, or, where the consumer group is unknown, " + goes + " not failed again for " + waitWords(d.Options.CanaryWait) + "."
}

func (o redriveOptions) Chosen() []string {
	var list []string
	add := func(is bool, words string) {
		if is {
			list = append(list, words)
		}
	}
	add(o.OriginalTopic != "", "original topic "+o.OriginalTopic)
	add(o.Canary > 0, messagesIn(o.Canary, "")+" first as a canary, waiting "+waitWords(o.CanaryWait))
	add(o.Rate > 0, "at most "+strconv.FormatFloat(o.Rate, 'f', -1, 64)+" a second")
	add(o.MaxFailureShare > 0, "stop when more than "+sharePercent(o.MaxFailureShare)+" % fail")
	add(o.MaxReturnShare > 0, "stop when more than "+sharePercent(o.MaxReturnShare)+" % fail again")
	add(o.MinSample > 0, "judged after "+number(o.MinSample)+" were sent")
	add(o.KeepKeyOrder, "in the order of each key")
	add(o.Requeue, "dead messages too")
	return list
}

const maxPatch = 16 << 10

// Patched returns the patch formatted, or its beginning; "" for none.
func (o redriveOptions) Patched() string {
	text, used, ok := laidOut(o.Patch, maxPatch)
	if !ok || string(o.Patch) == "null" {
		return ""
	}
	if used < len(o.Patch) {
		text = strings.ToValidUTF8(text, "") + "\n…"
	}
	return text
}

func anyActive(list []redriveState) bool { return slices.ContainsFunc(list, redriveState.Active) }
