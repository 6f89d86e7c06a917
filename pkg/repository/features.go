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
// under the original topic that the message has at that time. A message that is deleted before its first document is
// stored is never counted. When a counted message changes or is deleted, the count stays the same.
type Activity interface {
	// Arrivals returns how many messages were stored in each time step, including empty steps, oldest first. Messages
	// of unknown origin are visible only to users who see all topics, and belong to no Topic. For a topic that does not
	// exist or is not visible, all counts are zero.
	Arrivals(ctx context.Context, q ArrivalsQuery) (Arrivals, error)
}

// ArrivalsQuery selects the steps from Since on that begin before Until. Step is ArrivalsMinute, FineArrivalsStep or a
// multiple of ArrivalsStep, and Since is a multiple of Step since 1970. For each of the three step lengths, counts
// older than its life (ArrivalsMinuteLife, FineArrivalsLife, ArrivalsLife) may be deleted, and a message that was older
// when its document was stored is not counted.
type ArrivalsQuery struct {
	Visible *entity.TopicPatterns // nil for all topics
	Topic   string                // only this original topic; "" for all
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

// Kept returns the step length of those stored counts that are added up for the query.
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

// Arrivals contains counts. Until is what IndexedUntil returned at the same moment: messages that were stored later may
// not be counted yet.
type Arrivals struct {
	Points []ArrivalsPoint
	Until  time.Time
}

// ArrivalsPoint is the count of the step that begins at At. Returned is the number of those arrived messages that are
// returns.
type ArrivalsPoint struct {
	At       time.Time
	Arrived  int64
	Returned int64
}

// Empty returns the points of all steps of the query, in UTC, with all counts zero.
func (q ArrivalsQuery) Empty() []ArrivalsPoint {
	var points []ArrivalsPoint
	for at := q.Since.UTC(); at.Before(q.Until); at = at.Add(q.Step) {
		points = append(points, ArrivalsPoint{At: at})
	}
	return points
}

// Add adds counts to the point of the step that contains the time at, if there is such a point.
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
	// TopicSummaries returns a summary of each visible original topic that has messages, in the byte order of the
	// topics' names. Messages of unknown origin have a summary with the name "", which counts only those in visible
	// dead-letter topics.
	TopicSummaries(ctx context.Context, q TopicQuery) ([]TopicSummary, error)

	// TopicTotals counts the messages of each named original topic that has messages, the messages of unknown origin
	// (as topic ""), and the messages of all other topics together. If names is nil, it uses the names of the first
	// MaxTotals topics in alphabetical order.
	TopicTotals(ctx context.Context, names []string) ([]TopicTotal, error)

	// IngestPositions returns the next offset of each partition of the dead-letter topics, in the order of topic and
	// partition. Only the present incarnation of a topic is included.
	IngestPositions(ctx context.Context) ([]IngestPosition, error)
}

// TopicQuery selects a part of the original topics.
type TopicQuery struct {
	Visible *entity.TopicPatterns // nil for all topics
	After   *string               // only topics whose names come after this name; nil to begin with the first topic
	Limit   int                   // 0 for no limit
}

// TopicSummary describes the messages of an original topic.
type TopicSummary struct {
	Topic          string
	DLQTopics      []string // dead-letter topics of the topic's messages, by name
	Counts         map[entity.Status]int64
	OldestPending  time.Time        // created_at of the oldest PENDING message; zero when there is none
	LastSeen       time.Time        // created_at of the topic's newest message
	ConsumerGroups []string         // consumer groups that failed on records of the topic or are configured for it, sorted by name, at most MaxTopicGroups
	AutoPause      entity.AutoPause // the present pause of automatic retry; zero while there is none
}

// MaxTotals is the maximum number of topics that TopicTotals names when it gets no names. All further topics have one
// total together.
const MaxTotals = 1000

// TopicTotal counts the messages of an original topic, or of all other topics.
type TopicTotal struct {
	Topic         string
	Others        bool // whether the counts are those of all topics together that the list does not name
	Counts        map[entity.Status]int64
	OldestPending time.Time // created_at of the oldest PENDING message; zero when there is none
}

