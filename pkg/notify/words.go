package notify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const titleLength = 200

// detail holds those fields of a notification that only some kinds have. It contains no key and no payload of a record;
// only the class and the title of an error group come from headers.
type detail struct {
	Group   *groupDetail   `json:"group,omitempty"`
	Spike   *spikeDetail   `json:"spike,omitempty"`
	Redrive *redriveDetail `json:"redrive,omitempty"`
}

type groupDetail struct {
	ID    uuid.UUID `json:"id"`
	Class string    `json:"class"`
	Title string    `json:"title"`
}

type spikeDetail struct {
	Arrived int64   `json:"arrived"`
	Usual   float64 `json:"usual"`
}

type redriveDetail struct {
	ID     uuid.UUID `json:"id"`
	Action string    `json:"action"`
	Note   string    `json:"note,omitempty"`
	*RedriveCounts
}

// RedriveCounts are left out when they may count messages of topics of which the sink must not hear.
type RedriveCounts struct {
	Selected  int `json:"selected"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	InDoubt   int `json:"in_doubt"`
	Skipped   int `json:"skipped"`
}

func packDetail(e repository.Event) []byte {
	var d detail
	switch e.Kind {
	case repository.GroupNew, repository.GroupRegressed:
		f := entity.Fingerprint{Title: e.Title}
		d.Group = &groupDetail{ID: e.Object, Class: plain(e.Class), Title: plain(f.ShortTitle(titleLength))}
	case repository.Spike:
		d.Spike = &spikeDetail{Arrived: e.Arrived, Usual: e.Usual}
	case repository.RedriveFinished, repository.RedriveStopped:
		r := e.Redrive
		d.Redrive = &redriveDetail{ID: e.Object, Action: r.Action, Note: plain(r.Note)}
		if !r.Partial {
			d.Redrive.RedriveCounts = &RedriveCounts{r.Selected, r.Succeeded, r.Failed, r.InDoubt, r.Skipped}
		}
	case repository.LoopStopped, repository.MessageDead:
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return []byte("{}") // never happens, because Usual is finite, and JSON can represent all other values
	}
	return raw
}

// plain returns the text on one line without invisible characters, which could reverse or hide a part of it.
func plain(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
}

type words struct {
	source  string
	console string // the console's URL; "" for no links
	masked  bool   // hides the texts of error groups
}

const maskedText = "***"

const eventTypes = "com.github.dlq-manager."

// cloudEvent is a notification as a CloudEvent 1.0 in structured mode.
type cloudEvent struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject,omitempty"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            data      `json:"data"`
}

type data struct {
	Kind       repository.EventKind `json:"kind"`
	Summary    string               `json:"summary"`
	Events     int64                `json:"events"`
	FirstAt    time.Time            `json:"first_at"`
	LastAt     time.Time            `json:"last_at"`
	Topics     []string             `json:"topics"`
	MessageIDs []uuid.UUID          `json:"message_ids,omitempty"`
	detail
	URL string `json:"url,omitempty"`
}

func (w words) cloudEvent(n repository.Notification) ([]byte, error) {
	d, err := w.unpack(n)
	if err != nil {
		return nil, err
	}
	return json.Marshal(cloudEvent{
		SpecVersion: "1.0", ID: n.ID.String(), Source: w.source, Type: eventTypes + string(n.Kind), Subject: n.Object,
		Time: n.Last.UTC(), DataContentType: "application/json",
		Data: data{
			Kind: n.Kind, Summary: summary(n, d), Events: n.Events, FirstAt: n.First.UTC(), LastAt: n.Last.UTC(),
			Topics: append([]string{}, n.Topics...), MessageIDs: n.MessageIDs, detail: d, URL: w.link(n),
		},
	})
}

// unpack decodes the details of a notification. If masks are configured, it hides the class and the title of an error
// group, even if the notification was stored before.
func (w words) unpack(n repository.Notification) (d detail, err error) {
	if err := json.Unmarshal(n.Detail, &d); err != nil {
		return d, fmt.Errorf("read a notification: %w", err)
	}
	if w.masked && d.Group != nil {
		d.Group.Class, d.Group.Title = "", maskedText
	}
	return d, nil
}

func summary(n repository.Notification, d detail) string {
	in := topicsOf(n)
	switch {
	case n.Kind == repository.GroupNew && d.Group != nil:
		return fmt.Sprintf("New error group%s: %s", in, d.Group.name())
	case n.Kind == repository.GroupRegressed && d.Group != nil:
		return fmt.Sprintf("Error group failed again%s after all its messages were resolved: %s", in, d.Group.name())
	case n.Kind == repository.Spike && d.Spike != nil:
		return fmt.Sprintf("Spike%s: %d dead letters in about a quarter of an hour, usually %.1f", in, d.Spike.Arrived, d.Spike.Usual)
	case n.Kind == repository.LoopStopped:
		return fmt.Sprintf("Loop stopped%s: %s failed again too often and will not be sent again", in, messages(n.Events))
	case n.Kind == repository.MessageDead:
		return fmt.Sprintf("%s became DEAD%s", messages(n.Events), in)
	case n.Kind == repository.RedriveFinished && d.Redrive != nil:
		return fmt.Sprintf("Redrive (%s) finished%s: %s", d.Redrive.Action, in, d.Redrive.counts())
	case n.Kind == repository.RedriveStopped && d.Redrive != nil:
		text := fmt.Sprintf("Redrive (%s) stopped itself%s: %s", d.Redrive.Action, in, d.Redrive.counts())
		if d.Redrive.Note != "" {
			text += " (" + d.Redrive.Note + ")"
		}
		return text
	}
	return string(n.Kind)
}

func (g *groupDetail) name() string {
	if g.Class != "" && g.Title != "" {
		return g.Class + ": " + g.Title
	}
	return cmp.Or(g.Class, g.Title, g.ID.String())
}

func (r *redriveDetail) counts() string {
	if r.RedriveCounts == nil {
		return "not counted, because it may have messages of other topics"
	}
	return fmt.Sprintf("of %d selected %d succeeded, %d failed, %d in doubt, %d skipped",
		r.Selected, r.Succeeded, r.Failed, r.InDoubt, r.Skipped)
}

func messages(n int64) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}

func topicsOf(n repository.Notification) string {
	const most = 3
	switch topics := n.Topics; {
	case len(topics) == 0:
		return ""
	case len(topics) > most:
		return fmt.Sprintf(" in %s and %d more topics", strings.Join(topics[:most], ", "), len(topics)-most)
	default:
		return " in " + strings.Join(topics, ", ")
	}
}

func (w words) link(n repository.Notification) string {
	if w.console == "" {
		return ""
	}
	base := strings.TrimSuffix(w.console, "/")
	switch n.Kind {
	case repository.GroupNew, repository.GroupRegressed:
		return base + "/groups/" + url.PathEscape(n.Object)
	case repository.RedriveFinished, repository.RedriveStopped:
		return base + "/redrives/" + url.PathEscape(n.Object)
	case repository.Spike, repository.LoopStopped, repository.MessageDead:
	}
	if n.Object == "" {
		return base + "/"
	}
	q := url.Values{"topic": {n.Object}}
	if ofMessages(n.Kind) {
		q.Set("status", "DEAD")
	}
	return base + "/messages?" + q.Encode()
}

func ofMessages(kind repository.EventKind) bool {
	return kind == repository.MessageDead || kind == repository.LoopStopped
}
