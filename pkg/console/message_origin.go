package console

import (
	"strconv"
	"time"
)

// derived says where a field was learnt.
type derived struct {
	Source     string `json:"source"`
	Dialect    string `json:"dialect"`
	Header     string `json:"header"`
	Occurrence *int   `json:"occurrence"`
	Confidence string `json:"confidence"`
}

// fact is something that is known of a message, and how.
type fact struct {
	Name  string
	Value string
	Time  time.Time // of a fact that is a moment
	Topic bool      // of one that is a topic
	Sure  string    // high, medium, low, or "" when nothing is known
	How   string
}

// originOf lists what is known of where a message failed, with the confidence of
// each of it.
func originOf(m *message) []fact {
	number := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	facts := []fact{
		{Name: "Original topic", Value: m.OriginalTopic, Topic: true},
		{Name: "Partition", Value: number(wide(m.OrigPartition))},
		{Name: "Offset", Value: number(m.OrigOffset)},
		{Name: "Written", Time: m.OrigTimestamp},
		{Name: "Consumer group", Value: m.ConsumerGroup},
		{Name: "Consumer attempts", Value: number(wide(m.ConsumerTries))},
		{Name: "Error class", Value: m.ErrorClass},
		{Name: "Error message", Value: clip(120, m.ErrorMessage)},
	}
	keys := []string{
		"original_topic", "original_partition", "original_offset", "original_timestamp", "consumer_group", "consumer_attempts",
		"error_class", "error_message",
	}
	shown := facts[:0]
	for i, f := range facts {
		d := m.Derived[keys[i]]
		f.Sure, f.How = d.sure(), d.how(m.Dialect)
		if i == 0 || f.Value != "" || !f.Time.IsZero() {
			shown = append(shown, f)
		}
	}
	return shown
}

func wide[T int | int32](n *T) *int64 {
	if n == nil {
		return nil
	}
	all := int64(*n)
	return &all
}

func (d derived) sure() string {
	if d.Confidence == "none" {
		return ""
	}
	return d.Confidence
}

// how says in words where a field was learnt; "" when nobody knows. The dialect that
// the message was recognised by is named once, above all of them.
func (d derived) how(known string) string {
	of := ""
	if d.Dialect != "" && d.Dialect != known {
		of = " of dialect " + d.Dialect
	}
	switch d.Source {
	case "header", "companion":
		from := "from header " + d.Header
		if d.Occurrence != nil && *d.Occurrence > 0 {
			from += " (number " + strconv.Itoa(*d.Occurrence+1) + " of that name)"
		}
		if d.Source == "companion" {
			return from + of + ", a name that several dialects use"
		}
		return from + of
	case "mapping":
		return "by a rule of the topic mapping"
	case "name":
		return "from the name of the dead-letter topic" + of
	case "operator":
		return "said by an operator"
	case "record":
		return "from the dead letter's own record" + of
	default:
		return ""
	}
}
