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

// Activity is how much comes in over time. A message is counted once, in the step in which
// StoreDocuments first stores a document of it, for the original topic that it has then.
// One that is deleted before is never counted; later changes do not matter.
type Activity interface {
	// Arrivals returns how many messages were stored in each step of the time, also none,
	// oldest first. Messages of unknown origin are visible to those who see all topics, and
	// are of no Topic. A topic that does not exist or is not visible has points of nothing.
	Arrivals(ctx context.Context, q ArrivalsQuery) (Arrivals, error)
}

// ArrivalsQuery asks for the steps from Since on that begin before Until. Step is
// FineArrivalsStep, or a multiple of ArrivalsStep, and Since one of Step, counted from
// 1970 on. What is older than FineArrivalsLife, or ArrivalsLife, may be forgotten, and
// what was older when its document was made was never counted.
type ArrivalsQuery struct {
	Visible *entity.TopicPatterns // nil: all topics
	Topic   string                // only this original topic; "": all
	Since   time.Time
	Until   time.Time
	Step    time.Duration
}

// The steps that are told apart, and for how long it is kept at least how much came
// in each.
const (
	FineArrivalsStep = 5 * time.Minute
	FineArrivalsLife = 2 * time.Hour

	ArrivalsStep = time.Hour
	ArrivalsLife = 8 * 24 * time.Hour
)

// Fine reports whether the query is for steps that are shorter than ArrivalsStep.
func (q ArrivalsQuery) Fine() bool { return q.Step < ArrivalsStep }

// Arrivals is what came, and CataloguedUntil of the same moment: what came later may
// not be counted yet.
type Arrivals struct {
	Points []ArrivalsPoint
	Until  time.Time
}

// ArrivalsPoint is a step that begins at At. Returned are those of Arrived that came
// back from a replay.
type ArrivalsPoint struct {
	At       time.Time
	Arrived  int64
	Returned int64
}

// Empty returns the points that q asks for, with nothing in them, in UTC.
func (q ArrivalsQuery) Empty() []ArrivalsPoint {
	var points []ArrivalsPoint
	for at := q.Since.UTC(); at.Before(q.Until); at = at.Add(q.Step) {
		points = append(points, ArrivalsPoint{At: at})
	}
	return points
}

// Add puts what came at a moment into the point that it belongs to, if there is one.
func (q ArrivalsQuery) Add(points []ArrivalsPoint, at time.Time, arrived, returned int64) {
	if at.Before(q.Since) || !at.Before(q.Until) {
		return
	}
	p := &points[at.Sub(q.Since)/q.Step]
	p.Arrived += arrived
	p.Returned += returned
}

// Topics are the original topics of the messages that are there.
type Topics interface {
	// TopicSummaries returns the visible original topics that have messages, in the
	// order of the bytes of their names; "" stands for messages of unknown origin, of
	// which those of visible dead-letter topics count.
	TopicSummaries(ctx context.Context, q TopicQuery) ([]TopicSummary, error)

	// TopicTotals counts the messages of each of the named original topics that has some,
	// of those without one as "", and of all other topics together. nil names the first
	// MaxTotals of them.
	TopicTotals(ctx context.Context, names []string) ([]TopicTotal, error)

	// IngestPositions returns how far each partition of the dead-letter topics has
	// been stored, of their present lives only, by topic and partition.
	IngestPositions(ctx context.Context) ([]IngestPosition, error)
}

// TopicQuery asks for a part of the original topics.
type TopicQuery struct {
	Visible *entity.TopicPatterns // nil: all topics
	After   *string               // only topics whose names follow this one; nil: from the first
	Limit   int                   // 0: all
}

// TopicSummary is what there is of an original topic.
type TopicSummary struct {
	Topic          string
	DLQTopics      []string // where its messages came from, by name
	Counts         map[entity.Status]int64
	OldestPending  time.Time // created_at; zero when none is PENDING
	LastSeen       time.Time // created_at of the newest message
	ConsumerGroups []string  // that failed on it or are configured for it, at most MaxTopicGroups, by name
}

