package repository

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Activity counts arrivals over time. A message is counted once, when StoreDocuments first stores a document of it,
// under the original topic that it has then. A message that is deleted earlier is never counted; later changes of a
// message do not change the count.
type Activity interface {
	// Arrivals returns how many messages were stored in each time step, including empty steps, oldest first. Messages
	// of unknown origin are visible only to users who see all topics, and belong to no Topic. A topic that does not
	// exist or is not visible has zero in every step.
	Arrivals(ctx context.Context, q ArrivalsQuery) (Arrivals, error)
}

// ArrivalsQuery selects the steps from Since on that begin before Until. Step is ArrivalsMinute, FineArrivalsStep or a
// multiple of ArrivalsStep, and Since is a multiple of Step since 1970. Counts older than ArrivalsMinuteLife,
// FineArrivalsLife or ArrivalsLife may be deleted; a message already older than that when its document was made was
// never counted.
type ArrivalsQuery struct {
	Visible *entity.TopicPatterns // nil: all topics
	Topic   string                // only this original topic; "": all
	Since   time.Time
	Until   time.Time
	Step    time.Duration
}

// The step lengths of the counts, and the minimum time for which the counts of each are kept.
const (
	ArrivalsMinute     = time.Minute
	ArrivalsMinuteLife = 24 * time.Hour

	FineArrivalsStep = 5 * time.Minute
	FineArrivalsLife = 2 * time.Hour

	ArrivalsStep = time.Hour
	ArrivalsLife = 8 * 24 * time.Hour
)

// Kept returns the step length of the counts that the query adds up.
func (q ArrivalsQuery) Kept() time.Duration {
	switch {
	case q.Step < FineArrivalsStep:
		return ArrivalsMinute
	case q.Step < ArrivalsStep:
		return FineArrivalsStep
	default:
		return ArrivalsStep
	}
}

// Arrivals are the counts and IndexedUntil as of the same moment: messages stored after it may not be counted yet.
type Arrivals struct {
	Points []ArrivalsPoint
	Until  time.Time
}

// ArrivalsPoint is the count of a step that begins at At. Returned is the part of Arrived that came back after a
// replay.
type ArrivalsPoint struct {
	At       time.Time
	Arrived  int64
	Returned int64
}

// Empty returns the points of q with zero counts, in UTC.
func (q ArrivalsQuery) Empty() []ArrivalsPoint {
	var points []ArrivalsPoint
	for at := q.Since.UTC(); at.Before(q.Until); at = at.Add(q.Step) {
		points = append(points, ArrivalsPoint{At: at})
	}
	return points
}

// Add adds counts to the point that contains the time at, if there is one.
func (q ArrivalsQuery) Add(points []ArrivalsPoint, at time.Time, arrived, returned int64) {
	if at.Before(q.Since) || !at.Before(q.Until) {
		return
	}
	p := &points[at.Sub(q.Since)/q.Step]
	p.Arrived += arrived
	p.Returned += returned
}

// Topics describes the original topics of the stored messages.
type Topics interface {
	// TopicSummaries returns the visible original topics that have messages, in byte order of their names. The name
	// "" is used for messages of unknown origin, of which only those in visible dead-letter topics are counted.
	TopicSummaries(ctx context.Context, q TopicQuery) ([]TopicSummary, error)

	// TopicTotals counts the messages of each named original topic that has any, those without an original topic as
	// "", and those of all other topics together. If names is nil, the first MaxTotals topics are named.
	TopicTotals(ctx context.Context, names []string) ([]TopicTotal, error)

	// IngestPositions returns the next offset of each partition of the dead-letter topics, of their present
	// incarnations only, by topic and partition.
	IngestPositions(ctx context.Context) ([]IngestPosition, error)
}

// TopicQuery selects a part of the original topics.
type TopicQuery struct {
	Visible *entity.TopicPatterns // nil: all topics
	After   *string               // only topics whose names follow this one; nil: from the first
	Limit   int                   // 0: all
}

