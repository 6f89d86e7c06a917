package message

import (
	"cmp"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Actions perform actions on a message. When an action is refused, the message's page shows why.
type Actions struct{ Page *Page }

type acts struct {
	Retry, Edit, Requeue, Dead, Delete, Origin, Restore act

	Unsettled bool   // the last attempt is unsettled: a user who retries must accept that the record may arrive twice
	From      string // the list that led to this page
	Reason    string // the reason that the user typed for the action that was refused
	Topic     string
	Accepted  bool
	Enveloped bool // the user has ticked that the envelope is sent
	Draft     *view.Draft
}

// act is an action on the message. It is possible when Why is empty.
type act struct {
	Why  string
	Open bool // the action was just refused: its form is shown open
}

// actsOf says which actions the viewer may perform in the message's state. The API still decides whether it carries
// out an action.
func actsOf(m *api.Message, v *session.Viewer, r *http.Request, archived bool) acts {
	where := m.ScopeTopic()
	operator, admin := v.Why("operator", where), v.Why("admin", where)
	a := acts{
		Retry:     act{Why: cmp.Or(operator, whyNoRetry(m))},
		Edit:      act{Why: cmp.Or(deniedEdit(m, v), whyNoEdit(m))},
		Requeue:   act{Why: cmp.Or(operator, unlessStatus(m, "is not DEAD", "DEAD"))},
		Dead:      act{Why: cmp.Or(operator, unlessStatus(m, "is "+m.Status, "PENDING", "RETRYING"))},
		Delete:    act{Why: cmp.Or(admin, whyNoDelete(m))},
		Origin:    act{Why: cmp.Or(operator, whyNoOrigin(m))},
		Restore:   act{Why: operator},
		Unsettled: m.Unsettled(),
	}
	if archived {
		a = acts{Restore: a.Restore}
	}
	if d := view.DraftOf(r); d.Sent() {
		a.Reason, a.Topic, a.Accepted = request.Text(r, "reason"), request.Text(r, "original_topic"), request.Text(r, "accept_duplicate") != ""
		a.Enveloped = request.Text(r, "accept_envelope") != ""
		tried := map[string]*act{"dead": &a.Dead, "delete": &a.Delete, "origin": &a.Origin, "restore": &a.Restore}
		if act := tried[path.Base(d.Path)]; act != nil {
			act.Open = true
		}
	}
	a.From, a.Draft = link.Back(r), view.DraftOf(r)
	return a
}

// Any reports whether any action is possible.
func (a acts) Any() bool {
	return slices.ContainsFunc(a.named(), func(n namedAct) bool { return n.Why == "" })
}

type namedAct struct{ Name, Why string }

func (a acts) named() []namedAct {
	return []namedAct{
		{"retry", a.Retry.Why},
		{"edit and retry", a.Edit.Why},
		{"requeue", a.Requeue.Why},
		{"set origin", a.Origin.Why},
		{"mark dead", a.Dead.Why},
		{"delete", a.Delete.Why},
	}
}

// impossible is a reason, with the names of the actions that are not possible for this reason.
type impossible struct{ Names, Why string }

// Impossible returns the actions that are not possible, grouped by reason.
func (a acts) Impossible() []impossible {
	var list []impossible
	for _, n := range a.named() {
		i := slices.IndexFunc(list, func(other impossible) bool { return other.Why == n.Why })
		switch {
		case n.Why == "":
		case i >= 0:
			list[i].Names += ", " + n.Name
		default:
			list = append(list, impossible{n.Name, n.Why})
		}
	}
	return list
}

func unlessStatus(m *api.Message, why string, statuses ...string) string {
	if slices.Contains(statuses, m.Status) {
		return ""
	}
	return why
}

// deniedEdit names the role that the viewer lacks to edit a message; "" when the viewer has it.
func deniedEdit(m *api.Message, v *session.Viewer) string {
	return cmp.Or(v.Why("operator", m.ScopeTopic()), v.Why("edit", m.ScopeTopic()))
}

func whyNoRetry(m *api.Message) string {
	if why := whyNoEdit(m); why != "" {
		return why
	}
	switch {
	case m.OriginalTopic == "":
		return "its original topic is unknown"
	case m.NoTarget():
		return "topic " + m.Target.Topic + " does not exist"
	}
	return ""
}

// whyNoEdit makes the same checks as whyNoRetry, except those of the original topic and the target, because an edit can
// set the topic.
func whyNoEdit(m *api.Message) string {
	switch {
	case m.Status == "DEAD":
		return "is DEAD: requeue it first"
	case m.Status == "RETRYING" && m.Unsettled():
		return ""
	case m.Status == "RETRYING":
		return "a retry is under way"
	case m.Status != "PENDING":
		return "is " + m.Status
	case m.RetryCount >= m.MaxRetries:
		return "no attempts left: mark it dead, then requeue"
	default:
		return ""
	}
}

func whyNoDelete(m *api.Message) string {
	switch {
	case m.Unsettled():
		return "its last attempt cannot be settled: mark it dead first"
	case m.Status == "RETRYING":
		return "a retry is under way"
	default:
		return ""
	}
}

func whyNoOrigin(m *api.Message) string {
	switch {
	case m.Status != "PENDING" && m.Status != "DEAD":
		return "is " + m.Status
	case m.OriginKnownBy == "header" && m.OriginalTopic != "" && !m.Undeclared:
		return "its own headers name the original topic: redirect the topic instead"
	default:
		return ""
	}
}

// Act returns a handler that performs an action on a message, and redirects to its page among the live messages.
func (a *Actions) Act(what, sentence string) view.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ref, body := api.RefOf(r, what == "restore"), request.Body(r)
		switch what {
		case "retry":
			for _, accepted := range []string{"accept_duplicate", "accept_envelope"} {
				if request.Text(r, accepted) != "" {
					body[accepted] = true
				}
			}
		case "origin":
			body["original_topic"] = request.Text(r, "original_topic")
		}
		if err := a.Page.API.Send(r, http.MethodPost, ref.Endpoint(what), body, nil); err != nil {
			return a.refused(w, r, err)
		}
		return view.RedirectDone(w, r, sentence, api.MessageRef{ID: ref.ID}.URL())
	}
}