// IngestPosition is the next offset to store for one partition of a dead-letter topic.
type IngestPosition struct {
	Topic     string
	TopicID   string // Kafka's topic id; "" when the broker gives none
	Partition int32
	Next      int64
}

// Compare orders positions by topic and partition.
func (p IngestPosition) Compare(q IngestPosition) int {
	return cmp.Or(strings.Compare(p.Topic, q.Topic), cmp.Compare(p.Partition, q.Partition))
}

// Outcomes tracks whether consumers processed the records that were sent. The outcome of a published message is
// consumed when its consumer group, or if that is not known a group of ConfigureGroups, has committed an offset after
// that of the sent record. It stays published while a share group's dead letter of the sent record is stored. The store
// computes this whenever the message is read.
type Outcomes interface {
	// SaveConsumerGroups stores which consumer groups failed on records of topics. The committed offsets of these
	// consumer groups show the outcomes of records that are sent to these topics.
	SaveConsumerGroups(ctx context.Context, groups []TopicGroup) error

	// WatchedGroups returns, for the original topics that have RESOLVED messages, the consumer groups that
	// SaveConsumerGroups or ConfigureGroups stored.
	WatchedGroups(ctx context.Context) ([]TopicGroup, error)

	// ConfigureGroups sets the consumer groups of topics whose messages name no consumer group. It replaces all earlier
	// settings.
	ConfigureGroups(ctx context.Context, groups []TopicGroup) error

	// SaveCommitted stores committed offsets. An offset that is not higher than the stored one of the same consumer
	// group, topic id and partition changes nothing.
	SaveCommitted(ctx context.Context, offsets []Committed) error
}

// MaxTopicGroups is the number of consumer groups of a topic from which on SaveConsumerGroups adds no further one.
// Their names come from records, so any producer could add more.
const MaxTopicGroups = 100

// TopicGroup is a topic and a consumer group that reads it.
type TopicGroup struct{ Topic, Group string }

// Committed is the offset that a consumer group has committed for a partition: the next offset that it will read.
type Committed struct {
	TopicGroup
	TopicID   string // Kafka's id of the topic's present incarnation
	Partition int32
	Offset    int64
}

// Audit reads the audit trail. The comment of Core says for which changes it has entries.
type Audit interface {
	// Trail returns entries, the newest first.
	Trail(ctx context.Context, q TrailQuery) ([]entity.AuditEntry, error)
}

// Operations remembers which operations have made changes. An operation is what one request does; see
// entity.AuditInfo.Operation.
type Operations interface {
	// Performed reports whether the operation has made a change.
	Performed(ctx context.Context, operation uuid.UUID) (bool, error)

	// Record appends an audit entry for an event that must be in the audit trail although it changes nothing in the
	// store. The store sets ID and At. When the entry's cause names an operation, only one entry is stored for each
	// operation, action and object.
	Record(ctx context.Context, entry entity.AuditEntry) error
}

// TrailQuery selects entries of the audit trail. An entry must match all fields that are set.
type TrailQuery struct {
	ObjectID  uuid.UUID
	Kind      entity.Kind
	Actor     string
	Action    entity.Action
	RequestID string
	After     time.Time // only audit entries of this time or later
	Until     time.Time // only audit entries before this time; zero for no end
	ActorKind entity.ActorKind
	Before    int64 // only entries with a lower id, which are older; 0 for all

	// ByRequest returns only the first entry of each request (see entity.AuditInfo.Call) that matches the other fields
	// except After, Until and Before, if it also matches these three. It has the number of the request's entries; when
	// Visible is set, only visible entries are counted, and only those of ObjectID if it is set. For a request that
	// created a redrive, this is the entry of the creation; a filter by the action of the redrive finds it too. The
	// entries of the redrive's messages are returned only when ObjectID or RequestID is set.
	ByRequest bool
	// Visible leaves out entries that name topics of which none is visible; nil leaves out no entry.
	Visible *entity.TopicPatterns
	Limit   int
}

