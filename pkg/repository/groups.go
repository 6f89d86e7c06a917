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

// Groups stores error groups: messages whose failures have the same fingerprint, counted together. Every change of a
// message changes the counts in the same step, so the counts are exact.
type Groups interface {
	// SaveFingerprints stores the descriptions of error groups, shortened by BoundFingerprint; groups that exist
	// already are not changed. Call it before messages of the group are stored; otherwise the group has counts but no
	// description until this call. A group may be deleted when it has no live or archived message, none arrived within
	// TrendLife, and it has no annotation. When a message of a deleted group arrives later, the group counts as new.
	SaveFingerprints(ctx context.Context, fingerprints []entity.Fingerprint) error

	// AdmitFingerprints does the same as SaveFingerprints for failures of dead-letter topics, each of which may create
	// MaxNewGroups groups in an hour of the store's clock, by all callers together. Groups that exist already are never
	// refused. It returns the refused failures; their messages belong to the group entity.Unclassified of their topic.
	// Within a topic, failures are admitted in their order.
	AdmitFingerprints(ctx context.Context, failures []TopicFailure) (refused []TopicFailure, err error)

	// ErrorGroups returns groups that ever had a stored message, in the order of q.Sort, the highest first, ties by id
	// descending. All counts, times and the order take only messages of visible topics into account. RegressedAt is
	// zero unless a message has arrived in a visible topic since the group regressed. A group without arrivals in
	// visible topics is left out. Annotations are those of visible topics and of entity.AllTopics. Messages of unknown
	// origin are visible only to users who see all topics.
	ErrorGroups(ctx context.Context, q GroupQuery) ([]ListedGroup, error)

	// ErrorGroup returns one group with its trend. When the group does not exist, or none of its messages is visible,
	// the error is a *entity.GroupNotFoundError.
	ErrorGroup(ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend Trend) (entity.ErrorGroup, error)

	// AnnotateGroup sets annotations of a group for the topics that the patterns in the parameter where match and in
	// which messages of the group ever arrived. When where is nil, it sets them for all topics, including topics that
	// appear later, and also overwrites the annotations of single topics. A nil field of the annotation changes
	// nothing. AnnotateGroup returns the names of the annotated topics, sorted, or entity.AllTopics. The audit entry
	// contains Annotation.String as LastError and, unless all topics were annotated, their names. When ErrorGroup does
	// not return the group for these patterns, the error is a *entity.GroupNotFoundError.
	AnnotateGroup(ctx context.Context, id uuid.UUID, a Annotation, where *entity.TopicPatterns, cause entity.AuditInfo) ([]string, error)
}

// MaxNewGroups is the maximum number of error groups that a dead-letter topic may create in an hour.
const MaxNewGroups = 200

// TopicFailure is the fingerprint of a failure and the dead-letter topic of the failed record.
type TopicFailure struct {
	DLQTopic string
	entity.Fingerprint
}

// GroupQuery selects a part of the error groups.
type GroupQuery struct {
	Visible *entity.TopicPatterns // nil for all topics
	Topic   string                // only groups with live messages of this original topic; "" for all
	// Statuses selects groups that have messages in one of these statuses and, if Topic is set, in that topic. An empty
	// list selects all groups.
	Statuses   []entity.Status
	FirstAfter time.Time // only groups whose first message arrived after this time; zero for all
	Regressed  bool      // only groups that regressed and have messages that are not RESOLVED
	Sort       GroupSort
	Recent     time.Time    // beginning of the minute from which on GroupsByRecent counts arrivals
	After      *GroupCursor // only error groups after this cursor in the order of the list; nil for the first page
	Limit      int
	Trend      Trend
}

// OpenStatuses are all statuses except RESOLVED: those of messages that still need attention.
var OpenStatuses = []entity.Status{entity.Pending, entity.Retrying, entity.Dead}

// GroupSort is an order of groups.
type GroupSort int

const (
	// GroupsByLastSeen sorts by the arrival of the latest message.
	GroupsByLastSeen GroupSort = iota
	// GroupsByFirstSeen sorts by the arrival of the first message.
	GroupsByFirstSeen
	// GroupsByOpen sorts by the number of messages in one of GroupQuery.Statuses or, when these are empty, by the
	// number of messages that are not RESOLVED.
	GroupsByOpen
	// GroupsByRecent sorts by the number of arrivals since GroupQuery.Recent, groups with the same number by the
	// arrival of the latest message, rounded down to a second.
	GroupsByRecent
)

// RecentKey returns the sort key of a group for GroupsByRecent. The number of arrivals is in the upper bits, the time
// of the latest message in the lower ones.
func RecentKey(arrived int64, lastSeen time.Time) int64 {
	const most, seconds = 1<<30 - 1, 33
	return min(arrived, most)<<seconds + lastSeen.Unix()
}

// ListedGroup is a group and its cursor in the list.
type ListedGroup struct {
	entity.ErrorGroup
	Cursor GroupCursor
}

// GroupCursor is the position of a group in a list: its sort key, which is a number or a time in microseconds since
// 1970, and its id.
type GroupCursor struct {
	Key int64
	ID  uuid.UUID
}

// Trend says which arrivals of an error group are counted. Hourly counts are requested for the hours from that of Since
// to the last one that begins before Until. Counts by the minute are requested from the minute that begins at Minutes.
// A zero Until requests no hourly counts, a zero Minutes no counts by the minute. Counts of hours older than TrendLife
// and of minutes older than ArrivalsMinuteLife may be deleted. A message is counted in its hour when it is stored, and
// in its minute when its first document is stored (see Activity).
type Trend struct{ Since, Until, Minutes time.Time }

// Annotation contains the properties of a group that an operator sets; a nil field leaves the property unchanged.
type Annotation struct {
	Note  *string
	Link  *string
	Muted *bool
}

// TrendLife is the minimum time for which hourly counts are kept.
const TrendLife = 90 * 24 * time.Hour

// String returns the fields that are set, one on each line, as a text for the audit trail.
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

// Limits of a stored fingerprint: the bytes of its class, of its rule and of each frame, the bytes of its title, and
// the number of frames.
const (
	maxGroupName   = 300
	maxGroupTitle  = 1000
	maxGroupFrames = 10
)

// BoundFingerprint shortens the texts and the frames of a fingerprint to the limits of stores, and clears Message,
// which stores do not keep. The id of the fingerprint must be computed before.
func BoundFingerprint(f entity.Fingerprint) entity.Fingerprint {
	f.Class, f.Rule, f.Title = bound(f.Class, maxGroupName), bound(f.Rule, maxGroupName), bound(f.Title, maxGroupTitle)
	var frames []string
	for _, frame := range f.Frames[:min(len(f.Frames), maxGroupFrames)] {
		frames = append(frames, bound(frame, maxGroupName))
	}
	f.Frames, f.Message = frames, ""
	return f
}

// bound shortens text to at most n bytes, without cutting a character.
func bound(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// RecentGroups counts the error groups that need attention.
type RecentGroups interface {
	// CountRecentGroups counts two kinds of error groups: those that first arrived within the given time before now,
	// and those that regressed within this time, that is, came back after all their messages were resolved. It leaves
	// out the groups in except, and groups that are muted in all topics in which their messages arrived. A group may be
	// in both counts.
	CountRecentGroups(ctx context.Context, within time.Duration, except []uuid.UUID) (RecentCount, error)
}

// RecentCount is the number of new and of regressed error groups.
type RecentCount struct{ New, Regressed int64 }
