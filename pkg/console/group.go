package console

import (
	"net/http"
	"slices"
	"strings"
)

// groupPage is one group, what may be done about it, and some of its messages.
type groupPage struct {
	groupState
	Actions []groupAction
	Sample  groupSample
	Typed   groupNote
	MayNote string // why not; empty: they may
}

// groupNote is what operators say of a group, as it stands in the form.
type groupNote struct {
	Note  string
	Link  string
	Muted bool
}

// groupAction is something that can be done to all messages of a group, and what that
// would be.
type groupAction struct {
	Name  string
	Link  string
	What  string
	Not   string // why it cannot be done; empty: it can
	Hurts bool
}

// showGroup answers with one group.
func (c *Console) showGroup(w http.ResponseWriter, r *http.Request) error {
	return c.renderGroup(w, r, http.StatusOK, nil, nil)
}

// renderGroup shows a group, with what was typed when that could not be kept.
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

// why says why the viewer may not do something to the group: whoever has the role on
// one of its topics may, as far as that goes.
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

// actions are what can be done to all of the group, each with what it would do now.
func (g groupState) actions(v *viewer) []groupAction {
	deletable := g.There() - g.Counts.Retrying
	list := []groupAction{
		{Name: "Retry", Link: "retry", What: "Sends " + g.reached(v, "retry", g.Counts.Pending, "pending") +
			" back to where they failed: one first, the rest when that one is consumed."},
		{Name: "Requeue", Link: "requeue", What: "Makes " + g.reached(v, "requeue", g.Counts.Dead, "dead") +
			" pending again, with no attempts used. Nothing is sent by that."},
		{Name: "Mark dead", Link: "dead", Hurts: true, What: "Gives " + g.reached(v, "dead", g.Counts.Pending, "pending") +
			" up. They stay here and can be requeued until they are archived."},
		{Name: "Delete", Link: "delete", Hurts: true, What: "Removes " + g.reached(v, "delete", deletable, "") +
			" from here for good, resolved ones too. Their records are not taken in again."},
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

// reached says which of the n messages of the group an action of the viewer takes: all
// of them, or those of the topics that they have the role on. How many these are in
// that state nobody has counted.
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
		return "those of " + all + " that are of your " + number(int64(len(theirs))) + " topics"
	default:
		return "those of " + all + " that are of " + strings.Join(theirs, ", ")
	}
}

// messagesIn is a number of messages in a state.
func messagesIn(n int64, state string) string {
	if state != "" {
		state += " "
	}
	return plural(n, state+"message", state+"messages")
}

// allOf is all the messages in a state, with how many these are now.
func allOf(n int64, state string) string {
	if n == 0 {
		return strings.TrimSpace(state + " messages")
	}
	return "the " + messagesIn(n, state)
}

// noteGroup keeps what an operator says of a group.
func (c *Console) noteGroup(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return err
	}
	typed := groupNote{strings.ReplaceAll(text(r, "note"), "\r\n", "\n"), text(r, "link"), r.PostFormValue("muted") != ""}
	body := reasoned(r)
	body["note"], body["link"], body["muted"] = orNull(typed.Note), orNull(typed.Link), typed.Muted
	path := endpoint("groups", r.PathValue("id"))
	if err := c.api.send(r, http.MethodPatch, path+"?trend=none", body, nil); err != nil {
		status, problem, err := told(err)
		if err != nil {
			return err
		}
		return c.renderGroup(w, r, status, problem, &typed)
	}
	return seeDone(w, r, "noted", groupState{ID: r.PathValue("id")}.Here())
}

// orNull is null for the empty text.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
