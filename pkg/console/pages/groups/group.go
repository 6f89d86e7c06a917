package groups

import (
	"net/http"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

type page struct {
	errorGroup
	Actions      []action
	Sample       sample
	Typed        note
	DeniedReason string // the reason for which the viewer cannot edit the note; "": the viewer can
}

type note struct {
	Note  string
	Link  string
	Muted bool
}

// action is an action on all messages of an error group, with a description of its effect.
type action struct {
	Name         string
	Link         string
	What         string
	DeniedReason string // the reason for which the action is not possible; "": it is possible
	Hurts        bool
}

// Show shows the page of an error group.
func (p *Pages) Show(w http.ResponseWriter, r *http.Request) error {
	var g errorGroup
	id := r.PathValue("id")
	if err := p.API.Get(r, api.Endpoint("groups", id), nil, &g); err != nil {
		return err
	}
	latest, err := p.sample(r, g.ID)
	if err != nil {
		return err
	}
	g.Trend = trendWeekByHours.draw(p.Now(), g.Hours)
	shown := page{errorGroup: g, Sample: latest, Actions: g.actions(session.ViewerOf(r)), DeniedReason: g.why(session.ViewerOf(r), "operator")}
	shown.Typed = note{g.Note, g.Link, g.Muted}
	if view.DraftOf(r).Sent() {
		shown.Typed = typedNote(r)
	}
	return p.Renderer.Render(w, r, http.StatusOK, "group", view.Page{Title: format.Clip(80, g.Heading()), Nav: link.Groups, Data: shown})
}

// why returns the reason why the viewer may not act on the error group; "" when the viewer may. The role on one of the
// group's topics is enough.
func (g errorGroup) why(v *session.Viewer, role string) string {
	if slices.ContainsFunc(g.Topics, func(t api.GroupTopic) bool { return v.May(role, t.Topic) }) {
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

func (g errorGroup) actions(v *session.Viewer) []action {
	deletable := g.LiveCount() - g.Counts.Retrying
	list := []action{
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
		if a.DeniedReason = g.why(v, api.RoleFor(a.Link)); a.DeniedReason == "" && takes[i] == 0 {
			a.DeniedReason = nothing[i]
		}
		a.Link = link.To(link.NewRedrive, "action", a.Link, "group_id", g.ID)
	}
	return list
}

// reached describes the messages that an action of the viewer selects: all n messages, or only those in the topics on
// which the viewer has the role.
func (g errorGroup) reached(v *session.Viewer, name string, n int64, state string) string {
	all, theirs := allOf(n, state), []string{}
	if state == "" {
		all += " of the group"
	}
	for _, t := range g.Topics {
		if v.May(api.RoleFor(name), t.Topic) {
			theirs = append(theirs, t.Topic)
		}
	}
	switch {
	case n == 0 || len(theirs) == 0 || len(theirs) == len(g.Topics):
		return all
	case len(theirs) > 3:
		return "those of " + all + " in your " + format.Number(int64(len(theirs))) + " topics"
	default:
		return "those of " + all + " in " + strings.Join(theirs, ", ")
	}
}

func allOf(n int64, state string) string {
	if n == 0 {
		return strings.TrimSpace(state + " messages")
	}
	return "the " + format.Messages(n, state)
}

// Annotate stores the note and the link of an error group, and whether it is muted.
func (p *Pages) Annotate(w http.ResponseWriter, r *http.Request) error {
	typed := typedNote(r)
	body := request.Body(r)
	body["note"], body["link"], body["muted"] = orNull(typed.Note), orNull(typed.Link), typed.Muted
	path := api.Endpoint("groups", r.PathValue("id"))
	if err := p.API.Send(r, http.MethodPatch, path+"?trend=none", body, nil); err != nil {
		return view.Answered(err, func(problem *view.Problem) error { return p.Renderer.ShowAgain(w, r, problem) })
	}
	return view.RedirectDone(w, r, "noted", link.ErrorGroup(r.PathValue("id")))
}

func typedNote(r *http.Request) note {
	return note{strings.ReplaceAll(request.Text(r, "note"), "\r\n", "\n"), request.Text(r, "link"), r.PostFormValue("muted") != ""}
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
