package console

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
)

type dryRun struct {
	Selected int64            `json:"selected"`
	Sendable int64            `json:"sendable"`
	Counted  map[string]int64 `json:"reasons"`
	Groups   []dryGroup       `json:"groups"`
	Samples  []drySample      `json:"samples"`
	Checked  int64            `json:"patch_checked"`
	Misfits  int64            `json:"patch_failed"`
	Until    string           `json:"searched_until"`
}

type dryGroup struct {
	Topic    string `json:"topic"`
	Messages int64  `json:"messages"`
	Class    string `json:"class"`
	Reason   string `json:"reason"`
}

// Why says why the messages of the group are not sent, in words; "" when they are.
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

func (s drySample) Lines() []diffLine {
	if !s.Whole() {
		return nil
	}
	lines, _ := differenceOf(string(s.Before), string(s.After))
	return lines
}

func (s drySample) Whole() bool { return shownJSON(s.Before) && shownJSON(s.After) }

// shownJSON reports whether there is a value: JSON null decodes like a missing one.
func shownJSON(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

func (d dryRun) Reasons() []redriveReason { return reasonsOf(d.Counted) }

func (d dryRun) Not() int64 { return d.Selected - d.Sendable }

// Later returns how many messages would also be taken if their state allows it when their turn comes.
func (d dryRun) Later() int64 { return d.Selected - d.Startable() - d.Counted["gone"] }

// Startable returns how many messages a redrive would take, including those whose broker is unreachable now.
func (d dryRun) Startable() int64 { return d.Sendable + d.Counted["BROKER_UNAVAILABLE"] }

type redriveNewPage struct {
	redriveOrder
	Actions []redriveAction
	Titles  map[string]string // titles of the groups in the filter
	Dry     *dryRun           // nil: there is no dry run
	MayNot  string            // the reason for which the viewer may not; empty: they may
	NoPatch string            // the reason for which no patch can be given
	Looks   string            // identifies what the dry run previewed
}

func (p redriveNewPage) Start() string {
	does := p.Does().of(p.Dry.Startable())
	if p.Action == "delete" {
		does += " permanently"
	}
	return does
}

func (p redriveNewPage) Nothing() string {
	switch {
	case p.MayNot != "":
		return p.MayNot
	case p.Dry.Selected == 0:
		return "nothing matches"
	case p.Dry.Startable() == 0:
		return "none of them can be sent"
	default:
		return ""
	}
}

func (p redriveNewPage) Sure() bool { return p.Does().Hurts }

// Conditions returns the fields of the filter, for the form to send them again.
func (p redriveNewPage) Conditions() []fieldProblem {
	var list []fieldProblem
	for _, name := range slices.Concat(filterTexts, filterLists) {
		for _, value := range p.Filter[name] {
			list = append(list, fieldProblem{filterPrefix + name, value})
		}
	}
	return list
}

func (p redriveNewPage) Other(action string) string {
	query := url.Values{"action": {action}}
	if len(p.IDs) > 0 {
		query["ids"] = []string{p.Together()}
	}
	for name, values := range p.Filter {
		query[name] = values
	}
	return "/redrives/new?" + query.Encode()
}

// Few reports whether the selection fits into an address.
func (p redriveNewPage) Few() bool { return len(p.IDs) <= 100 }

func (c *Console) newRedrive(w http.ResponseWriter, r *http.Request) error {
	o := readRedriveOrder(r, c.now())
	return c.previewRedrive(w, r, &o, http.StatusOK, nil)
}

func (c *Console) startRedrive(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return err
	}
	o := readRedriveOrder(r, c.now())
	if r.PostFormValue("do") != "start" {
		return c.previewRedrive(w, r, &o, http.StatusOK, nil)
	}
	body := o.body()
	if refused := o.refusal(r.PostFormValue("looks")); refused != nil {
		return c.previewRedrive(w, r, &o, http.StatusBadRequest, refused)
	}
	if o.Does().Hurts {
		if more, err := c.grown(r, &o); err != nil || more != nil {
			return c.lookAgain(w, r, &o, more, err)
		}
	}
	var made redriveState
	if err := c.api.send(r, http.MethodPost, endpoint("redrives"), body, &made); err != nil {
		return c.lookAgain(w, r, &o, nil, err)
	}
	return seeDone(w, r, "redrive", made.Here())
}

