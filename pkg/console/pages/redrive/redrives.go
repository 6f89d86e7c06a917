// Package redrive has the pages of redrives: the list, each redrive, and the form that previews and starts one.
package redrive

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Pages are the list of redrives and the page of each.
type Pages struct {
	API      api.Client
	Renderer *view.Renderer
	Now      func() time.Time
}

const perPage = 25

var states = []string{"canary", "running", "paused", "stopped", "cancelled", "finished"}

type listPage struct {
	Redrives     []redrive
	State        string
	States       []string
	First        bool
	Live         bool
	Next         string // address of the next page; empty on the last
	DeniedReason string // the reason for which the viewer may not start one
	OnlyMine     bool   // the viewer sees only their own redrives
}

func (p listPage) URL() string { return link.To(link.Redrives, "state", p.State) }

// List lists the redrives that the viewer may see.
func (p *Pages) List(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	shown := listPage{
		State: q.Get("state"), States: states, First: q.Get("cursor") == "", DeniedReason: session.ViewerOf(r).Why("operator"),
		OnlyMine: !session.ViewerOf(r).Everywhere("viewer"),
	}
	var answer struct {
		Redrives []redrive `json:"redrives"`
		Next     string    `json:"next_cursor"`
	}
	ask := link.Query("limit", strconv.Itoa(perPage), "state", shown.State, "cursor", q.Get("cursor"))
	page, status := view.Page{Title: "Redrives", Nav: link.Redrives, Data: &shown}, http.StatusOK
	if err := p.API.Get(r, api.Endpoint("redrives"), ask, &answer); err != nil {
		if status, page.Problem, err = view.ProblemOf(err); err != nil {
			return err
		}
	}
	shown.Redrives = answer.Redrives
	shown.Live = shown.First && anyActive(answer.Redrives)
	if answer.Next != "" {
		shown.Next = link.To(link.Redrives, "state", shown.State, "cursor", answer.Next)
	}
	return p.Renderer.Render(w, r, status, "redrives", page)
}

type item struct {
	Number    int64  `json:"number"`
	ID        string `json:"id"`
	Result    string `json:"result"`
	Reason    string `json:"reason"`
	Topic     string `json:"topic"`
	Partition *int32 `json:"partition"`
	Offset    *int64 `json:"offset"`
	Outcome   string `json:"outcome"`
}

// Ordinal is the message's number in the selection, from 1.
func (i item) Ordinal() int64 { return i.Number + 1 }

func (i item) Why() string { return reasonWords(i.Reason) }

const (
	itemsPerPage = 50
	returnsShown = 8 // returned messages that are named
)

// itemResults are the values that the list can be filtered by: results, and the outcome returned.
var itemResults = []string{"waiting", "succeeded", "failed", "dead", "in_doubt", "skipped", returned}

const returned = "returned"

type page struct {
	redrive
	Refresh string // how often it is polled; "": it does not change any more
	Seen    string // the state when the page was loaded
	Items   []item
	Result  string
	Results []string
	First   bool
	Next    string
	Back    []item // some that failed again
	Moves   []move
	Fixed   string // the reason for which its state cannot be changed; empty: it can
	Audit   string
}

// Moved reports whether the state has changed since the page was loaded; the parts that are not polled are older.
func (p page) Moved() bool { return p.Seen != p.State }

func (p page) Again() string { return link.To(p.URL(), "seen", p.Seen) }

type move struct {
	Name   string // label of the button
	Path   string
	What   string // a sentence of its effect
	Hurts  bool
	Open   bool   // it was tried and refused
	Reason string // the reason typed by the user
}

// Show shows a redrive and its messages.
func (p *Pages) Show(w http.ResponseWriter, r *http.Request) error {
	return p.render(w, r, http.StatusOK, nil, "")
}