// MaxTotals is how many topics TopicTotals names by itself.
const MaxTotals = 1000

// TopicTotal is how many messages of an original topic, or of all others, there are.
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

// Outcomes say what became of records that were sent. A message's outcome is
// consumed when the offset that its consumer group committed has passed its
// record; it is derived when the message is read and never goes back.
type Outcomes interface {
	// NoteGroups remembers that consumer groups failed on records of topics; their
	// committed offsets tell what became of what is sent there.
	NoteGroups(ctx context.Context, groups []TopicGroup) error

	// WatchedGroups returns the consumer groups and topics that have messages which
	// were sent.
	WatchedGroups(ctx context.Context) ([]TopicGroup, error)

	// ConfigureGroups says which group tells of topics whose messages name none, in
	// place of what was said before.
	ConfigureGroups(ctx context.Context, groups []TopicGroup) error

	// NoteCommitted stores committed offsets. An offset that is lower than the one
	// known for the same life of a topic changes nothing.
	NoteCommitted(ctx context.Context, offsets []Committed) error
}

// MaxTopicGroups is how many consumer groups are noted for a topic: the names are text of
// records, which anyone may write.
const MaxTopicGroups = 100

// TopicGroup is a consumer group of a topic.
type TopicGroup struct{ Topic, Group string }

// Committed is the offset that a group has committed for a partition: the next
// one it will read.
type Committed struct {
	TopicGroup
	TopicID   string // Kafka's, of the topic's present life
	Partition int32
	Offset    int64
}

// Audit is the trail of all changes.
type Audit interface {
	// Trail returns entries, the newest first.
	Trail(ctx context.Context, q TrailQuery) ([]entity.AuditEntry, error)
}

// Operations are the changes that were made, by their entity.Cause.Operation.
type Operations interface {
	// Performed reports whether a change with that operation was made.
	Performed(ctx context.Context, operation uuid.UUID) (bool, error)

	// Record makes an operation of something that changes nothing and must be known
	// all the same: an entry of the audit trail. ID and At are the store's own. A cause with an operation is
	// recorded once for each action and object.
	Record(ctx context.Context, entry entity.AuditEntry) error
}

// TrailQuery asks for entries of the audit trail. Fields that are set must all
// hold.
type TrailQuery struct {
	ObjectID  uuid.UUID
	Kind      entity.Kind
	Actor     string
	Action    entity.Action
	RequestID string
	After     time.Time // inclusive
	Before    int64     // only entries with a lower id; 0: all
	// Visible leaves out entries that name topics of which none matches; nil: none is
	// left out.
	Visible *entity.TopicPatterns
	Limit   int
}

// Mappings is the list of rules that say where dead letters belong.
type Mappings interface {
	// Mapping returns the rules.
	Mapping(ctx context.Context) (entity.Mapping, error)

	// ReplaceMapping sets the rules if expected is still their version, else it is a
	// *entity.MappingConflictError. The audit trail has both versions, with RulesText of
	// the new rules as LastError.
	ReplaceMapping(ctx context.Context, rules []entity.TopicRule, expected int64, cause entity.Cause) (entity.Mapping, error)

	// Unmapped returns the visible dead-letter topics that have messages of unknown
	// origin, the most of them first.
	Unmapped(ctx context.Context, visible *entity.TopicPatterns) ([]UnmappedTopic, error)
}

// UnmappedTopic is a dead-letter topic with messages of unknown origin; "" for
// rows that were put in by SQL.
type UnmappedTopic struct {
	DLQTopic string
	Messages int64
}

// maxRulesText is how much of the rules the audit trail keeps, in bytes.
const maxRulesText = 8 << 10

// RulesText is rules as the audit trail shows them, one a line, and cut off where
// they are too long for it.
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

// ArchiveRuns is what became of the archiver's runs. The archiver is gone before
// anybody could ask it, so it leaves that here.
type ArchiveRuns interface {
	// KeepArchiveRun stores a run, or the result, numbers and error of one that was stored
	// before under the same id. StartedAt and FinishedAt are ignored: a run starts when it
	// is first stored, or, if it is over then, Took before. It is over when its result is
	// first not ArchiveRunning; later calls change nothing.
	KeepArchiveRun(ctx context.Context, run ArchiveRun) error

	// LatestArchiveRuns returns the run that started last and the complete one that
	// finished last, which may be the same; nil where there is none.
	LatestArchiveRuns(ctx context.Context) (last, complete *ArchiveRun, err error)
}

