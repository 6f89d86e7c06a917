package redrive

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/diff"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

type dryRun struct {
	Selected int64            `json:"selected"`
	Sendable int64            `json:"sendable"`
	Counted  map[string]int64 `json:"reasons"`
	Groups   []dryGroup       `json:"groups"`
	Messages []dryMessage     `json:"messages"`
	Samples  []drySample      `json:"samples"`
	Checked  int64            `json:"patch_checked"`
	Misfits  int64            `json:"patch_failed"`
	Complete bool             `json:"patch_complete"` // the patch was tried on all messages that can be sent
	Failures []patchFailure   `json:"patch_failures"`
	Until    string           `json:"searched_until"`
	Overlaps []overlap        `json:"overlaps"` // nil: not known
}

// overlap is another redrive that selects some of the same messages and has not processed them yet.
type overlap struct {
	ID        string    `json:"id"`
	State     string    `json:"state"`
	Actor     string    `json:"actor"`
	CreatedAt time.Time `json:"created_at"`
	Messages  int64     `json:"messages"`
}

func (o overlap) URL() string { return link.Redrive(o.ID) }

// Says describes the overlap in words: "alice started a redrive over 9 of these 2 min ago".
func (o overlap) Says(now time.Time) string {
	return cmp.Or(o.Actor, "Someone") + " started a redrive over " + format.Number(o.Messages) + " of these " + format.Ago(now, o.CreatedAt)
}

func (d dryRun) OverlapsUnknown() bool { return d.Overlaps == nil }

// Known returns the ids of the overlapping redrives that the preview shows.
func (d dryRun) Known() string {
	var ids []string
	for _, o := range d.Overlaps {
		ids = append(ids, o.ID)
	}
	return strings.Join(ids, ",")
}

// patchFailure is a reason why the patch cannot be applied to some messages.
type patchFailure struct {
	Reason   string `json:"reason"`
	Messages int64  `json:"messages"`
	Example  string `json:"example"`
}

// dryMessage is one of the messages that the redrive would process, and the topic to which it would be sent.
type dryMessage struct {
	api.Message
	Target string `json:"target"` // "": nothing would be sent
}

type dryGroup struct {
	Topic    string `json:"topic"`
	Target   string `json:"target"` // "": nothing would be sent, or this is not known
	Messages int64  `json:"messages"`
	Class    string `json:"class"`
	Reason   string `json:"reason"`
	Missing  bool   `json:"target_missing"` // the topic to which the messages would be sent does not exist
	// Removes are the headers that the replay of one of the messages does not carry.
	Removes []string `json:"replay_removes"`
}

// Redirected reports whether a redirect sends the messages to another topic than their original topic.
func (g dryGroup) Redirected() bool { return g.Target != g.Topic }

// Redirected reports whether a redirect sends the message to another topic than its original topic.
func (m dryMessage) Redirected() bool { return m.Target != m.OriginalTopic }

// Why returns in words why the messages of this group of the dry run would not be sent; "" when they would be sent.
func (g dryGroup) Why() string {
	if g.Reason != "" {
		return g.Reason
	}
	return reasonWords(g.Class)
}

type drySample struct {
	MessageID string          `json:"message_id"`
	Before    json.RawMessage `json:"before"`
	After     json.RawMessage `json:"after"`
	Reason    string          `json:"reason"`
}

func (s drySample) Lines() []diff.Line {
	if !s.Whole() {
		return nil
	}
	lines, _ := diff.Texts(string(s.Before), string(s.After))
	return lines
}

func (s drySample) Whole() bool { return shownJSON(s.Before) && shownJSON(s.After) }

