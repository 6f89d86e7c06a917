package entity

import (
	"crypto/sha256"
	"fmt"
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
	Note        string           // an operator's
	Link        string           // an operator's: a ticket
	Muted       bool             // nobody wants to be told of it
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
