package entity

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Fingerprint is what failures with the same cause have in common.
type Fingerprint struct {
	Class  string   // root error class; "" when nobody said
	Title  string   // the error message without what differs from case to case
	Frames []string // of the application, the innermost first; none when there is no stack trace
	Rule   string   // name of the configured rule that decided; "" when none did
}

// ID is the group of the fingerprint: the same for the same fingerprint, always
// and everywhere.
func (f Fingerprint) ID() uuid.UUID {
	h := sha256.New()
	for _, part := range append([]string{f.Class, f.Title, f.Rule}, f.Frames...) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	var id uuid.UUID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80 // version 8: made by a rule of our own
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Unclassified is the error group of the messages of a dead-letter topic that created
// too many new groups, until the indexer classifies them.
func Unclassified(dlqTopic string) Fingerprint {
	return Fingerprint{Title: "unclassified: too many new errors in " + dlqTopic, Rule: "unclassified"}
}

// ErrorGroup is the messages of one fingerprint, counted together.
type ErrorGroup struct {
	ID uuid.UUID
	Fingerprint
	FirstSeen time.Time // when the first of them was stored, archived ones included
	LastSeen  time.Time // when the last was
	// RegressedAt is when a message came although none of the group was left but
	// resolved ones; zero when that never happened.
	RegressedAt time.Time
	Counts      map[Status]int64 // in the live table
	Arrived     int64            // ever
	Topics      []TopicShare     // by original topic, of what is in the live table; the largest first
	Trend       []HourCount      // arrivals of the time that was asked for, oldest first; hours without are left out
	// Annotations are what operators say of its messages: that of AllTopics first, if
	// there is one, then those of topics by name.
	Annotations []GroupAnnotation
	// Common is what holds for every topic: an empty Note or Link where topics differ,
	// Muted when all are.
	Common GroupAnnotation
}

// AllTopics stands for every topic that has no annotation of its own. It is no name of
// a topic.
const AllTopics = "*"

// GroupAnnotation is what operators say of the messages of an error group that are of
// one original topic, or of AllTopics.
type GroupAnnotation struct {
	Topic string
	Note  string
	Link  string // a ticket
	Muted bool   // nobody wants to be told of them
}

// Annotate sets Annotations, and Common of them. others says whether the group has
// topics without an annotation of their own.
func (g *ErrorGroup) Annotate(list []GroupAnnotation, others bool) {
	// AllTopics sorts before every name that a topic may have. No annotation is of the
	// unknown topic alone.
	slices.SortFunc(list, func(a, b GroupAnnotation) int { return strings.Compare(a.Topic, b.Topic) })
	g.Annotations = list
	all := GroupAnnotation{Topic: AllTopics}
	holding := list
	if len(list) > 0 && list[0].Topic == AllTopics {
		all, holding = list[0], list[1:]
	}
	if others || len(holding) == 0 {
		holding = append(slices.Clone(holding), all)
	}
	g.Common = holding[0]
	g.Common.Topic = ""
	for _, a := range holding[1:] {
		if a.Note != g.Common.Note {
			g.Common.Note = ""
		}
		if a.Link != g.Common.Link {
			g.Common.Link = ""
		}
		g.Common.Muted = g.Common.Muted && a.Muted
	}
}

// NewGroupAge is for how long a group is new.
const NewGroupAge = 24 * time.Hour

// New reports whether the group was not known before.
func (g ErrorGroup) New(now time.Time) bool { return now.Sub(g.FirstSeen) < NewGroupAge }

// Open is how many messages wait for something: PENDING, RETRYING or DEAD.
func (g ErrorGroup) Open() int64 { return g.Counts[Pending] + g.Counts[Retrying] + g.Counts[Dead] }

// Regressed reports whether it came back after all were resolved, and is still
// there.
func (g ErrorGroup) Regressed() bool { return !g.RegressedAt.IsZero() && g.Open() > 0 }

// TopicShare is how many messages are of an original topic.
type TopicShare struct {
	Topic    string
	Messages int64
}

// HourCount is how many messages arrived in the hour that begins at Hour.
type HourCount struct {
	Hour     time.Time
	Messages int64
}

// GroupNotFoundError names the error group that does not exist. Its kind is
// ErrNotFound.
type GroupNotFoundError struct{ ID uuid.UUID }

func (e *GroupNotFoundError) Error() string { return "error group not found: " + e.ID.String() }

// Is makes the error's kind ErrNotFound.
func (e *GroupNotFoundError) Is(target error) bool { return target == ErrNotFound }

// ShortTitle is the title on one line, of at most n runes.
func (f Fingerprint) ShortTitle(n int) string {
	line := strings.Join(strings.Fields(f.Title), " ")
	if runes := []rune(line); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return line
}