// shownJSON reports whether there is a value to show; JSON null is decoded like a missing value.
func shownJSON(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

func (d dryRun) Reasons() []reason { return reasonsOf(d.Counted) }

func (d dryRun) Not() int64 { return d.Selected - d.Sendable }

// Later returns the number of selected messages, without deleted ones, that the redrive could not take in their present
// state. It takes such a message if the message has a suitable state when the redrive reaches it.
func (d dryRun) Later() int64 { return d.Selected - d.Startable() - d.Counted["gone"] }

// Startable returns how many messages a redrive would take, including those whose broker is unreachable now.
func (d dryRun) Startable() int64 { return d.Sendable + d.Counted["BROKER_UNAVAILABLE"] }

// Start is the form that previews a redrive and starts it.
type Start struct {
	API      api.Client
	Renderer *view.Renderer
	Now      func() time.Time
}

type startPage struct {
	order
	Actions      []action
	Titles       map[string]string // titles of the error groups in the filter
	Dry          *dryRun           // nil: there is no dry run
	DeniedReason string            // the reason for which the viewer may not start the redrive; "": the viewer may
	NoPatch      string            // the reason for which no patch can be given
	PreviewID    string            // identifies what the dry run previewed
}

func (p startPage) Start() string {
	does := p.Does().of(p.Dry.Startable())
	if p.Patch != "" && !p.Dry.Complete {
		does = strings.Replace(does, p.Does().Name, p.Does().Name+" up to", 1)
	}
	if p.Action == "delete" {
		does += " permanently"
	}
	return does
}

func (p startPage) Nothing() string {
	switch {
	case p.DeniedReason != "":
		return p.DeniedReason
	case p.Dry.Selected == 0:
		return "nothing matches"
	case p.Dry.Startable() == 0:
		return "none of them can be sent"
	default:
		return ""
	}
}

func (p startPage) Sure() bool { return p.Does().Hurts }

// Conditions returns the conditions of the filter as form fields, so that the form sends them again.
func (p startPage) Conditions() []view.FieldProblem {
	var list []view.FieldProblem
	for _, name := range slices.Concat(filterTexts, filterLists) {
		for _, value := range p.Filter[name] {
			list = append(list, view.FieldProblem{Field: filterPrefix + name, Reason: value})
		}
	}
	return list
}

// Address returns the address of the preview of an action on the same messages. If there are too many ids for an
// address, it contains none.
func (o order) Address(action string) string {
	query := url.Values{"action": {action}}
	if o.Archive {
		query.Set("archived", "true")
	}
	if o.Few() && len(o.IDs) > 0 {
		query["ids"] = []string{o.Together()}
	}
	for name, values := range o.Filter {
		query[name] = values
	}
	for name, n := range map[string]int64{"counted": o.Counted, "counted_of": o.CountedOf} {
		if n > 0 {
			query.Set(name, strconv.FormatInt(n, 10))
		}
	}
	return link.WithQuery(link.NewRedrive, query)
}

// Compared says how the number of selected messages differs from the number that the facet counted. It returns "" when
// the user does not come from a facet, and when the facet counted all matching messages and the numbers are equal.
func (p startPage) Compared() string {
	counted := "The facet counted " + format.Messages(p.Counted, "") + " with this value"
	switch {
	case p.Counted <= 0 || p.Dry == nil:
		return ""
	case p.CountedOf > 0:
		return counted + ", among the newest " + format.Number(p.CountedOf) + " that match. " + format.Number(p.Dry.Selected) + " of all are selected here."
	case p.Dry.Selected == p.Counted:
		return ""
	case p.Dry.Selected > p.Counted:
		return counted + ". Now " + format.Number(p.Dry.Selected) + " match."
	}
	return counted + ", in any status. " + format.Number(p.Dry.Selected) + " of them are selected: the others have a status that " +
		"this action does not take, have changed, or are in topics on which you may not act."
}

// Few reports whether the ids of the selected messages fit into an address.
func (o order) Few() bool { return len(o.IDs) <= 100 }

// Start starts the redrive that the preview has shown to the user, or shows a new preview.
func (s *Start) Start(w http.ResponseWriter, r *http.Request) error {
	o := readOrder(r, s.Now())
	r = view.WithPage(r, o.Address(o.Action)) // if the draft is gone, the page at this address still has the selection
	if r.PostFormValue("do") != "start" {
		return s.Renderer.ShowAgain(w, r, nil)
	}
	body := o.body()
	if refused := o.refusal(r.PostFormValue("looks")); refused != nil {
		return s.Renderer.ShowAgain(w, r, refused)
	}
	switch more, err := s.changed(r, &o); {
	case err != nil:
		return s.refused(w, r, err)
	case more != nil:
		r.PostForm.Del("meant")
		return s.Renderer.ShowAgain(w, r, more)
	}
	var made redrive
	if err := s.API.Send(r, http.MethodPost, api.Endpoint("redrives"), body, &made); err != nil {
		return s.refused(w, r, err)
	}
	return view.RedirectDone(w, r, "redrive", made.URL())
}

func (s *Start) refused(w http.ResponseWriter, r *http.Request, err error) error {
	return view.Answered(err, func(problem *view.Problem) error { return s.Renderer.ShowAgain(w, r, problem) })
}

// changed checks whether the selection has changed since the preview. It returns a problem when another redrive has
// selected some of the messages meanwhile. For a harmful action it also returns a problem when the action would affect
// more messages than the preview showed. Otherwise it returns nil.
func (s *Start) changed(r *http.Request, o *order) (*view.Problem, error) {
	dry, err := s.dry(r, o.body())
	if err != nil {
		return nil, err
	}
	known := separated(r.PostForm["overlaps"])
	for _, other := range dry.Overlaps {
		if !slices.Contains(known, other.ID) {
			return &view.Problem{Title: "Another redrive has some of these", Message: other.Says(s.Now()) + ". Nothing was started: start again if both should run."}, nil
		}
	}
	if !o.Does().Hurts || dry.Startable() <= o.Shown {
		return nil, nil
	}
	return &view.Problem{Title: "The preview has changed", Message: "More messages match now than were shown: " + format.Messages(dry.Startable(), "") + ". Nothing was started."}, nil
}

// refusal returns the reason why the order is not executed yet, or nil. looked identifies the preview that the user has
// seen.
func (o *order) refusal(looked string) *view.Problem {
	var missing []view.FieldProblem
	if o.Does().Hurts && !o.Meant {
		missing = append(missing, view.FieldProblem{Field: "", Reason: "Tick the box to confirm."})
	}
	if o.Action == "delete" && o.Reason == "" {
		missing = append(missing, view.FieldProblem{Field: "reason", Reason: "is required for a deletion"})
	}
	switch {
	case len(o.problems) > 0:
		return &view.Problem{Title: "Invalid request", Message: "Nothing was started.", Fields: o.problems}
	case looked != o.previewID():
		return &view.Problem{Title: "The preview has changed", Message: "Your change affects which messages are taken, or what is sent. Nothing was started; the new preview is below."}
	case len(missing) > 0:
		return &view.Problem{Title: "Not yet", Message: "Nothing was started.", Fields: missing}
	}
	return nil
}

// Show shows the form, with a preview of the messages that the address or the draft selects.
func (s *Start) Show(w http.ResponseWriter, r *http.Request) error {
	o, draft := readOrder(r, s.Now()), view.DraftOf(r)
	if o.Does().Action != o.Action {
		return &api.Error{Status: http.StatusBadRequest, Message: "There is no action of this name."}
	}
	status, problem := http.StatusOK, draft.Refused()
	viewer := session.ViewerOf(r)
	shown := startPage{Actions: actionsOn(o.Archive), DeniedReason: viewer.Why(api.RoleFor(o.Action)), NoPatch: viewer.Why("edit"), Titles: s.titles(r, &o)}
	if body := o.body(); len(o.problems) > 0 && problem == nil {
		status, problem = http.StatusBadRequest, &view.Problem{Title: "Invalid request", Message: "The dry run needs valid values.", Fields: o.problems}
	} else if len(o.problems) == 0 && o.Selects() && shown.DeniedReason == "" && (o.Action != "map" || o.Topic != "") {
		dry, err := s.dry(r, body)
		if err != nil {
			dryStatus, refused, err := view.ProblemOf(err)
			if err != nil {
				return err
			}
			if problem == nil {
				status, problem = dryStatus, refused
			}
		}
		shown.Dry = dry
	}
	if draft.Sent() {
		status = http.StatusOK // the form was refused, but this request for its page succeeds
	}
	if !draft.Sent() || !r.PostForm.Has("do") { // the user comes from a list and has not chosen any options
		o.propose(shown.Dry)
	}
	shown.order, shown.PreviewID = o, o.previewID()
	title := "Start a redrive"
	if o.Selects() {
		title = o.Does().Name + ": preview"
	}
	return s.Renderer.Render(w, r, status, "redrive-new", view.Page{Title: title, Nav: link.Redrives, Problem: problem, Data: shown})
}

// dry requests a dry run. It leaves out the idempotency key, which is for the redrive itself.
func (s *Start) dry(r *http.Request, body map[string]any) (*dryRun, error) {
	body["dry_run"] = true
	var dry dryRun
	if err := s.API.Send(api.WithoutKey(r), http.MethodPost, api.Endpoint("redrives"), body, &dry); err != nil {
		return nil, err
	}
	return &dry, nil
}

// propose fills in the options of a careful retry of several messages: a canary of 5 % of the messages, from 1 to 20,
// and a stop when more than 10 % of the messages fail or fail again.
func (o *order) propose(dry *dryRun) {
	canary := int64(1)
	if dry != nil {
		canary = max(1, min(20, dry.Startable()/20))
	}
	if o.Does().Retry && (dry == nil || dry.Startable() > 1) {
		o.Canary, o.Wait, o.Failing, o.Coming, o.Sample = strconv.FormatInt(canary, 10), "60s", "10", "10", "20"
	}
}

// titles returns the title of the error group in the order's filter, by id; nil when the filter has no group.
func (s *Start) titles(r *http.Request, o *order) map[string]string {
	id := o.Filter.Get("group_id")
	if id == "" {
		return nil
	}
	return map[string]string{id: groupTitle(r, s.API, id)}
}

// groupTitle returns the title of an error group; "" when it cannot be read.
func groupTitle(r *http.Request, client api.Client, id string) string {
	g, ok := client.ErrorGroup(r, id)
	if !ok {
		return ""
	}
	return format.Middle(120, g.Heading())
}