// grown returns a failure when the order would affect more messages than its sender was shown, else nil.
func (c *Console) grown(r *http.Request, o *redriveOrder) (*failure, error) {
	dry, err := c.dry(r, o.body())
	if err != nil || dry.Startable() <= o.Shown {
		return nil, err
	}
	o.Meant = false
	return &failure{Title: "The preview has changed", Message: "More messages match now than were shown: " + messagesIn(dry.Startable(), "") + ". Nothing was started."}, nil
}

// lookAgain shows an order that was not executed, with a problem or an error of the API.
func (c *Console) lookAgain(w http.ResponseWriter, r *http.Request, o *redriveOrder, problem *failure, cause error) error {
	status := http.StatusConflict
	if cause != nil {
		var err error
		if status, problem, err = problemOf(cause); err != nil {
			return err
		}
	}
	return c.previewRedrive(w, r, o, status, problem)
}

// refusal returns why the order is not executed yet, or nil; looked identifies the preview that its sender was shown.
func (o *redriveOrder) refusal(looked string) *failure {
	var missing []fieldProblem
	if o.Does().Hurts && !o.Meant {
		missing = append(missing, fieldProblem{"", "Tick the box to confirm."})
	}
	if o.Action == "delete" && o.Reason == "" {
		missing = append(missing, fieldProblem{"reason", "is required for a deletion"})
	}
	switch {
	case len(o.problems) > 0:
		return &failure{Title: "Invalid request", Message: "Nothing was started.", Fields: o.problems}
	case looked != o.looks():
		return &failure{Title: "The preview has changed", Message: "Your change affects which messages are taken, or what is sent. Nothing was started; the new preview is below."}
	case len(missing) > 0:
		return &failure{Title: "Not yet", Message: "Nothing was started.", Fields: missing}
	}
	return nil
}

// previewRedrive shows an order with its dry run, and what was wrong with it.
func (c *Console) previewRedrive(w http.ResponseWriter, r *http.Request, o *redriveOrder, status int, problem *failure) error {
	viewer := viewerOf(r)
	shown := redriveNewPage{Actions: redriveActions, MayNot: viewer.Why(roleOf(o.Action)), NoPatch: viewer.Why("edit"), Titles: c.titles(r, o)}
	o.problems = nil
	if body := o.body(); len(o.problems) > 0 && problem == nil {
		status, problem = http.StatusBadRequest, &failure{Title: "Invalid request", Message: "The dry run needs valid values.", Fields: o.problems}
	} else if len(o.problems) == 0 && o.Selects() && shown.MayNot == "" && (o.Action != "map" || o.Topic != "") {
		dry, err := c.dry(r, body)
		if err != nil {
			dryStatus, refused, err := problemOf(err)
			if err != nil {
				return err
			}
			if problem == nil {
				status, problem = dryStatus, refused
			}
		}
		shown.Dry = dry
	}
	if r.Method == http.MethodGet {
		o.propose(shown.Dry)
	}
	shown.redriveOrder, shown.Looks = *o, o.looks()
	title := "Start a redrive"
	if o.Selects() {
		title = o.Does().Name + ": preview"
	}
	return c.render(w, r, status, "redrive-new", page{Title: title, Nav: "/redrives", Problem: problem, Data: shown})
}

// dry requests a dry run. It leaves out the idempotency key, which is for the redrive itself.
func (c *Console) dry(r *http.Request, body map[string]any) (*dryRun, error) {
	body["dry_run"] = true
	var dry dryRun
	if err := c.api.send(unkeyed(r), http.MethodPost, endpoint("redrives"), body, &dry); err != nil {
		return nil, err
	}
	return &dry, nil
}

// propose fills in a careful retry for several messages: a canary of one, and a stop when 10 % fail or fail again.
func (o *redriveOrder) propose(dry *dryRun) {
	if o.Does().Retry && (dry == nil || dry.Startable() > 1) {
		o.Canary, o.Wait, o.Failing, o.Coming, o.Sample = "1", "60s", "10", "10", "20"
	}
}

// titles returns the title of the order's error group, by id; none when it cannot be read.
func (c *Console) titles(r *http.Request, o *redriveOrder) map[string]string {
	id := o.Filter.Get("group_id")
	if id == "" {
		return nil
	}
	g, ok := c.group(r, id)
	if !ok {
		return nil
	}
	title := g.Heading()
	if g.Class != "" && g.Title != "" {
		title += ": " + g.Title
	}
	return map[string]string{id: clip(120, title)}
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
