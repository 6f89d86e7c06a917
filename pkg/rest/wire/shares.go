package wire

import (
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// ShareGroups contains the share groups that a caller may see. The list has a limit; Total counts all of these groups.
type ShareGroups struct {
	Groups []ShareGroup `json:"share_groups"`
	Total  int          `json:"total"`
}

// ShareGroup shows a share group whose configuration names a dead-letter topic, and the numbers of its messages.
type ShareGroup struct {
	Group           string         `json:"group"`
	DLQTopic        string         `json:"dlq_topic"`
	CopiesRecords   bool           `json:"copies_records"`
	Topics          []string       `json:"topics"` // null: not known
	MessagesWaiting int64          `json:"messages_waiting"`
	MessagesRefused int64          `json:"messages_refused"`
	Problems        []ShareProblem `json:"problems"`
}

// ShareProblem is a reason why the broker would lose dead letters of a share group, such as a wrong setting of a topic.
type ShareProblem struct {
	Code    string  `json:"code"`
	Text    *string `json:"text"`
	Command *string `json:"command"`
}

// NewShareGroup shows a share group with the numbers of its messages. With masked, it hides the name of the group, and
// the texts that may contain this name.
func NewShareGroup(g entity.ShareGroup, counts []repository.PointerCount, masked bool) ShareGroup {
	shown := ShareGroup{
		Group: g.Name, DLQTopic: g.DeadLetterTopic, CopiesRecords: g.CopiesRecords,
		Problems: Each(g.Problems, func(p entity.ShareProblem) ShareProblem {
			if masked {
				return ShareProblem{Code: p.Code}
			}
			return ShareProblem{Code: p.Code, Text: OrNull(p.Text), Command: OrNull(p.Command)}
		}),
	}
	if g.TopicsKnown {
		shown.Topics = ListOf(g.Topics)
	}
	if masked {
		shown.Group = MaskedText
	}
	for _, c := range counts {
		switch {
		case !slices.Contains(g.Topics, c.Topic):
		case c.State == entity.CompletionWaiting:
			shown.MessagesWaiting += c.Count
		case c.State == entity.CompletionRefused:
			shown.MessagesRefused += c.Count
		}
	}
	return shown
}
