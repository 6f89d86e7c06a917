package wire

import (
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Redirect sends the replays of an original topic to another topic.
type Redirect struct {
	Topic     string  `json:"topic"`
	Target    string  `json:"target"`
	Version   int64   `json:"version"`
	Reason    *string `json:"reason"`
	UpdatedAt *string `json:"updated_at"`
	UpdatedBy *string `json:"updated_by"`
}

// NewRedirect shows a redirect.
func NewRedirect(r entity.Redirect) Redirect {
	return Redirect{r.Topic, r.Target, r.Version, OrNull(r.Reason), Stamp(r.UpdatedAt), OrNull(r.UpdatedBy)}
}

// RedirectAnswer is the answer to a change of a redirect, or to a dry run of a change. Redirect is the redirect that
// exists now, or the deleted redirect after a deletion; null for none. Preview is the result of a dry run.
type RedirectAnswer struct {
	Redirect *Redirect        `json:"redirect"`
	Preview  *RedirectPreview `json:"preview"`
}

// RedirectPreview is the result of a dry run: how many messages have the original topic, and the expected result of a
// redrive of the PENDING messages. Target is null for a dry run of a deletion.
type RedirectPreview struct {
	Target   *string                 `json:"target"`
	Counts   map[entity.Status]int64 `json:"counts"`
	Selected int                     `json:"selected"`
	Sendable int                     `json:"sendable"`
	Reasons  map[string]int          `json:"reasons"`
	Groups   []PreviewGroup          `json:"groups"`
}

// NewRedirectPreview shows a dry run.
func NewRedirectPreview(target string, t repository.TopicTotal, p entity.Preview) RedirectPreview {
	return RedirectPreview{
		Target: OrNull(target), Counts: statusCounts(t.Counts), Selected: p.Selected, Sendable: p.Sendable,
		Reasons: reasons(p.Reasons), Groups: Each(p.Groups, newPreviewGroup),
	}
}