// Mappings stores the mapping: the rules that assign original topics to dead letters.
type Mappings interface {
	// Mapping returns the mapping rules.
	Mapping(ctx context.Context) (entity.Mapping, error)

	// ReplaceMapping replaces the rules if their version is still expected; otherwise the error is a
	// *entity.MappingConflictError. The audit entry contains both versions and, as LastError, the RulesText of the new
	// rules.
	ReplaceMapping(ctx context.Context, rules []entity.TopicRule, expected int64, cause entity.AuditInfo) (entity.Mapping, error)

	// Unmapped returns the visible dead-letter topics that have messages of unknown origin, the topic with the most
	// such messages first.
	Unmapped(ctx context.Context, visible *entity.TopicPatterns) ([]UnmappedTopic, error)
}

// Redirects stores redirects: original topics whose replays are sent to another topic.
type Redirects interface {
	// Redirects returns all redirects in the byte order of their topics' names.
	Redirects(ctx context.Context) ([]entity.Redirect, error)

	// RedirectTargets returns the target of each given topic that has a redirect, by the topic's name.
	RedirectTargets(ctx context.Context, topics []string) (map[string]string, error)

	// SaveRedirect creates or replaces the redirect of a topic, and stores with it the actor and the reason of the
	// cause. If expected is not nil, it must be the version of the present redirect, or 0 when there is none; otherwise
	// the error is a *entity.ChangedError. The audit entry contains the earlier and the new target.
	SaveRedirect(ctx context.Context, topic, target string, expected *int64, cause entity.AuditInfo) (entity.Redirect, error)

	// DeleteRedirect deletes the redirect of a topic and returns it. When the topic has no redirect, the error is a
	// *entity.RedirectNotFoundError; when expected is not nil and not the version of the redirect, a *entity.ChangedError.
	DeleteRedirect(ctx context.Context, topic string, expected *int64, cause entity.AuditInfo) (entity.Redirect, error)
}

// UnmappedTopic is a dead-letter topic with messages of unknown origin. Its name is "" for messages that were inserted
// by SQL.
type UnmappedTopic struct {
	DLQTopic string
	Messages int64
}