// TopicSummary describes the messages of an original topic.
type TopicSummary struct {
	Topic          string
	DLQTopics      []string // dead-letter topics of its messages, by name
	Counts         map[entity.Status]int64
	OldestPending  time.Time // created_at; zero when none is PENDING
	LastSeen       time.Time // created_at of the newest message
	ConsumerGroups []string  // groups that failed on it or are configured for it, at most MaxTopicGroups, by name
}

// MaxTotals is the maximum number of topics that TopicTotals names when it gets no names.
const MaxTotals = 1000

// TopicTotal counts the messages of an original topic, or of all other topics.
type TopicTotal struct {
	Topic         string
	Others        bool // of all topics that are not named
	Counts        map[entity.Status]int64
	OldestPending time.Time // created_at; zero when none is PENDING
}

// IngestPosition is the next offset to store of a dead-letter partition.
type IngestPosition struct {
	Topic     string
	TopicID   string // Kafka's; "" where there is none
	Partition int32
	Next      int64
}

// Compare orders positions by topic and partition.
func (p IngestPosition) Compare(q IngestPosition) int {
	return cmp.Or(strings.Compare(p.Topic, q.Topic), cmp.Compare(p.Partition, q.Partition))
}

// Outcomes tracks whether consumers processed the records that were sent. The outcome of a message is consumed when
// the committed offset of its consumer group has passed its record; it is derived when the message is read and never
// goes back.
type Outcomes interface {
	// SaveConsumerGroups records which consumer groups failed on records of topics; the committed offsets of these groups
	// give the outcomes of records that are sent there.
	SaveConsumerGroups(ctx context.Context, groups []TopicGroup) error

	// WatchedGroups returns the consumer groups, noted or configured, of topics that have messages which were sent.
	WatchedGroups(ctx context.Context) ([]TopicGroup, error)

	// ConfigureGroups sets the consumer group of topics whose messages name none, and replaces earlier settings.
	ConfigureGroups(ctx context.Context, groups []TopicGroup) error

	// SaveCommitted stores committed offsets. An offset that is lower than the known one for the same topic id
	// changes nothing.
	SaveCommitted(ctx context.Context, offsets []Committed) error
}

// MaxTopicGroups is how many consumer groups are stored for a topic: their names come from records, which any
// producer may write.
const MaxTopicGroups = 100

// TopicGroup is a consumer group of a topic.
type TopicGroup struct{ Topic, Group string }

// Committed is the offset that a consumer group has committed for a partition: the next offset that it will read.
type Committed struct {
	TopicGroup
	TopicID   string // Kafka's, of the topic's present incarnation
	Partition int32
	Offset    int64
}

// Audit is the trail of all changes.
type Audit interface {
	// Trail returns entries, the newest first.
	Trail(ctx context.Context, q TrailQuery) ([]entity.AuditEntry, error)
}

// Operations are the changes that were made, identified by entity.AuditInfo.Operation.
type Operations interface {
	// Performed reports whether a change with that operation was made.
	Performed(ctx context.Context, operation uuid.UUID) (bool, error)

	// Record appends an audit entry for an operation that changes nothing but must be known. The store sets ID and
	// At. A cause with an operation is recorded once for each action and object.
	Record(ctx context.Context, entry entity.AuditEntry) error
}

// TrailQuery selects entries of the audit trail. An entry must match all fields that are set.
type TrailQuery struct {
	ObjectID  uuid.UUID
	Kind      entity.Kind
	Actor     string
	Action    entity.Action
	RequestID string
	After     time.Time // inclusive
	Until     time.Time // exclusive; zero: no end
	ActorKind entity.ActorKind
	Before    int64 // only entries with a lower id; 0: all

	// ByRequest returns only the first of the matching entries of each request (entity.AuditInfo.Call), with its number
	// of entries; with Visible, that of the ObjectID. A redrive is represented by its creation, which also matches the
	// redrive's own action; the entries of its messages are returned only with an ObjectID or a RequestID.
	ByRequest bool
	// Visible leaves out entries that name topics if none of these topics matches; nil leaves out none.
	Visible *entity.TopicPatterns
	Limit   int
}

