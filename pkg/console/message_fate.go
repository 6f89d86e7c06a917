package console

import (
	"strconv"
	"time"
)

type fate struct {
	Live  bool
	URL   string // of the page without what is dear to make
	Words []string
	Moved bool // the state is another than when the page was loaded
	Base  string
}

// settleTime is how long the page waits for the outcome of a record; later a reload shows it.
const settleTime = 15 * time.Minute

// fateOf describes the outcome of a message. seen is the status that the page was loaded with, "" for now.
func (c *Console) fateOf(m *message, seen string) fate {
	f := fate{Words: fateWords(m), Moved: seen != "" && seen != m.Status, Base: place{id: m.ID}.page()}
	if seen == "" {
		seen = m.Status
	}
	f.Live = m.Status == "RETRYING" && !m.unsettled() ||
		m.Status == "RESOLVED" && m.Outcome == "published" && c.now().Sub(m.FinishedAt) < settleTime
	f.URL = to(f.Base, "seen", seen)
	return f
}

func fateWords(m *message) []string {
	switch m.Status {
	case "RETRYING":
		if m.unsettled() {
			return []string{
				"The last attempt is over, and nobody can tell whether its record is in the original topic.",
				"Send it again and accept that it may arrive twice, or mark it dead.",
			}
		}
		return []string{"An attempt is under way, or is being settled."}
	case "RESOLVED":
		return outcomeWords(m)
	case "DEAD":
		return append([]string{"Given up: nothing sends it back by itself. Requeue it to try again."}, lastErrorWords(m)...)
	default:
		return append(pendingWords(m), lastErrorWords(m)...)
	}
}

func pendingWords(m *message) []string {
	if m.OriginalTopic == "" {
		return []string{"Nobody knows where it belongs: say so, or edit it and name a topic."}
	}
	if m.RetryCount >= m.MaxRetries {
		return []string{"No attempts are left."}
	}
	return []string{"Waits to be sent back to " + m.OriginalTopic + "."}
}

func lastErrorWords(m *message) []string {
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
	return []string{visible(words)}
}

func outcomeWords(m *message) []string {
	switch m.Outcome {
	case "consumed":
		words := "Its record was read"
		if m.OutcomeGroup != "" && m.OutcomeOffset != nil {
			words = "Consumer group " + m.OutcomeGroup + " committed offset " + strconv.FormatInt(*m.OutcomeOffset, 10) + " behind it"
		}
		return []string{words + ": evidence, not proof."}
	case "returned":
		return []string{"It was sent, failed again and came back as another message."}
	case "published":
		return []string{"Its record is in the topic. Whether anybody read it is not known yet."}
	default:
		return []string{"Resolved."}
	}
}
