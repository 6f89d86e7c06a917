// Package redrive contains the pages of redrives: the list, each redrive, and the form that previews and starts a
// redrive.
package redrive

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
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
	DeniedReason string // the reason for which the viewer may not start a redrive
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
	shown.Redrives = p.titled(r, answer.Redrives)
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

	Message *api.Message // nil: the message was deleted or archived, or cannot be read
}

// Mark returns the badge of the item: the outcome of its sent record or, if there is none yet, the result of the item.
func (i item) Mark() phrase {
	switch {
	case i.Outcome == returned:
		return phrase{Says: "failed again", Value: returned}
	case i.Outcome != "":
		return phrase{Says: i.Outcome, Value: i.Outcome}
	default:
		return phrase{Says: strings.ReplaceAll(i.Result, "_", " "), Value: strings.ReplaceAll(i.Result, " ", "_")}
	}
}

// Ordinal is the message's number in the selection, from 1.
func (i item) Ordinal() int64 { return i.Number + 1 }

func (i item) Why() string { return reasonWords(i.Reason) }

const (
	itemsPerPage = 50
	itemsRead    = 1000   // maximum number of items in one answer, when the page reads all items of a redrive
	maxUndone    = 10_000 // largest number of ids in a selection; a redrive with more successes cannot be undone
	partTimeout  = 2 * time.Second
)

// itemResults are the values by which the list of items can be filtered: the results of items, and the outcome
// "returned".
var itemResults = []string{"waiting", "succeeded", "failed", "dead", "in_doubt", "skipped", returned}

const returned = "returned"

type page struct {
	redrive
	Refresh  string // how often the page polls the redrive; "": never, because it no longer changes
	Self     string
	Errors   []returnedError
	Overlaps []overlap
	Missing  missing
	Items    []item
	Result   string
	Results  []string
	First    bool
	Next     string
	Moves    []move
	Denied   string // the reason for which the viewer cannot change the redrive's state; "": the viewer can
	Undo     int64  // number of messages that the form "Undo" requeues; 0: there is no undo
	Audit    string
}

// missing holds the reasons for which optional parts of the page are not shown.
type missing struct{ Errors, Overlaps string }

// returnedError is an error group with the number of messages that came back with its error. Without a GroupID it
// counts all other errors.
type returnedError struct {
	GroupID  string `json:"group_id"`
	Class    string `json:"class"`
	Title    string `json:"title"`
	Messages int64  `json:"messages"`
}

// errorsCounted is the largest number of messages that the API groups by error.
const errorsCounted = 5000

// CountedErrors returns how many messages are grouped by error if more messages than that came back; 0 if all of them
// are grouped.
func (p page) CountedErrors() int64 {
	if p.Returned <= errorsCounted {
		return 0
	}
	return errorsCounted
}

func (e returnedError) URL() string { return link.ErrorGroup(e.GroupID) }

func (e returnedError) Words() string {
	return format.Middle(200, api.ErrorGroup{Title: e.Title, Class: e.Class}.Heading())
}

type move struct {
	Name   string // label of the button
	Path   string
	What   string // a sentence of its effect; "": the button needs no explanation
	Hurts  bool
	Open   bool   // the user has sent the form, and it was refused
	Reason string // the reason that the user has typed
}

// Show shows a redrive and its messages.
func (p *Pages) Show(w http.ResponseWriter, r *http.Request) error {
	id, status := r.PathValue("id"), http.StatusOK
	draft := view.DraftOf(r)
	problem := draft.Refused()
	var d redrive
	if err := p.API.Get(r, api.Endpoint("redrives", id), nil, &d); err != nil {
		return err
	}
	shown := page{redrive: d, Results: itemResults, Refresh: d.Every(p.Now()), Moves: d.moves(), Self: r.URL.RequestURI()}
	shown.redrive = p.titled(r, []redrive{d})[0]
	shown.Denied = session.ViewerOf(r).Why(api.RoleFor(d.Action))
	if d.Action == "dead" && d.Over() && d.Succeeded <= maxUndone {
		shown.Undo = d.Succeeded
	}
	for i := range shown.Moves {
		if draft.Sent() && path.Base(draft.Path) == shown.Moves[i].Path {
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
	shown.Audit = link.To(link.Audit, "kind", "redrive", "object_id", d.ID)
	return p.Renderer.Render(w, r, status, "redrive", view.Page{Title: d.Title(), Nav: link.Redrives, Problem: problem, Data: shown})
}

func (p *Pages) addItems(r *http.Request, shown *page) error {
	q := r.URL.Query()
	shown.Result, shown.First = q.Get("result"), q.Get("cursor") == ""
	items := api.Endpoint("redrives", shown.ID, "items")
	if shown.Returned > 0 {
		var answer struct {
			Errors []returnedError `json:"errors"`
		}
		shown.Missing.Errors = p.part(r, api.Endpoint("redrives", shown.ID, "errors"), &answer)
		shown.Errors = answer.Errors
	}
	if !shown.Over() && request.Navigates(r) {
		var answer struct {
			Overlaps []overlap `json:"overlaps"`
		}
		shown.Missing.Overlaps = p.part(r, api.Endpoint("redrives", shown.ID, "overlaps"), &answer)
		shown.Overlaps = answer.Overlaps
	}
	list, next, err := p.readItems(r, items, shown.Result, q.Get("cursor"), itemsPerPage)
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].Result == "waiting" && shown.UnderWay == 0 {
			list[i].Result = shown.Rest()
		}
	}
	if shown.Items = list; len(list) > 0 {
		p.addMessages(r, list)
	}
	if next != "" {
		shown.Next = link.To(shown.URL(), "result", shown.Result, "cursor", next) + "#items"
	}
	return nil
}

