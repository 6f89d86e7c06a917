package console

import (
	"net/http"
	"slices"
	"strconv"
)

const redrivesPerPage = 25

var redriveStates = []string{"canary", "running", "paused", "stopped", "cancelled", "finished"}

type redrivesPage struct {
	Redrives []redriveState
	State    string
	States   []string
	First    bool
	Live     bool
	Next     string // address of the next page; empty on the last
	MayNot   string // the reason for which the viewer may not start one
	Own      bool   // the viewer sees only their own redrives
}

func (p redrivesPage) Here() string { return to("/redrives", "state", p.State) }

func (c *Console) listRedrives(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	shown := redrivesPage{
		State: q.Get("state"), States: redriveStates, First: q.Get("cursor") == "", MayNot: viewerOf(r).Why("operator"),
		Own: !viewerOf(r).Everywhere("viewer"),
	}
	var answer listAnswer
	ask := queryOf("limit", strconv.Itoa(redrivesPerPage), "state", shown.State, "cursor", q.Get("cursor"))
	p, status := page{Title: "Redrives", Nav: "/redrives", Data: &shown}, http.StatusOK
	if err := c.api.get(r, endpoint("redrives"), ask, &answer); err != nil {
		if status, p.Problem, err = problemOf(err); err != nil {
			return err
		}
	}
	shown.Redrives = answer.Redrives
	shown.Live = shown.First && anyActive(answer.Redrives)
	if answer.Next != "" {
		shown.Next = to("/redrives", "state", shown.State, "cursor", answer.Next)
	}
	return c.render(w, r, status, "redrives", p)
}

type redriveItem struct {
	Number    int64  `json:"number"`
	ID        string `json:"id"`
	Result    string `json:"result"`
	Reason    string `json:"reason"`
	Topic     string `json:"topic"`
	Partition *int32 `json:"partition"`
	Offset    *int64 `json:"offset"`
	Outcome   string `json:"outcome"`
}

// Place is the message's number in the selection, from 1.
func (i redriveItem) Place() int64 { return i.Number + 1 }

func (i redriveItem) Why() string { return reasonWords(i.Reason) }

const (
	itemsPerPage = 50
	returnsShown = 8 // returned messages that are named
)

// itemResults are the values that the list can be filtered by: results, and the outcome returned.
var itemResults = []string{"waiting", "succeeded", "failed", "dead", "in_doubt", "skipped", returned}

const returned = "returned"

type redrivePage struct {
	redriveState
	Refresh string // how often it is polled; "": it does not change any more
	Seen    string // the state when the page was loaded
	Items   []redriveItem
	Result  string
	Results []string
	First   bool
	Next    string
	Back    []redriveItem // some that failed again
	Moves   []redriveMove
	Fixed   string // the reason for which its state cannot be changed; empty: it can
	Audit   string
}

// Moved reports whether the state has changed since the page was loaded; the parts that are not polled are older.
func (p redrivePage) Moved() bool { return p.Seen != p.State }

func (p redrivePage) Again() string { return to(p.Here(), "seen", p.Seen) }

type redriveMove struct {
	Name   string // label of the button
	Path   string
	What   string // a sentence of its effect
	Hurts  bool
	Open   bool   // it was tried and refused
	Reason string // the reason typed by the user
}

func (c *Console) showRedrive(w http.ResponseWriter, r *http.Request) error {
	return c.renderRedrive(w, r, http.StatusOK, nil, "")
}