// Views stores saved views: filters of lists of messages, with a name.
type Views interface {
	// Views returns the views of the owner and after them all shared views, both in the byte order of their names.
	Views(ctx context.Context, owner string) ([]entity.View, error)

	// SaveView stores a new view when v.Version is 0. Otherwise it changes the list and the query of the view with this
	// id and version. If the view does not exist or has another version, or if the name of a new view is taken, the
	// error is an *entity.ViewConflictError. Changes of shared views are written to the audit trail.
	SaveView(ctx context.Context, v entity.View, cause entity.AuditInfo) (entity.View, error)

	// DeleteView deletes a view. It returns no error when the view does not exist.
	DeleteView(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error
}

// maxRulesText is the maximum length of the rules in the audit trail, in bytes.
const maxRulesText = 8 << 10

// RulesText formats rules for the audit trail, one on each line. When the rules need more than maxRulesText bytes, it
// leaves out the last rules and says how many they are.
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

// ArchiveRuns stores the runs of the archiver and their results. The process of the archiver usually ends after a run,
// so other programs can read the result only from the store.
type ArchiveRuns interface {
	// KeepArchiveRun stores a run, or updates the result, the counts and the error of the run with the same id.
	// StartedAt and FinishedAt are ignored, because the store's clock sets them. StartedAt becomes the time of the
	// first call; if the run has ended by then, StartedAt becomes that time minus Took. FinishedAt becomes the time of
	// the first call whose result is not ArchiveRunning; later calls change nothing.
	KeepArchiveRun(ctx context.Context, run ArchiveRun) error

	// LatestArchiveRuns returns two runs, which may be the same: the run that started last, and the complete run that
	// finished last. Each is nil when there is no such run.
	LatestArchiveRuns(ctx context.Context) (last, complete *ArchiveRun, err error)
}

// ArchiveRun is one run of the archiver.
type ArchiveRun struct {
	ID         uuid.UUID
	Result     ArchiveResult
	StartedAt  time.Time
	FinishedAt time.Time     // zero while the run has not ended
	Took       time.Duration // time that the run took, set by the caller of KeepArchiveRun when the run has ended; LatestArchiveRuns returns 0
	Moved      int64         // number of messages moved to the archive; may be too low when the connection to the store was lost
	Purged     int64         // number of messages deleted from the archive
	Bookkept   int64         // number of deleted rows that are not messages, such as old drafts and idempotency keys
	Error      string        // why a step failed; only the first MaxArchiveError bytes are stored
}

// ArchiveResult is the result of a run of the archiver. No other results exist.
type ArchiveResult string

// The results of runs.
const (
	ArchiveRunning    ArchiveResult = "running"    // the run has not ended, or its process was killed
	ArchiveComplete   ArchiveResult = "complete"   // every step succeeded
	ArchiveIncomplete ArchiveResult = "incomplete" // a step failed
	ArchiveStopped    ArchiveResult = "stopped"    // the archiver was asked to stop
)

// ArchiveResults lists every result.
func ArchiveResults() []ArchiveResult {
	return []ArchiveResult{ArchiveRunning, ArchiveComplete, ArchiveIncomplete, ArchiveStopped}
}

// MaxArchiveError is the maximum number of bytes of a run's error that are stored.
const MaxArchiveError = 1000

// BoundArchiveError shortens a run's error to MaxArchiveError.
func BoundArchiveError(text string) string { return bound(text, MaxArchiveError) }

// ArchiveRunLife is the minimum time for which runs are kept; the last complete run is kept forever.
const ArchiveRunLife = 90 * 24 * time.Hour

// QuarantineRest is the time that a record in quarantine waits for its next try, unless WakeQuarantined or
// RetryQuarantined makes it due earlier.
const QuarantineRest = 10 * time.Minute

// Quarantine keeps the records that Store could not store as messages: one row for each (incarnation, partition,
// offset). When no record in quarantine has the given id, the methods return a *entity.QuarantineNotFoundError.
type Quarantine interface {
	// Quarantined returns records, the latest first. A key, a value or a record's headers of more than ListValueLimit
	// bytes are left out.
	Quarantined(ctx context.Context, q QuarantineQuery) ([]entity.Quarantined, error)

	// QuarantinedRecord returns one record, with the same limits as Quarantined.
	QuarantinedRecord(ctx context.Context, id uuid.UUID) (entity.Quarantined, error)

	// QuarantineCounts returns the number of quarantined records of each dead-letter topic.
	QuarantineCounts(ctx context.Context) ([]QuarantineCount, error)

	// WakeQuarantined makes all records in quarantine due, so that they are tried again now.
	WakeQuarantined(ctx context.Context) error

	// RetryQuarantined makes one record due, so that it is tried again now.
	RetryQuarantined(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Quarantined, error)

	// TakeQuarantined begins the next try of a record that is due, and returns the whole record; nil when no record is
	// due. Until QuarantineRest is over, no other call returns the same record, unless the record was made due again.
	TakeQuarantined(ctx context.Context) (*entity.Quarantined, error)

	// Release stores a batch as Store does. The only message of the batch is made from a record in quarantine, and has
	// the id and the source of that record. In the same step the record leaves quarantine. If the store refuses the
	// message again, the record stays in quarantine and the error is entity.ErrRefused. When the record is not in
	// quarantine any more, Release stores nothing.
	Release(ctx context.Context, batch Batch) (Stored, error)

	// DeleteQuarantined deletes a record from quarantine; it is not stored anywhere else.
	DeleteQuarantined(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error
}

// QuarantineQuery selects quarantined records.
type QuarantineQuery struct {
	Topic   string                // dead-letter topic; "" for any
	Visible *entity.TopicPatterns // only dead-letter topics that match; nil for all
	Before  Cursor                // only records after this cursor in the order of Quarantined; the zero Cursor for all
	Limit   int
}

// QuarantineCount is the number of quarantined records of a dead-letter topic.
type QuarantineCount struct {
	Topic   string
	Records int64
}
