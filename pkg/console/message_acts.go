package console

import (
	"cmp"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

type acts struct {
	Retry, Edit, Requeue, Dead, Delete, Origin, Restore act

	Unsettled bool   // a retry has to accept that the record may arrive twice
	From      string // the list that led to this page
	Reason    string // the reason typed for the action that was refused
	Topic     string
	Accepted  bool
}

// act is an action on the message. It is possible when Why is empty.
type act struct {
	Why  string
	Open bool // it was just refused; show its form open
}

// actsOf says which actions the viewer may perform in the message's state. The API makes the decision.
func actsOf(m *message, v *viewer, r *http.Request, archived bool) acts {
	where := m.Where()
	operator, admin := v.Why("operator", where), v.Why("admin", where)
	a := acts{
		Retry:     act{Why: cmp.Or(operator, whyNoRetry(m))},
		Edit:      act{Why: cmp.Or(mayNotEdit(m, v), whyNoEdit(m))},
		Requeue:   act{Why: cmp.Or(operator, unlessStatus(m, "is not DEAD", "DEAD"))},
		Dead:      act{Why: cmp.Or(operator, unlessStatus(m, "is "+m.Status, "PENDING", "RETRYING"))},
		Delete:    act{Why: cmp.Or(admin, whyNoDelete(m))},
		Origin:    act{Why: cmp.Or(operator, whyNoOrigin(m))},
		Restore:   act{Why: operator},
		Unsettled: m.unsettled(),
	}
	if archived {
		a = acts{Restore: a.Restore}
	}
	if r.Method == http.MethodPost {
		a.Reason, a.Topic, a.Accepted = text(r, "reason"), text(r, "original_topic"), text(r, "accept_duplicate") != ""
		tried := map[string]*act{"dead": &a.Dead, "delete": &a.Delete, "origin": &a.Origin, "restore": &a.Restore}
		if act := tried[path.Base(r.URL.Path)]; act != nil {
			act.Open = true
		}
	}
	a.From = wayBack(r)
	return a
}

func unlessStatus(m *message, why string, statuses ...string) string {
	if slices.Contains(statuses, m.Status) {
		return ""
	}
	return why
}

// mayNotEdit names the role that the viewer lacks to edit a message; "" when they may.
func mayNotEdit(m *message, v *viewer) string {
	return cmp.Or(v.Why("operator", m.Where()), v.Why("edit", m.Where()))
}

func whyNoRetry(m *message) string {
	if why := whyNoEdit(m); why != "" {
		return why
	}
	if m.OriginalTopic == "" {
		return "its original topic is unknown"
	}
	return ""
}

// whyNoEdit is whyNoRetry without the check of the original topic, as an edit can set the topic.
func whyNoEdit(m *message) string {
	switch {
	case m.Status == "DEAD":
		return "is DEAD: requeue it first"
	case m.Status == "RETRYING" && m.unsettled():
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

func whyNoDelete(m *message) string {
	switch {
	case m.unsettled():
		return "its last attempt cannot be settled: mark it dead first"
	case m.Status == "RETRYING":
		return "a retry is under way"
	default:
		return ""
	}
}

func whyNoOrigin(m *message) string {
	switch {
	case m.Status != "PENDING" && m.Status != "DEAD":
		return "is " + m.Status
	case m.OriginKnownBy == "header" && m.OriginalTopic != "" && !m.Undeclared:
		return "its own headers name the original topic"
	default:
		return ""
	}
}

// orderMessage performs an action on a message and redirects to its page among the live messages.
func (c *Console) orderMessage(what, sentence string) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		at, body := placeOf(r, what == "restore"), reasoned(r)
		switch {
		case what == "retry" && text(r, "accept_duplicate") != "":
			body["accept_duplicate"] = true
		case what == "origin":
			body["original_topic"] = text(r, "original_topic")
		}
		if err := c.api.send(r, http.MethodPost, at.api(what), body, nil); err != nil {
			return c.refused(w, r, at, err)
		}
		return seeDone(w, r, sentence, place{id: at.id}.page())
	}
}

func (c *Console) deleteMessage(w http.ResponseWriter, r *http.Request) error {
	at := placeOf(r, false)
	if err := c.api.send(r, http.MethodDelete, to(at.api(), "reason", text(r, "reason")), nil, nil); err != nil {
		return c.refused(w, r, at, err)
	}
	return seeDone(w, r, "deleted", wayBack(r))
}

func (c *Console) refused(w http.ResponseWriter, r *http.Request, at place, err error) error {
	status, problem, err := problemOf(err)
	if err != nil {
		return err
	}
	c.tellAttempt(problem)
	return c.showMessage(w, r, at, status, problem)
}

func (c *Console) tellAttempt(f *failure) {
	var rest []fieldProblem
	for _, field := range f.Fields {
		switch field.Field {
		case "class":
			f.Message = sentence(f.Message) + " Error class: " + field.Reason + "."
		case "status":
			f.Message = sentence(f.Message) + " The message is " + field.Reason + " now."
		case "retry_at":
			if due, err := time.Parse(time.RFC3339, field.Reason); err == nil {
				f.Message = sentence(f.Message) + " The next attempt is due " + ago(c.now(), due) + "."
			}
		case "id", "reason":
			f.Message = sentence(f.Message) + " " + sentence(field.Reason)
		default:
			rest = append(rest, field)
		}
	}
	f.Message, f.Fields = sentence(f.Message), rest
}

// sentence adds a full stop and, unless a field's name comes first, a capital letter.
func sentence(s string) string {
	if s == "" {
		return s
	}
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	if word, _, _ := strings.Cut(s, " "); strings.HasSuffix(word, ":") || strings.Contains(word, "_") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
