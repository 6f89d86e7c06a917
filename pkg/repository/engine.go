package repository

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// EngineFacts are the properties of a message that may change while the rest of its document in a search engine outside
// of the store stays the same, and those that say where the document is.
type EngineFacts struct {
	ID            uuid.UUID
	CreatedAt     time.Time
	OriginalTopic string
	DLQTopic      string
	Group         uuid.UUID
	Archived      bool
}

// EngineChange is a change of a message that the search engine does not have yet.
type EngineChange struct {
	Number    int64
	MessageID uuid.UUID
}

// EngineDay says which documents of one day, in UTC, the search index has, in a form that two indexes can compare.
type EngineDay struct {
	Day       time.Time
	Documents int64
	Sum       int64 // sum of EngineDigest over the ids of the day's messages that have a document
}

// EngineDigest returns a number of 24 bits for a message's id. The sum of many of them is exact also in floating point.
func EngineDigest(id uuid.UUID) int64 { return int64(id[13])<<16 | int64(id[14])<<8 | int64(id[15]) }

// EngineScope has the names of existing topics that the patterns of a filter match.
type EngineScope struct {
	Topics  *EngineTopics // topics that the filter's Topics match; nil when the filter has no Topics
	Visible *EngineTopics // topics that the filter's Visible matches; nil when all topics are visible
}

// EngineTopics has names of original topics and of dead-letter topics.
type EngineTopics struct {
	Originals   []string
	DeadLetters []string // the name "" stands for messages without a dead-letter topic
}

// ErrEngineAway is the kind of an EngineAwayError.
var ErrEngineAway = errors.New("the search engine does not answer")

// EngineAwayError reports that a search engine outside of the store did not answer, or refused to work. Its kinds are
// ErrEngineAway and entity.ErrUnavailable.
type EngineAwayError struct{ Cause error }

func (e *EngineAwayError) Error() string { return ErrEngineAway.Error() + ": " + e.Cause.Error() }

// Is makes the error's kinds ErrEngineAway and entity.ErrUnavailable.
func (e *EngineAwayError) Is(target error) bool {
	return target == ErrEngineAway || target == entity.ErrUnavailable
}

func (e *EngineAwayError) Unwrap() error { return e.Cause }