// Delete deletes a message and redirects to the list that led to it.
func (a *Actions) Delete(w http.ResponseWriter, r *http.Request) error {
	ref := api.RefOf(r, false)
	if err := a.Page.API.Send(r, http.MethodDelete, link.To(ref.Endpoint(), "reason", request.Text(r, "reason")), nil, nil); err != nil {
		return a.refused(w, r, err)
	}
	return view.RedirectDone(w, r, "deleted", link.Back(r))
}

func (a *Actions) refused(w http.ResponseWriter, r *http.Request, err error) error {
	return view.Answered(err, func(problem *view.Problem) error {
		explainAttempt(problem, a.Page.Now())
		return a.Page.Renderer.ShowAgain(w, r, problem)
	})
}

// explainAttempt adds to the message of a problem what the API says about the failed attempt.
func explainAttempt(f *view.Problem, now time.Time) {
	var rest []view.FieldProblem
	for _, field := range f.Fields {
		switch field.Field {
		case "class":
			f.Message = format.Sentence(f.Message) + " Error class: " + field.Reason + "."
		case "status":
			f.Message = format.Sentence(f.Message) + " The message is " + field.Reason + " now."
		case "retry_at":
			if due, err := time.Parse(time.RFC3339, field.Reason); err == nil {
				f.Message = format.Sentence(f.Message) + " The next attempt is due " + format.Ago(now, due) + "."
			}
		case "id", "reason":
			f.Message = format.Sentence(f.Message) + " " + format.Sentence(field.Reason)
		default:
			rest = append(rest, field)
		}
	}
	f.Message, f.Fields = format.Sentence(f.Message), rest
}
