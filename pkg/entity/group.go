package entity

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Fingerprint contains the texts that failures with the same cause have in common.
type Fingerprint struct {
	Class  string   // class of the innermost cause; "" when not known
	Title  string   // the innermost cause, without parts that differ between failures
	Frames []string // frames of the application's own code, innermost first; empty without a stack trace
	Rule   string   // name of the configured rule that matched; "" when no rule matched

	// Message is the whole error message without parts that differ between failures. It is set only when Title describes
	// the innermost cause alone. Message is part of the id and is not stored.
	Message string
}

// ID returns the id of the fingerprint's error group. Equal fingerprints always have the same id, on every machine.
func (f Fingerprint) ID() uuid.UUID {
	h := sha256.New()
	for _, part := range append([]string{f.Class, cmp.Or(f.Message, f.Title), f.Rule}, f.Frames...) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	var id uuid.UUID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80 // marks a UUID of version 8, which may have any content
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Unclassified returns the fingerprint of the error group for messages that are not classified yet: they arrived in a
// dead-letter topic whose messages have created too many new error groups. The indexer classifies messages of this
// error group later.
func Unclassified(dlqTopic string) Fingerprint {
	return Fingerprint{Title: "unclassified: too many new errors in " + dlqTopic, Rule: "unclassified"}
}

// ErrorGroup counts the messages of one fingerprint together.
type ErrorGroup struct {
	ID uuid.UUID
	Fingerprint
	FirstSeen time.Time // when the first message was stored, even if it is archived now
	LastSeen  time.Time // when the latest message was stored
	// RegressedAt is when a message last arrived while all stored messages of the group were RESOLVED; zero when that
	// never happened.
	RegressedAt time.Time
	Counts      map[Status]int64 // number of the error group's live messages by status
	Arrived     int64            // number of all messages of the error group that ever arrived
	Topics      []TopicShare     // live messages by original topic, the largest number first
	Trend       []HourCount      // arrivals by the hour in the requested time range, oldest first; hours without arrivals are left out
	Minutes     []MinuteCount    // arrivals by the minute since the requested minute, oldest first; minutes without arrivals are left out
	// CountedUntil is the time until which all arrivals are counted in Minutes; zero until counting starts.
	CountedUntil time.Time
	// Annotations are the operators' notes, links and mutes: first the annotation of AllTopics, if there is one, then
	// those of single topics, by the names of the topics.
	Annotations []GroupAnnotation
	// Common combines the annotations of all topics of the group. Its Note or Link is empty when the topics have different
	// notes or links, and Muted is true when all topics are muted.
	Common GroupAnnotation
}

// AllTopics stands for every topic without an annotation of its own. It cannot be the name of a topic.
const AllTopics = "*"

// GroupAnnotation is an operator's note, link and mute for an error group's messages of one original topic, or of
// AllTopics.
type GroupAnnotation struct {
	Topic string
	Note  string
	Link  string // address of a ticket about the failure
	Muted bool   // whether notifications about these messages are turned off
}

// Annotate sets Annotations and computes Common. The parameter others says whether the group also has topics without an
// annotation of their own.
func (g *ErrorGroup) Annotate(list []GroupAnnotation, others bool) {
	// The annotation of AllTopics becomes the first, because its name sorts before every valid topic name. Messages of
	// unknown origin have no annotation of their own.
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

// NewGroupAge is the time for which an error group counts as new.
const NewGroupAge = 24 * time.Hour

// New reports whether the group was first seen less than NewGroupAge ago.
func (g ErrorGroup) New(now time.Time) bool { return now.Sub(g.FirstSeen) < NewGroupAge }

// Open returns the number of messages of the group that are not RESOLVED.
func (g ErrorGroup) Open() int64 { return g.Counts[Pending] + g.Counts[Retrying] + g.Counts[Dead] }

// Regressed reports whether a message arrived while all messages of the group were RESOLVED, and some messages of the
// group are not RESOLVED now.
func (g ErrorGroup) Regressed() bool { return !g.RegressedAt.IsZero() && g.Open() > 0 }

// TopicShare is the number of messages of an original topic.
type TopicShare struct {
	Topic    string
	Messages int64
}

// HourCount is the number of messages that arrived in the hour that begins at Hour.
type HourCount struct {
	Hour     time.Time
	Messages int64
}

// MinuteCount is the number of messages that arrived in the minute that begins at Minute.
type MinuteCount struct {
	Minute   time.Time
	Messages int64
}

// GroupNotFoundError names the error group that does not exist. Its kind is ErrNotFound.
type GroupNotFoundError struct{ ID uuid.UUID }

func (e *GroupNotFoundError) Error() string { return "error group not found: " + e.ID.String() }

// Is makes the error's kind ErrNotFound.
func (e *GroupNotFoundError) Is(target error) bool { return target == ErrNotFound }

// ShortTitle returns the title on one line, cut to at most n runes.
func (f Fingerprint) ShortTitle(n int) string {
	line := strings.Join(strings.Fields(f.Title), " ")
	if runes := []rune(line); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return line
}
