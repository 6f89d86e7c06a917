package console

import (
	"net/http"
	"slices"
	"strings"
)

type groupPage struct {
	groupState
	Actions []groupAction
	Sample  groupSample
	Typed   groupNote
	MayNote string // the reason for which the note cannot be edited; empty: it can
}

type groupNote struct {
	Note  string
	Link  string
	Muted bool
}

// groupAction is an action on all messages of a group, with a description of its effect.
type groupAction struct {
	Name  string
	Link  string
	What  string
	Not   string // the reason for which it cannot be done; empty: it can
	Hurts bool
}

func (c *Console) showGroup(w http.ResponseWriter, r *http.Request) error {
	return c.renderGroup(w, r, http.StatusOK, nil, nil)
}

func (c *Console) renderGroup(w http.ResponseWriter, r *http.Request, status int, problem *failure, typed *groupNote) error {
	var g groupState
	id := r.PathValue("id")
	if err := c.api.get(r, endpoint("groups", id), nil, &g); err != nil {
		return err
	}
	sample, err := c.sample(r, g.ID)
	if err != nil {
		return err
	}
	g.Trend = trendWeekByHours.draw(c.now(), g.Hours)
	shown := groupPage{groupState: g, Sample: sample, Actions: g.actions(viewerOf(r)), MayNote: g.why(viewerOf(r), "operator")}
	shown.Typed = groupNote{g.Note, g.Link, g.Muted}
	if typed != nil {
		shown.Typed = *typed
	}
	return c.render(w, r, status, "group", page{Title: clip(80, g.Heading()), Nav: "/groups", Problem: problem, Data: shown})
}

// why says why the viewer may not act on the group; "" when they may. The role on one of its topics is enough.
func (g groupState) why(v *viewer, role string) string {
	if slices.ContainsFunc(g.Topics, func(t groupTopic) bool { return v.May(role, t.Topic) }) {
		return ""
	}
	if len(g.Topics) == 1 {
		return v.Why(role, g.Topics[0].Topic)
	}
	if why := v.Why(role); why != "" || len(g.Topics) == 0 {
		return why
	}
	return "needs the role " + role + " on a topic of the group"
}

func (g groupState) actions(v *viewer) []groupAction {
	deletable := g.There() - g.Counts.Retrying
	list := []groupAction{
		{Name: "Retry", Link: "retry", What: "Sends " + g.reached(v, "retry", g.Counts.Pending, "pending") +
			" back to the topics where they failed: one first, the rest when that one is consumed."},
		{Name: "Requeue", Link: "requeue", What: "Makes " + g.reached(v, "requeue", g.Counts.Dead, "dead") +
			" pending again, with no attempts used. Nothing is sent."},
		{Name: "Mark dead", Link: "dead", Hurts: true, What: "Marks " + g.reached(v, "dead", g.Counts.Pending, "pending") +
			" dead. They stay here and can be requeued until they are archived."},
		{Name: "Delete", Link: "delete", Hurts: true, What: "Removes " + g.reached(v, "delete", deletable, "") +
			" permanently, resolved ones too. Their records are not ingested again."},
	}
	takes := []int64{g.Counts.Pending, g.Counts.Dead, g.Counts.Pending, deletable}
	nothing := []string{"nothing is pending", "nothing is dead", "nothing is pending", "there is nothing to delete"}
	for i := range list {
		a := &list[i]
		if a.Not = g.why(v, roleOf(a.Link)); a.Not == "" && takes[i] == 0 {
			a.Not = nothing[i]
		}
		a.Link = to("/redrives/new", "action", a.Link, "group_id", g.ID)
	}
	return list
}

// reached says which of n messages an action of the viewer selects: all, or those of the topics with the role.
func (g groupState) reached(v *viewer, action string, n int64, state string) string {
	all, theirs := allOf(n, state), []string{}
	if state == "" {
		all += " of the group"
	}
	for _, t := range g.Topics {
		if v.May(roleOf(action), t.Topic) {
			theirs = append(theirs, t.Topic)
		}
	}
	switch {
	case n == 0 || len(theirs) == 0 || len(theirs) == len(g.Topics):
		return all
	case len(theirs) > 3:
		return "those of " + all + " in your " + number(int64(len(theirs))) + " topics"
	default:
		return "those of " + all + " in " + strings.Join(theirs, ", ")
	}
}

func messagesIn(n int64, state string) string {
	if state != "" {
		state += " "
	}
	return plural(n, state+"message", state+"messages")
}

func allOf(n int64, state string) string {
	if n == 0 {
		return strings.TrimSpace(state + " messages")
	}
	return "the " + messagesIn(n, state)
}

func (c *Console) noteGroup(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return err
	}
	typed := groupNote{strings.ReplaceAll(text(r, "note"), "\r\n", "\n"), text(r, "link"), r.PostFormValue("muted") != ""}
	body := reasoned(r)
	body["note"], body["link"], body["muted"] = orNull(typed.Note), orNull(typed.Link), typed.Muted
	path := endpoint("groups", r.PathValue("id"))
	if err := c.api.send(r, http.MethodPatch, path+"?trend=none", body, nil); err != nil {
		status, problem, err := problemOf(err)
		if err != nil {
			return err
		}
		return c.renderGroup(w, r, status, problem, &typed)
	}
	return seeDone(w, r, "noted", groupState{ID: r.PathValue("id")}.Here())
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
