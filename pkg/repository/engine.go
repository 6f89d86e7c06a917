package repository

import (
	"errors"
	"fmt"
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

// EngineState is the state of the documents in the search engine.
type EngineState struct {
	Version int64     // version of the documents
	Serves  bool      // whether the search engine answers searches; while it is filled for the first time, the store does
	Begun   bool      // whether the search engine was made empty for this version, so that its documents can be stored
	Filled  bool      // whether the messages that existed when the filling began have their documents
	Until   time.Time // messages that were created before this time have their documents; zero when that is unknown
}

// EngineRange is the range of those documents whose messages were created at From or later and before Before. The zero
// time is no limit.
type EngineRange struct{ From, Before time.Time }

// EngineSum says which documents of a range an index has, in a form that two indexes can compare.
type EngineSum struct {
	Documents int64
	Digests   int64 // sum of EngineDigest over the ids of their messages
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
type EngineAwayError struct {
	Cause  error
	Reason string // the cause, without addresses and texts of the search engine, for users
}

func (e *EngineAwayError) Error() string { return ErrEngineAway.Error() + ": " + e.Cause.Error() }

// Is makes the error's kinds ErrEngineAway and entity.ErrUnavailable.
func (e *EngineAwayError) Is(target error) bool {
	return target == ErrEngineAway || target == entity.ErrUnavailable
}

func (e *EngineAwayError) Unwrap() error { return e.Cause }

// ErrEngineLate is the kind of an EngineLateError.
var ErrEngineLate = errors.New("the search engine did not answer in time")

// EngineLateError reports that a search engine outside of the store did not answer within its time limit. Its kinds are
// ErrEngineLate, ErrEngineAway and entity.ErrUnavailable.
type EngineLateError struct{ Limit time.Duration }

func (e *EngineLateError) Error() string {
	return fmt.Sprintf("the search engine did not answer within %s: narrow the filter by topic, group or time, or try again", e.Limit)
}

// Is makes the error's kinds ErrEngineLate, ErrEngineAway and entity.ErrUnavailable.
func (e *EngineLateError) Is(target error) bool {
	return target == ErrEngineLate || target == ErrEngineAway || target == entity.ErrUnavailable
}