// Mappings are the rules that assign dead letters to original topics.
type Mappings interface {
	// Mapping returns the mapping rules.
	Mapping(ctx context.Context) (entity.Mapping, error)

	// ReplaceMapping sets the rules if expected is still their version, else the error is a
	// *entity.MappingConflictError. The audit entry has both versions, and RulesText of the new rules as LastError.
	ReplaceMapping(ctx context.Context, rules []entity.TopicRule, expected int64, cause entity.AuditInfo) (entity.Mapping, error)

	// Unmapped returns the visible dead-letter topics that have messages of unknown origin, those with the most
	// messages first.
	Unmapped(ctx context.Context, visible *entity.TopicPatterns) ([]UnmappedTopic, error)
}

// Redirects are the original topics whose replays go to another topic.
type Redirects interface {
	// Redirects returns all redirects, by the names of their topics in byte order.
	Redirects(ctx context.Context) ([]entity.Redirect, error)

	// RedirectTargets returns the targets of those of the topics that are redirected.
	RedirectTargets(ctx context.Context, topics []string) (map[string]string, error)

	// SaveRedirect creates or replaces the redirect of a topic, by the cause's actor and for its reason. If expected is
	// given and is not the version of the present redirect, 0 for none, the error is a *entity.ChangedError. The audit
	// entry has the earlier and the new target.
	SaveRedirect(ctx context.Context, topic, target string, expected *int64, cause entity.AuditInfo) (entity.Redirect, error)

	// DeleteRedirect deletes the redirect of a topic and returns it. For a topic without one the error is a
	// *entity.RedirectNotFoundError, for another version than expected a *entity.ChangedError.
	DeleteRedirect(ctx context.Context, topic string, expected *int64, cause entity.AuditInfo) (entity.Redirect, error)
}

// UnmappedTopic is a dead-letter topic with messages of unknown origin; "" for rows that were inserted by SQL.
type UnmappedTopic struct {
	DLQTopic string
	Messages int64
}

