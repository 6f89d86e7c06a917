package message

import (
	"fmt"
	"strconv"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
)

type fact struct {
	Name  string
	Value string
	Time  time.Time // set for a fact that is a time
	Topic bool      // Value is a topic
	Sure  string    // high, medium or low; "" when unknown
	How   string
}

func originOf(m *api.Message) []fact {
	var shown []fact
	for _, f := range []struct {
		key string
		fact
	}{
		{"original_topic", fact{Name: "Original topic", Value: m.OriginalTopic, Topic: true}},
		{"original_partition", fact{Name: "Partition", Value: known(m.OrigPartition)}},
		{"original_offset", fact{Name: "Offset", Value: known(m.OrigOffset)}},
		{"original_timestamp", fact{Name: "Written", Time: m.OrigTimestamp}},
		{"consumer_group", fact{Name: "Consumer group", Value: m.ConsumerGroup}},
		{"consumer_attempts", fact{Name: "Consumer attempts", Value: known(m.ConsumerTries)}},
		{"error_class", fact{Name: "Error class", Value: m.ErrorClass}},
		{"error_message", fact{Name: "Error message", Value: format.Clip(120, m.ErrorMessage)}},
	} {
		if d := m.Derived[f.key]; f.Topic || f.Value != "" || !f.Time.IsZero() {
			f.Sure, f.How = confidence(d), source(d, m.Dialect)
			shown = append(shown, f.fact)
		}
	}
	return shown
}

func known[T any](n *T) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

func confidence(d api.Derived) string {
	if d.Confidence == "none" {
		return ""
	}
	return d.Confidence
}

// source says where a field was read from; "" for unknown. The message's own dialect is not repeated.
func source(d api.Derived, dialect string) string {
	of := ""
	if d.Dialect != "" && d.Dialect != dialect {
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
		return "set by an operator"
	case "record":
		return "from the dead-letter record itself" + of
	default:
		return ""
	}
}
