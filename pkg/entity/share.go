package entity

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// Completion says whether the record to which a share group's dead letter points is stored with its message.
type Completion string

const (
	// CompletionWaiting: the record will be read from its topic.
	CompletionWaiting Completion = "waiting"
	// Completed: the record is stored with the message.
	Completed Completion = "completed"
	// SourceGone: the topic did not have the record any more.
	SourceGone Completion = "gone"
	// CompletionRefused: the record must not be read, or it cannot be read. For most reasons the worker tries again later.
	CompletionRefused Completion = "refused"
)

// ErrNoShareState is the kind of an error about a dead letter: its share group has no state for the partition that the
// dead letter names.
var ErrNoShareState = errors.New("the share group has no state for the partition")

// ShareRecord describes the record to which a dead letter of a share group points (KIP-1191), and whether that record
// is stored. Only the dead letter's headers say that a broker wrote it, and any producer may write such headers. The
// message's consumer group and origin identify the record. The broker may write several dead letters for one record;
// they are stored as one message.
type ShareRecord struct {
	State  Completion
	Reason string // why the record is not stored; "" for Completed
	// Duplicates is the number of further dead letters of the same record.
	Duplicates int
	// Digest identifies the key and the value of the dead letter itself. It is set only while the dead letter is being
	// stored and while its record is read; in all other messages it is nil.
	Digest []byte
}

// DeadLetterDigest returns the Digest of a dead letter with this key and value.
func DeadLetterDigest(key, value []byte) []byte {
	h := sha256.New()
	for _, part := range [][]byte{key, value} {
		h.Write(binary.BigEndian.AppendUint64(nil, lengthOf(part)))
		h.Write(part)
	}
	return h.Sum(nil)
}

// lengthOf returns a number that is different for each length of b, and different for nil and empty bytes.
func lengthOf(b []byte) uint64 {
	if b == nil {
		return 1
	}
	return uint64(len(b)) << 1
}

// ShareGroup is a share group whose configuration names a dead-letter topic, as operators see it.
type ShareGroup struct {
	Name            string
	DeadLetterTopic string
	CopiesRecords   bool     // whether the share group's dead letters contain the key and the value of their record
	Topics          []string // topics for which the share group has stored offsets
	TopicsKnown     bool     // whether the offsets of the share group could be read; only then Topics is complete
	Problems        []ShareProblem
}

// ShareProblem is a reason why the broker would lose dead letters of a share group. The broker reports such a loss only
// in its own log.
type ShareProblem struct {
	Code    string // code for metrics and clients
	Text    string // what is wrong, for people
	Command string // command that solves the problem; "" when there is none
}
