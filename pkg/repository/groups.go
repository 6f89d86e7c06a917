package repository

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Groups are messages of the same cause, counted together. Their numbers are kept
// with every change of a message, in the same step, and are exact.
type Groups interface {
	// NoteFingerprints stores the names of groups, as BoundFingerprint has them, and
	// changes no known one. Note a message's group before the message is stored: until then
	// the group has numbers and no name. A group may be forgotten when nothing of it is
	// stored in either table, nothing came for TrendLife, and it has no annotation; when it
	// comes again it is new.
	NoteFingerprints(ctx context.Context, fingerprints []entity.Fingerprint) error

	// AdmitFingerprints is NoteFingerprints for failures of dead-letter topics, each of
	// which may create MaxNewGroups groups in an hour of the store's clock, over all
	// callers; known groups are never refused. It returns the failures that it refused,
	// whose messages belong to entity.Unclassified of their topic. In a topic it goes by
	// the order of failures.
	AdmitFingerprints(ctx context.Context, failures []TopicFailure) (refused []TopicFailure, err error)

	// ErrorGroups returns groups of which messages were ever stored, in the order of
	// q.Sort, the highest first, ties by id descending. Counts, arrivals, shares, times and
	// the order are of visible topics only; RegressedAt is zero unless something arrived in
	// one of them since; a group without arrivals in one is left out. Annotations are those
	// of visible topics and of entity.AllTopics. Messages of unknown origin are visible to
	// those who see all topics.
	ErrorGroups(ctx context.Context, q GroupQuery) ([]ListedGroup, error)

	// ErrorGroup returns one group with its trend; *entity.GroupNotFoundError when
	// there is none, or none of its messages is visible.
	ErrorGroup(ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend Trend) (entity.ErrorGroup, error)

	// AnnotateGroup sets annotations of a group for the topics that match where and in
	// which it ever arrived; with a nil where for all topics, also later ones, replacing
	// those of single topics. nil fields stay. It returns the topics by name,
	// entity.AllTopics for all. The audit trail has Annotation.String as LastError, and the
	// topics unless it is all. A group that ErrorGroup does not know for where is a
	// *entity.GroupNotFoundError.
	AnnotateGroup(ctx context.Context, id uuid.UUID, a Annotation, where *entity.TopicPatterns, cause entity.Cause) ([]string, error)
}

// MaxNewGroups is how many error groups a dead-letter topic may create in an hour.
const MaxNewGroups = 200

// TopicFailure is a fingerprint and the dead-letter topic that it came from.
type TopicFailure struct {
	DLQTopic string
	entity.Fingerprint
}

// GroupQuery asks for a part of the error groups.
type GroupQuery struct {
	Visible *entity.TopicPatterns // nil: all topics
	Topic   string                // only groups with messages of this original topic in the live table; "": all
	Open    bool                  // only groups with messages that are not RESOLVED, of Topic where that is set
	Sort    GroupSort
	After   *GroupPlace // only what stands behind it in the order
	Limit   int
	Trend   Trend
}

// GroupSort is an order of groups.
type GroupSort int

const (
	// GroupsByLastSeen sorts by when the last message came; of all topics that is
	// exact to a minute.
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

// Trend is the time that hourly counts are of: the hours from that of Since on
// that begin before Until. The zero value asks for none. Hours older than TrendLife
// may be forgotten.
type Trend struct{ Since, Until time.Time }

// Annotation is what an operator says of a group.
type Annotation struct {
	Note  *string
	Link  *string
	Muted *bool
}

// TrendLife is for how long it is kept at least how much came in an hour.
const TrendLife = 90 * 24 * time.Hour

// String is what was set, as the audit trail shows it: a line for each thing.
func (a Annotation) String() string {
	var lines []string
	if a.Note != nil {
		lines = append(lines, "note: "+*a.Note)
	}
	if a.Link != nil {
		lines = append(lines, "link: "+*a.Link)
	}
	if a.Muted != nil {
		lines = append(lines, fmt.Sprintf("muted: %t", *a.Muted))
	}
	return strings.Join(lines, "\n")
}

// How much of a fingerprint is kept: bytes of its class and of each frame, of its
// title, and frames.
const (
	maxGroupName   = 300
	maxGroupTitle  = 1000
	maxGroupFrames = 10
)

// BoundFingerprint is what stores keep of a fingerprint under its id.
func BoundFingerprint(f entity.Fingerprint) entity.Fingerprint {
	f.Class, f.Rule, f.Title = bound(f.Class, maxGroupName), bound(f.Rule, maxGroupName), bound(f.Title, maxGroupTitle)
	var frames []string
	for _, frame := range f.Frames[:min(len(f.Frames), maxGroupFrames)] {
		frames = append(frames, bound(frame, maxGroupName))
	}
	f.Frames = frames
	return f
}

// bound cuts text off behind at most n bytes, between two characters.
func bound(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// RecentGroups counts what somebody may want to look at.
type RecentGroups interface {
	// CountRecentGroups returns how many error groups came first, and how many came back
	// after all of theirs was resolved, within that time before now; muted groups and
	// those of except are left out. A group that did both is in both.
	CountRecentGroups(ctx context.Context, within time.Duration, except []uuid.UUID) (RecentCount, error)
}

// RecentCount is how many error groups came, and came back.
type RecentCount struct{ New, Regressed int64 }
