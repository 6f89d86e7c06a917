package groups

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// ShareWatcher knows the share groups of the cluster whose configuration names a dead-letter topic.
type ShareWatcher interface {
	// ShareGroups returns the share groups, ordered by name. It returns false as long as Kafka has not answered.
	ShareGroups() ([]entity.ShareGroup, bool)
}

// ShareDatabase counts the messages of share groups.
type ShareDatabase interface {
	CountPointers(ctx context.Context, removed map[string]time.Time) ([]repository.PointerCount, error)
}

// ShareGroups answers with the share groups whose dead letters the broker writes.
type ShareGroups struct {
	Watcher  ShareWatcher // nil: there is no Kafka
	Database ShareDatabase
	Derived  wire.DerivedMasks
}

// maxShareGroups limits the number of groups in an answer.
const maxShareGroups = 1000

// List sends the groups of the topics that the caller sees: those with problems first.
func (h ShareGroups) List(w http.ResponseWriter, r *http.Request) error {
	if h.Watcher == nil {
		return respond.Refused(entity.ErrUnavailable, "", respond.Detail{Field: "kafka", Reason: "is not configured"})
	}
	groups, known := h.Watcher.ShareGroups()
	if !known {
		return respond.Refused(entity.ErrUnavailable, "", respond.Detail{Field: "kafka", Reason: "has not answered yet which share groups there are"})
	}
	p := access.Principal(r)
	seen := groups[:0:0]
	for _, g := range groups {
		if g, visible := visibleTo(p, g); visible {
			seen = append(seen, g)
		}
	}
	counts, err := h.Database.CountPointers(r.Context(), nil)
	if err != nil {
		return err
	}
	slices.SortStableFunc(seen, func(a, b entity.ShareGroup) int { return min(len(b.Problems), 1) - min(len(a.Problems), 1) })
	masked := h.Derived.Fields().ConsumerGroup
	respond.JSON(w, http.StatusOK, wire.ShareGroups{
		Groups: wire.Each(seen[:min(len(seen), maxShareGroups)], func(g entity.ShareGroup) wire.ShareGroup {
			return wire.NewShareGroup(g, counts, masked)
		}),
		Total: len(seen),
	})
	return nil
}

// visibleTo returns a group with the topics on which a principal is viewer. The principal sees a group if it is viewer
// on one of the group's topics. If the group has no topics, or they are not known, the principal must be viewer on its
// dead-letter topic.
func visibleTo(p auth.Principal, g entity.ShareGroup) (entity.ShareGroup, bool) {
	if p.Everywhere(auth.Viewer) {
		return g, true
	}
	if len(g.Topics) == 0 {
		return g, p.May(auth.Viewer, g.DeadLetterTopic)
	}
	g.Topics = slices.DeleteFunc(slices.Clone(g.Topics), func(topic string) bool { return !p.May(auth.Viewer, topic) })
	return g, len(g.Topics) > 0
}
