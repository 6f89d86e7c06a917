package message

import (
	"strconv"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
)

// outcome describes in words what happened to the message after it was sent. While that may still change, the page
// polls URL.
type outcome struct {
	Live  bool
	URL   string // address that the page polls; it shows the same page without the parts that are slow to load
	Words []string
	Moved bool // the message's state has changed since the page was loaded
	Base  string
}

// settleTime is how long the page polls for the outcome of a record; after that time, only a reload shows the outcome.
const settleTime = 15 * time.Minute

// outcomeOf describes the outcome of a message. seen is the status that the page showed when it was loaded; "" means
// the present status.
func outcomeOf(m *api.Message, seen string, now time.Time) outcome {
	f := outcome{Words: stateWords(m), Moved: seen != "" && seen != m.Status, Base: api.MessageRef{ID: m.ID}.URL()}
	if seen == "" {
		seen = m.Status
	}
	f.Live = m.Status == "RETRYING" && !m.Unsettled() ||
		m.Status == "RESOLVED" && m.Outcome == "published" && now.Sub(m.FinishedAt) < settleTime
	f.URL = link.To(f.Base, "seen", seen)
	return f
}

func stateWords(m *api.Message) []string {
	switch m.Status {
	case "RETRYING":
		if m.Unsettled() {
			return []string{
				"The last attempt is over, but it is unknown whether its record is in the original topic.",
				"Send it again and accept that it may arrive twice, or mark it dead.",
			}
		}
		return []string{"An attempt is under way, or is being settled."}
	case "RESOLVED":
		return outcomeWords(m)
	case "DEAD":
		return append([]string{"Marked dead: it is not sent back automatically. Requeue it to try again."}, lastErrorWords(m)...)
	default:
		return append(pendingWords(m), lastErrorWords(m)...)
	}
}

func pendingWords(m *api.Message) []string {
	if m.OriginalTopic == "" {
		return []string{"Its original topic is unknown: set the origin, or edit it and name a topic."}
	}
	if m.RetryCount >= m.MaxRetries {
		return []string{"No attempts are left."}
	}
	switch {
	case m.NoTarget():
		return []string{"It cannot be sent back: topic " + m.Target.Topic + " does not exist."}
	case m.Target != nil && m.Target.Redirected:
		return []string{"Waiting to be sent to " + m.Target.Topic + ", to which " + m.OriginalTopic + " is redirected."}
	}
	return []string{"Waiting to be sent back to " + m.OriginalTopic + "."}
}

func lastErrorWords(m *api.Message) []string {
	if m.LastError == "" && m.LastErrorClass == "" {
		return nil
	}
	words := "The last attempt failed"
	if m.LastErrorClass != "" {
		words += " with " + m.LastErrorClass
	}
	if m.LastError != "" {
		words += ": " + m.LastError
	}
	return []string{format.Visible(words)}
}

func outcomeWords(m *api.Message) []string {
	switch m.Outcome {
	case "consumed":
		words := "Its record was consumed"
		if m.OutcomeGroup != "" && m.OutcomeOffset != nil {
			words = "Consumer group " + m.OutcomeGroup + " committed offset " + strconv.FormatInt(*m.OutcomeOffset, 10) + ", past its record"
		}
		return []string{words + ": evidence, not proof."}
	case "returned":
		return []string{"It was sent, failed again and was stored as another message."}
	case "published":
		return []string{"Its record is in the topic. It is not known yet whether a consumer read it."}
	default:
		return []string{"Resolved."}
	}
}