// renderRedrive shows a redrive and, when a change of state was refused, why; tried names that change.
func (c *Console) renderRedrive(w http.ResponseWriter, r *http.Request, status int, problem *failure, tried string) error {
	id := r.PathValue("id")
	var d redriveState
	if err := c.api.get(r, endpoint("redrives", id), nil, &d); err != nil {
		return err
	}
	shown := redrivePage{redriveState: d, Results: itemResults, Refresh: d.Every(c.now()), Moves: redriveMoves(), Fixed: d.fixed(viewerOf(r))}
	for i := range shown.Moves {
		if shown.Moves[i].Path == tried {
			shown.Moves[i].Open, shown.Moves[i].Reason = true, text(r, "reason")
		}
	}
	if err := c.items(r, &shown); err != nil {
		if problem != nil {
			return err
		}
		if status, problem, err = problemOf(err); err != nil {
			return err
		}
	}
	if shown.Seen = r.URL.Query().Get("seen"); !slices.Contains(redriveStates, shown.Seen) {
		shown.Seen = d.State
	}
	shown.Audit = to("/audit", "kind", "redrive", "object_id", d.ID)
	return c.render(w, r, status, "redrive", page{Title: d.Title(), Nav: "/redrives", Problem: problem, Data: shown})
}

func (c *Console) items(r *http.Request, shown *redrivePage) error {
	q := r.URL.Query()
	shown.Result, shown.First = q.Get("result"), q.Get("cursor") == ""
	path := endpoint("redrives", shown.ID, "items")
	if shown.Returned > 0 {
		var err error
		if shown.Back, _, err = c.someItems(r, path, returned, "", returnsShown); err != nil {
			return err
		}
	}
	list, next, err := c.someItems(r, path, shown.Result, q.Get("cursor"), itemsPerPage)
	if err != nil {
		return err
	}
	shown.Items = list
	if next != "" {
		shown.Next = to(shown.Here(), "result", shown.Result, "cursor", next) + "#items"
	}
	return nil
}

func (c *Console) someItems(r *http.Request, path, result, cursor string, limit int) ([]redriveItem, string, error) {
	narrowedBy := "result"
	if result == returned {
		narrowedBy = "outcome"
	}
	var answer listAnswer
	err := c.api.get(r, path, queryOf("limit", strconv.Itoa(limit), narrowedBy, result, "cursor", cursor), &answer)
	return answer.Items, answer.Next, err
}

// redriveMoves returns the buttons, the same in every state: the API refuses a change that the state does not allow.
func redriveMoves() []redriveMove {
	return []redriveMove{
		{Name: "Pause", Path: "pause", What: "No more messages are taken until it is resumed. Attempts under way are completed."},
		{Name: "Resume", Path: "resume", What: "It continues where it was. If it stopped itself, it continues as if the canary had passed and nothing had failed so far."},
		{Name: "Cancel", Path: "cancel", Hurts: true, What: "It ends for good. Messages that it has not taken are unchanged; what it has done is not undone."},
	}
}

// fixed says why the viewer cannot change the state of the redrive; "" when they can.
func (d redriveState) fixed(v *viewer) string {
	if why := v.Why(roleOf(d.Action)); why != "" {
		return why
	}
	if d.Over() {
		return "it is " + d.State
	}
	return ""
}

func (m redriveMove) Address(d redrivePage) string { return d.Here() + "/" + m.Path }

var movedSentences = map[string]string{"pause": "paused", "resume": "resumed", "cancel": "cancelled"}

// isMoved reports whether the redrive already has the state that the refused request asks for: it was sent twice.
func (c *Console) isMoved(r *http.Request, id, move string, refused error) bool {
	if status, _ := describe(refused); status != http.StatusConflict {
		return false
	}
	var now redriveState
	if c.api.get(r, endpoint("redrives", id), nil, &now) != nil {
		return false
	}
	switch move {
	case "pause":
		return now.State == "paused"
	case "resume":
		return now.Active()
	default:
		return now.State == "cancelled"
	}
}

// moveRedrive pauses, resumes or cancels a redrive. It sends no idempotency key: the same pause may be needed again
// after a resume, and the state makes a repeated request harmless.
func (c *Console) moveRedrive(move string) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		d := redriveState{ID: r.PathValue("id")}
		err := c.api.send(unkeyed(r), http.MethodPost, endpoint("redrives", d.ID, move), reasoned(r), nil)
		if err == nil || c.isMoved(r, d.ID, move, err) {
			return seeDone(w, r, movedSentences[move], d.Here())
		}
		status, problem, err := problemOf(err)
		if err != nil {
			return err
		}
		return c.renderRedrive(w, r, status, problem, move)
	}
}
