package repository

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Groups are messages of the same cause, counted together. Their numbers are kept
// with every change of a message, in the same step, and are exact.
type Groups interface {
	// NoteFingerprints remembers what groups are called. A message's group must be
	// noted before the message is stored.
	NoteFingerprints(ctx context.Context, fingerprints []entity.Fingerprint) error

	// ErrorGroups returns groups of which messages were ever stored, in the order of
	// q.Sort, the highest first, ties by id descending. Counts, arrivals and shares
	// are of the visible topics only, and a group without any is left out.
	ErrorGroups(ctx context.Context, q GroupQuery) ([]ListedGroup, error)

	// ErrorGroup returns one group with its trend; *entity.GroupNotFoundError when
	// there is none, or none of its messages is visible.
	ErrorGroup(ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend Trend) (entity.ErrorGroup, error)

	// AnnotateGroup sets what an operator says of a group; nil leaves it as it is.
	// The change is in the audit trail.
	AnnotateGroup(ctx context.Context, id uuid.UUID, a Annotation, cause entity.Cause) error
}

// GroupQuery asks for a part of the error groups.
type GroupQuery struct {
	Visible *entity.TopicPatterns // nil: all topics
	Topic   string                // only groups with messages of this original topic in the live table; "": all
	Open    bool                  // only groups with messages that are not RESOLVED
	Sort    GroupSort
	After   *GroupPlace // only what stands behind it in the order
	Limit   int
	Trend   Trend
}

// GroupSort is an order of groups.
type GroupSort int

const (
	// GroupsByLastSeen sorts by when the last message came, exact to a minute.
	GroupsByLastSeen GroupSort = iota
	// GroupsByFirstSeen sorts by when the first message came.
	GroupsByFirstSeen
	// GroupsByOpen sorts by how many messages are not RESOLVED.
	GroupsByOpen
)

// ListedGroup is a group and where it stands in the list.
type ListedGroup struct {
	entity.ErrorGroup
	Place GroupPlace
}

// GroupPlace is where a group stands: microseconds since 1970 of the time, or the
// number, that the list is sorted by.
type GroupPlace struct {
	Key int64
	ID  uuid.UUID
}

// Trend is the time that hourly counts are of; the zero value asks for none.
type Trend struct{ Since, Until time.Time }

// Annotation is what an operator says of a group.
type Annotation struct {
	Note  *string
	Link  *string
	Muted *bool
}