// ArchiveRun is one run of the archiver.
type ArchiveRun struct {
	ID         uuid.UUID
	Result     ArchiveResult
	StartedAt  time.Time
	FinishedAt time.Time     // zero while it runs
	Took       time.Duration // for KeepArchiveRun alone, of one that is over; LatestArchiveRuns has 0
	Moved      int64         // messages, to the archive; where its error was a lost connection, at least
	Purged     int64         // messages, out of the archive for good
	Bookkept   int64         // rows of other kinds that were deleted
	Error      string        // the first MaxArchiveError bytes are kept
}

// ArchiveResult says how a run ended. The set is closed.
type ArchiveResult string

// The results of runs.
const (
	ArchiveRunning    ArchiveResult = "running"    // not over; or killed
	ArchiveComplete   ArchiveResult = "complete"   // every step was done
	ArchiveIncomplete ArchiveResult = "incomplete" // a step failed
	ArchiveStopped    ArchiveResult = "stopped"    // it was told to end
)

// ArchiveResults lists every result.
func ArchiveResults() []ArchiveResult {
	return []ArchiveResult{ArchiveRunning, ArchiveComplete, ArchiveIncomplete, ArchiveStopped}
}

// MaxArchiveError is how much of a run's error is kept, in bytes.
const MaxArchiveError = 1000

// BoundArchiveError is what stores keep of a run's error.
func BoundArchiveError(text string) string { return bound(text, MaxArchiveError) }

// ArchiveRunLife is for how long runs are kept at least; the last complete one is kept
// for ever.
const ArchiveRunLife = 90 * 24 * time.Hour

// QuarantineRest is how long a quarantined record waits for its next try.
const QuarantineRest = 10 * time.Minute

// Quarantine keeps the records that Store could not store as messages: one row for each
// (incarnation, partition, offset). Ids that are not there answer
// *entity.QuarantineNotFoundError.
type Quarantine interface {
	// Quarantined returns records, the latest first, without keys, values and headers
	// longer than ListValueLimit.
	Quarantined(ctx context.Context, q QuarantineQuery) ([]entity.Quarantined, error)

	// QuarantinedRecord returns one record as Quarantined does.
	QuarantinedRecord(ctx context.Context, id uuid.UUID) (entity.Quarantined, error)

	// QuarantineCounts returns how many records of each dead-letter topic there are.
	QuarantineCounts(ctx context.Context) ([]QuarantineCount, error)

	// WakeQuarantined makes all records due.
	WakeQuarantined(ctx context.Context) error

	// RetryQuarantined makes a record due.
	RetryQuarantined(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Quarantined, error)

	// TakeQuarantined returns a record that is due, whole, and begins a try of it; nil
	// when none is. No other caller gets it before QuarantineRest is over.
	TakeQuarantined(ctx context.Context) (*entity.Quarantined, error)

	// Release stores a batch of the one message that a record makes, with the record's id
	// and source, as Store does, and ends its quarantine in the same step. A message that
	// is refused again stays in quarantine: the error is entity.ErrRefused. A record that
	// is not in quarantine stores nothing.
	Release(ctx context.Context, batch Batch) (Stored, error)

	// DeleteQuarantined removes a record for good.
	DeleteQuarantined(ctx context.Context, id uuid.UUID, cause entity.Cause) error
}

// QuarantineQuery asks for quarantined records.
type QuarantineQuery struct {
	Topic   string                // dead-letter topic; "" for any
	Visible *entity.TopicPatterns // of dead-letter topics; nil: all
	Before  Place                 // by first try and id; zero: from the latest
	Limit   int
}

// QuarantineCount is how many records of a dead-letter topic are in quarantine.
type QuarantineCount struct {
	Topic   string
	Records int64
}