// Views are the saved filters of lists of messages.
type Views interface {
	// Views returns the owner's own views and then all shared ones, each in byte order of their names.
	Views(ctx context.Context, owner string) ([]entity.View, error)

	// SaveView stores a view whose Version is 0, or changes the list and the query of the view with that id and
	// Version; if it has another version, or the name is taken, the error is an *entity.ViewConflictError. Changes of
	// shared views are in the audit trail.
	SaveView(ctx context.Context, v entity.View, cause entity.AuditInfo) (entity.View, error)

	// DeleteView deletes a view; it is no error if it does not exist.
	DeleteView(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error
}

// maxRulesText is the maximum length of the rules in the audit trail, in bytes.
const maxRulesText = 8 << 10

// RulesText formats rules for the audit trail, one a line, and cuts them off at maxRulesText.
func RulesText(rules []entity.TopicRule) string {
	var text strings.Builder
	for i, r := range rules {
		line := r.Pattern + " -> " + r.Original + "\n"
		if text.Len()+len(line) > maxRulesText {
			fmt.Fprintf(&text, "... and %d more", len(rules)-i)
			break
		}
		text.WriteString(line)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// ArchiveRuns stores the runs of the archiver and their results. The archiver ends after a run and cannot be asked,
// so it stores the result here.
type ArchiveRuns interface {
	// KeepArchiveRun stores a run, or updates the result, the counts and the error of the run with the same id.
	// StartedAt and FinishedAt are ignored: a run starts when it is first stored, or, if it has ended by then, Took
	// earlier. A run ends when its result is first not ArchiveRunning; later calls change nothing.
	KeepArchiveRun(ctx context.Context, run ArchiveRun) error

	// LatestArchiveRuns returns the run that started last and the complete run that finished last, which may be the
	// same run; nil where there is none.
	LatestArchiveRuns(ctx context.Context) (last, complete *ArchiveRun, err error)
}

// ArchiveRun is one run of the archiver.
type ArchiveRun struct {
	ID         uuid.UUID
	Result     ArchiveResult
	StartedAt  time.Time
	FinishedAt time.Time     // zero while it runs
	Took       time.Duration // set only for KeepArchiveRun, of a run that ended; 0 in LatestArchiveRuns
	Moved      int64         // messages moved to the archive; a minimum when the error was a lost connection
	Purged     int64         // messages deleted from the archive
	Bookkept   int64         // rows of other kinds that were deleted
	Error      string        // the first MaxArchiveError bytes are stored
}

// ArchiveResult is the result of a run. The set is closed.
type ArchiveResult string

// The results of runs.
const (
	ArchiveRunning    ArchiveResult = "running"    // not ended, or killed
	ArchiveComplete   ArchiveResult = "complete"   // every step was done
	ArchiveIncomplete ArchiveResult = "incomplete" // a step failed
	ArchiveStopped    ArchiveResult = "stopped"    // it was asked to stop
)

// ArchiveResults lists every result.
func ArchiveResults() []ArchiveResult {
	return []ArchiveResult{ArchiveRunning, ArchiveComplete, ArchiveIncomplete, ArchiveStopped}
}

// MaxArchiveError is how many bytes of a run's error are stored.
const MaxArchiveError = 1000

// BoundArchiveError shortens a run's error to the part that stores keep.
func BoundArchiveError(text string) string { return bound(text, MaxArchiveError) }

// ArchiveRunLife is the minimum time for which runs are kept; the last complete run is kept for ever.
const ArchiveRunLife = 90 * 24 * time.Hour

// QuarantineRest is how long a quarantined record waits for its next try.
const QuarantineRest = 10 * time.Minute

// Quarantine keeps the records that Store could not store as messages: one row for each (incarnation, partition,
// offset). Ids that do not exist answer *entity.QuarantineNotFoundError.
type Quarantine interface {
	// Quarantined returns records, the latest first, without keys, values and headers
	// longer than ListValueLimit.
	Quarantined(ctx context.Context, q QuarantineQuery) ([]entity.Quarantined, error)

	// QuarantinedRecord returns one record as Quarantined does.
	QuarantinedRecord(ctx context.Context, id uuid.UUID) (entity.Quarantined, error)

	// QuarantineCounts returns the number of quarantined records of each dead-letter topic.
	QuarantineCounts(ctx context.Context) ([]QuarantineCount, error)

	// WakeQuarantined makes all quarantined records due.
	WakeQuarantined(ctx context.Context) error

	// RetryQuarantined makes a record due.
	RetryQuarantined(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Quarantined, error)

	// TakeQuarantined returns a complete record that is due and begins its next try; nil when none is due. No other
	// caller gets the record before QuarantineRest is over.
	TakeQuarantined(ctx context.Context) (*entity.Quarantined, error)

	// Release stores a batch with the one message of a quarantined record, which has the record's id and source, as
	// Store does, and ends the quarantine in the same step. If the store refuses the message again, the record stays
	// in quarantine and the error is entity.ErrRefused. For a record that is not in quarantine nothing is stored.
	Release(ctx context.Context, batch Batch) (Stored, error)

	// DeleteQuarantined deletes a record for good.
	DeleteQuarantined(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error
}

// QuarantineQuery selects quarantined records.
type QuarantineQuery struct {
	Topic   string                // dead-letter topic; "" for any
	Visible *entity.TopicPatterns // of dead-letter topics; nil: all
	Before  Cursor                // by first try and id; zero: from the latest
	Limit   int
}

// QuarantineCount is the number of quarantined records of a dead-letter topic.
type QuarantineCount struct {
	Topic   string
	Records int64
}
