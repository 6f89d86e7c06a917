package console

import (
	"net/http"
	"path"
	"strings"
	"time"
)

// acts are what can be done with a message, and why not what cannot.
type acts struct {
	Retry, Edit, Requeue, Dead, Delete, Origin, Restore act

	Unsettled bool   // a retry has to accept that the record may arrive twice
	From      string // the list that led here
	Reason    string // what was typed, of the one that was tried
	Topic     string
	Accepted  bool
}

// act is one of them. Without Why it can be done.
type act struct {
	Why  string
	Open bool // it was just tried, and is shown again
}

// actsOf says what whoever looks may do with a message in its state. The API has
// the last word.
func actsOf(m *message, v *viewer, r *http.Request, archived bool) acts {
	where := m.Where()
	operator, admin := v.Why("operator", where), v.Why("admin", where)
	a := acts{
		Retry:     act{Why: first(operator, whyNoRetry(m))},
		Edit:      act{Why: first(mayNotEdit(m, v), whyNoEdit(m))},
		Requeue:   act{Why: first(operator, unlessStatus(m, "only what is DEAD", "DEAD"))},
		Dead:      act{Why: first(operator, unlessStatus(m, "is "+m.Status, "PENDING", "RETRYING"))},
		Delete:    act{Why: first(admin, whyNoDelete(m))},
		Origin:    act{Why: first(operator, whyNoOrigin(m))},
		Restore:   act{Why: operator},
		Unsettled: m.unsettled(),
	}
	if archived {
		a = acts{Restore: a.Restore}
	}
	if r.Method == http.MethodPost {
		a.Reason, a.Topic, a.Accepted = text(r, "reason"), text(r, "original_topic"), text(r, "accept_duplicate") != ""
		switch path.Base(r.URL.Path) {
		case "dead":
			a.Dead.Open = true
		case "delete":
			a.Delete.Open = true
		case "origin":
			a.Origin.Open = true
		case "restore":
			a.Restore.Open = true
		}
	}
	a.From = wayBack(r)
	return a
}

func first(reasons ...string) string {
	for _, reason := range reasons {
		if reason != "" {
			return reason
		}
	}
	return ""
}

func unlessStatus(m *message, why string, statuses ...string) string {
	for _, status := range statuses {
		if m.Status == status {
			return ""
		}
	}
	return why
}

// mayNotEdit says which role the viewer lacks to edit a message; "" when none.
func mayNotEdit(m *message, v *viewer) string {
	return first(v.Why("operator", m.Where()), v.Why("edit", m.Where()))
}

func whyNoRetry(m *message) string {
	if why := whyNoEdit(m); why != "" {
		return why
	}
	if m.OriginalTopic == "" {
		return "nobody knows where it belongs"
	}
	return ""
}

// whyNoEdit is as whyNoRetry, but for where it belongs: an edit can say.
func whyNoEdit(m *message) string {
	switch {
	case m.Status == "DEAD":
		return "is DEAD: requeue it first"
	case m.Status == "RETRYING" && m.unsettled():
		return ""
	case m.Status == "RETRYING":
		return "a retry has it"
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
		return "a retry has it"
	default:
		return ""
	}
}

func whyNoOrigin(m *message) string {
	switch {
	case m.Status != "PENDING" && m.Status != "DEAD":
		return "is " + m.Status
	case m.OriginKnownBy == "header" && m.OriginalTopic != "" && !m.Undeclared:
		return "its own headers name it"
	default:
		return ""
	}
}

// retryMessage sends a message back.
func (c *Console) retryMessage(w http.ResponseWriter, r *http.Request) error {
	body := reasoned(r)
	if text(r, "accept_duplicate") != "" {
		body["accept_duplicate"] = true
	}
	return c.order(w, r, placeOf(r, false), http.MethodPost, "retry", body, "retried")
}

// requeueMessage gives a dead one its attempts back.
func (c *Console) requeueMessage(w http.ResponseWriter, r *http.Request) error {
	return c.order(w, r, placeOf(r, false), http.MethodPost, "requeue", reasoned(r), "requeued")
}

// giveUpMessage marks one dead.
func (c *Console) giveUpMessage(w http.ResponseWriter, r *http.Request) error {
	return c.order(w, r, placeOf(r, false), http.MethodPost, "dead", reasoned(r), "dead")
}

// setOrigin says where one belongs.
func (c *Console) setOrigin(w http.ResponseWriter, r *http.Request) error {
	body := reasoned(r)
	body["original_topic"] = text(r, "original_topic")
	return c.order(w, r, placeOf(r, false), http.MethodPost, "origin", body, "origin")
}

// restoreMessage brings one back from the archive.
func (c *Console) restoreMessage(w http.ResponseWriter, r *http.Request) error {
	from := placeOf(r, true)
	if err := c.api.send(r, http.MethodPost, from.api("restore"), reasoned(r), nil); err != nil {
		return c.refused(w, r, from, err)
	}
	return seeDone(w, r, "restored", place{id: from.id}.page())
}

// deleteMessage removes one for good: its page is no more.
func (c *Console) deleteMessage(w http.ResponseWriter, r *http.Request) error {
	at := placeOf(r, false)
	if err := c.api.send(r, http.MethodDelete, to(at.api(), "reason", text(r, "reason")), nil, nil); err != nil {
		return c.refused(w, r, at, err)
	}
	return seeDone(w, r, "deleted", wayBack(r))
}

// order has something done with a message and shows it again.
func (c *Console) order(w http.ResponseWriter, r *http.Request, at place, method, what string, body any, sentence string) error {
	if err := c.api.send(r, method, at.api(what), body, nil); err != nil {
		return c.refused(w, r, at, err)
	}
	return seeDone(w, r, sentence, at.page())
}

// refused shows the message below what the API said of what was tried with it.
func (c *Console) refused(w http.ResponseWriter, r *http.Request, at place, err error) error {
	problem, other := problemOf(err)
	if other != nil {
		return other
	}
	status, _ := describe(err)
	c.tellAttempt(problem)
	return c.showMessage(w, r, at, status, problem)
}

// tellAttempt puts what the API tells of an attempt that failed into sentences.
func (c *Console) tellAttempt(f *failure) {
	var rest []fieldProblem
	for _, field := range f.Fields {
		switch field.Field {
		case "class":
			f.Message = sentence(f.Message) + " It is of class " + field.Reason + "."
		case "status":
			f.Message = sentence(f.Message) + " The message is " + field.Reason + " now."
		case "retry_at":
			if due, err := time.Parse(time.RFC3339, field.Reason); err == nil {
				f.Message = sentence(f.Message) + " Another attempt is due " + ago(c.now(), due) + "."
			}
		case "id", "reason":
			f.Message = sentence(f.Message) + " " + sentence(field.Reason)
		default:
			rest = append(rest, field)
		}
	}
	f.Message, f.Fields = sentence(f.Message), rest
}

// sentence begins with a capital letter and ends with a full stop. Names of fields
// stay as they are.
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