// render shows a redrive and, when a change of state was refused, why; tried names that change.
func (p *Pages) render(w http.ResponseWriter, r *http.Request, status int, problem *view.Problem, tried string) error {
	id := r.PathValue("id")
	var d redrive
	if err := p.API.Get(r, api.Endpoint("redrives", id), nil, &d); err != nil {
		return err
	}
	shown := page{redrive: d, Results: itemResults, Refresh: d.Every(p.Now()), Moves: moves(), Fixed: d.fixed(session.ViewerOf(r))}
	for i := range shown.Moves {
		if shown.Moves[i].Path == tried {
			shown.Moves[i].Open, shown.Moves[i].Reason = true, request.Text(r, "reason")
		}
	}
	if err := p.addItems(r, &shown); err != nil {
		if problem != nil {
			return err
		}
		if status, problem, err = view.ProblemOf(err); err != nil {
			return err
		}
	}
	if shown.Seen = r.URL.Query().Get("seen"); !slices.Contains(states, shown.Seen) {
		shown.Seen = d.State
	}
	shown.Audit = link.To(link.Audit, "kind", "redrive", "object_id", d.ID)
	return p.Renderer.Render(w, r, status, "redrive", view.Page{Title: d.Title(), Nav: link.Redrives, Problem: problem, Data: shown})
}

func (p *Pages) addItems(r *http.Request, shown *page) error {
	q := r.URL.Query()
	shown.Result, shown.First = q.Get("result"), q.Get("cursor") == ""
	path := api.Endpoint("redrives", shown.ID, "items")
	if shown.Returned > 0 {
		var err error
		if shown.Back, _, err = p.readItems(r, path, returned, "", returnsShown); err != nil {
			return err
		}
	}
	list, next, err := p.readItems(r, path, shown.Result, q.Get("cursor"), itemsPerPage)
	if err != nil {
		return err
	}
	shown.Items = list
	if next != "" {
		shown.Next = link.To(shown.URL(), "result", shown.Result, "cursor", next) + "#items"
	}
	return nil
}

func (p *Pages) readItems(r *http.Request, path, result, cursor string, limit int) ([]item, string, error) {
	narrowedBy := "result"
	if result == returned {
		narrowedBy = "outcome"
	}
	var answer struct {
		Items []item `json:"items"`
		Next  string `json:"next_cursor"`
	}
	err := p.API.Get(r, path, link.Query("limit", strconv.Itoa(limit), narrowedBy, result, "cursor", cursor), &answer)
	return answer.Items, answer.Next, err
}

// moves returns the buttons, the same in every state: the API refuses a change that the state does not allow.
func moves() []move {
	return []move{
		{Name: "Pause", Path: "pause", What: "No more messages are taken until it is resumed. Attempts under way are completed."},
		{Name: "Resume", Path: "resume", What: "It continues where it was. If it stopped itself, it continues as if the canary had passed and nothing had failed so far."},
		{Name: "Cancel", Path: "cancel", Hurts: true, What: "It ends for good. Messages that it has not taken are unchanged; what it has done is not undone."},
	}
}

// fixed says why the viewer cannot change the state of the redrive; "" when they can.
func (d redrive) fixed(v *session.Viewer) string {
	if why := v.Why(api.RoleFor(d.Action)); why != "" {
		return why
	}
	if d.Over() {
		return "it is " + d.State
	}
	return ""
}

func (m move) Address(d page) string { return d.URL() + "/" + m.Path }

var movedSentences = map[string]string{"pause": "paused", "resume": "resumed", "cancel": "cancelled"}

// hasMoved reports whether the redrive already has the state that the refused request asks for: it was sent twice.
func (p *Pages) hasMoved(r *http.Request, id, change string, refused error) bool {
	if status, _ := view.Describe(refused); status != http.StatusConflict {
		return false
	}
	var now redrive
	if p.API.Get(r, api.Endpoint("redrives", id), nil, &now) != nil {
		return false
	}
	switch change {
	case "pause":
		return now.State == "paused"
	case "resume":
		return now.Active()
	default:
		return now.State == "cancelled"
	}
}

// Move pauses, resumes or cancels a redrive. It sends no idempotency key: the same pause may be needed again
// after a resume, and the state makes a repeated request harmless.
func (p *Pages) Move(change string) view.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		d := redrive{ID: r.PathValue("id")}
		err := p.API.Send(api.WithoutKey(r), http.MethodPost, api.Endpoint("redrives", d.ID, change), request.Body(r), nil)
		if err == nil || p.hasMoved(r, d.ID, change, err) {
			return view.RedirectDone(w, r, movedSentences[change], d.URL())
		}
		return view.Answered(err, func(status int, problem *view.Problem) error { return p.render(w, r, status, problem, change) })
	}
}
