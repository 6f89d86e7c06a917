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
	// NoteFingerprints remembers what groups are called, as BoundFingerprint has it.
	// What is known already stays as it is. A message's group should be noted before the
	// message is stored: until it is, the group has its numbers and no name. A group may
	// be forgotten of which nothing is stored any more, in either table, of which nothing
	// came for TrendLife, and which has no note, no link and no mute of any topic; when it comes again
	// it is a new one, and has to be noted again.
	NoteFingerprints(ctx context.Context, fingerprints []entity.Fingerprint) error

	// AdmitFingerprints is NoteFingerprints for the failures of dead-letter topics, each
	// of which may create MaxNewGroups groups in an hour of the store's clock, over all
	// callers. Known groups are never refused. It returns the failures that it refused;
	// their messages belong to entity.Unclassified of their topic, which it notes. In a
	// topic the failures are admitted in the order of failures.
	AdmitFingerprints(ctx context.Context, failures []TopicFailure) (refused []TopicFailure, err error)

	// ErrorGroups returns groups of which messages were ever stored, in the order of
	// q.Sort, the highest first, ties by id descending. Counts, arrivals, shares,
	// times and the place in the order are of the visible topics only, RegressedAt is
	// zero unless something arrived in one of them at that time or later, and a group
	// of which nothing ever arrived in one is left out. Annotations are those of visible
	// topics and of entity.AllTopics. Messages of unknown origin are
	// visible to those who see all topics.
	ErrorGroups(ctx context.Context, q GroupQuery) ([]ListedGroup, error)

	// ErrorGroup returns one group with its trend; *entity.GroupNotFoundError when
	// there is none, or none of its messages is visible.
	ErrorGroup(ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend Trend) (entity.ErrorGroup, error)

	// AnnotateGroup sets what an operator says of a group's messages of some topics; nil
	// leaves it as it is. These are the topics that match where and of which something
	// ever arrived in the group; with nil all topics, also those that come later, in the
	// place of what was said of each. It returns them by name, entity.AllTopics for all.
	// The change is in the audit trail, with Annotation.String as its LastError and with
	// the topics, unless it is of all. Of a group that ErrorGroup does not know for
	// where it is a *entity.GroupNotFoundError.
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