// part reads an optional part of the page. If the part cannot be read, it returns the reason, which the page shows.
func (p *Pages) part(r *http.Request, path string, into any) (why string) {
	ctx, cancel := context.WithTimeout(r.Context(), partTimeout)
	defer cancel()
	err := p.API.Get(r.WithContext(ctx), path, nil, into)
	switch _, problem := view.Describe(err); {
	case err == nil:
		return ""
	case ctx.Err() != nil:
		return "the answer takes too long"
	default:
		return problem.Message
	}
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

// addMessages reads the messages of the items. If they cannot be read, the table shows only the results.
func (p *Pages) addMessages(r *http.Request, items []item) {
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ID
	}
	var answer struct {
		Messages []api.Message `json:"messages"`
	}
	query := link.Query("id", strings.Join(ids, ","), "limit", strconv.Itoa(len(ids)), "omit", "payload")
	if p.API.Get(r, api.Endpoint("messages"), query, &answer) != nil {
		return
	}
	for at := range answer.Messages {
		m := &answer.Messages[at]
		if i := slices.Index(ids, m.ID); i >= 0 {
			items[i].Message = m
		}
	}
}

// titled adds the titles of the error groups that the redrives select.
func (p *Pages) titled(r *http.Request, list []redrive) []redrive {
	titles := map[string]string{}
	for i := range list {
		if list[i].Selection.Filter == nil {
			continue
		}
		for _, id := range (*list[i].Selection.Filter)["group_id"] {
			if _, known := titles[id]; !known {
				titles[id] = groupTitle(r, p.API, id)
			}
		}
		list[i].titles = titles
	}
	return list
}

// moves returns the buttons for the changes of state that the present state allows. If the effect of a change is not
// obvious, the page explains it before the change is sent.
func (d redrive) moves() []move {
	cancel := move{
		Name: "Cancel", Path: "cancel", Hurts: true,
		What: "It ends for good. Messages that it has not taken are unchanged; what it has done is not undone.",
	}
	switch {
	case d.Active() && d.Waits():
		return []move{{Name: "Pause", Path: "pause"}, {
			Name: "Continue without waiting", Path: "continue",
			What: "It no longer waits for unknown outcomes in the topics where it waits now. Messages that fail again still count, and may stop it.",
		}, cancel}
	case d.Active():
		return []move{{Name: "Pause", Path: "pause"}, cancel}
	case d.State == "paused":
		return []move{{Name: "Resume", Path: "resume"}, cancel}
	case d.State == "stopped":
		return []move{{
			Name: "Resume", Path: "resume", Hurts: true,
			What: "It sends the waiting messages as if the canary had passed and nothing had failed so far.",
		}, cancel}
	default:
		return nil
	}
}

func (m move) Address(d page) string { return d.URL() + "/" + m.Path }

var movedSentences = map[string]string{"pause": "paused", "resume": "resumed", "continue": "continued", "cancel": "cancelled"}

// hasMoved reports whether the redrive already has the state that the refused request asks for, because the request was
// sent twice.
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
	case "continue":
		return now.Active() && !now.Waits()
	default:
		return now.State == "cancelled"
	}
}

// Move pauses, resumes or cancels a redrive. It sends no idempotency key, because a redrive may be paused again after
// it was resumed. Sending the same request twice does no harm: the second request finds the redrive in the requested
// state.
func (p *Pages) Move(change string) view.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		d := redrive{ID: r.PathValue("id")}
		err := p.API.Send(api.WithoutKey(r), http.MethodPost, api.Endpoint("redrives", d.ID, change), request.Body(r), nil)
		if err == nil || p.hasMoved(r, d.ID, change, err) {
			return view.RedirectDone(w, r, movedSentences[change], d.URL())
		}
		return view.Answered(err, func(problem *view.Problem) error { return p.Renderer.ShowAgain(w, r, problem) })
	}
}

// Undo requeues the messages that a redrive marked dead.
func (p *Pages) Undo(w http.ResponseWriter, r *http.Request) error {
	id, ids, cursor := r.PathValue("id"), []string{}, ""
	for len(ids) <= maxUndone {
		items, next, err := p.readItems(r, api.Endpoint("redrives", id, "items"), "succeeded", cursor, itemsRead)
		if err != nil {
			return err
		}
		for _, i := range items {
			ids = append(ids, i.ID)
		}
		if cursor = next; next == "" {
			break
		}
	}
	body := request.Body(r)
	body["action"], body["ids"] = "requeue", ids
	var made redrive
	if err := p.API.Send(r, http.MethodPost, api.Endpoint("redrives"), body, &made); err != nil {
		return view.Answered(err, func(problem *view.Problem) error { return p.Renderer.ShowAgain(w, r, problem) })
	}
	return view.RedirectDone(w, r, "undone", made.URL())
}
