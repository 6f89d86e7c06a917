package bulk

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Store is the part of a repository that redrives need. Its methods keep the promises of repository.Core, and return
// soon after their context ends. If the database does not answer, they return an error even when the context has no
// deadline: the loops of this program call them without a deadline, also while it shuts down.
type Store interface {
	repository.Redrives
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	Claimable(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error)
	AttemptsOf(ctx context.Context, redrive uuid.UUID, ids []uuid.UUID) ([]entity.Attempt, error)
}

// Selections is the part of a store that is needed for previews, for redrives that select messages by ids or by a
// filter, and for actions other than retry.
type Selections interface {
	PreviewRedrive(ctx context.Context, n repository.NewRedrive) ([]repository.SelectionCount, error)
	Overlaps(ctx context.Context, n repository.NewRedrive) ([]entity.Overlap, error)
	Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error)
	Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error
	Change(ctx context.Context, c repository.Change, cause entity.AuditInfo) ([]uuid.UUID, error)
	PerformedOn(ctx context.Context, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error)
	RedriveItems(ctx context.Context, id uuid.UUID, q repository.ItemQuery) ([]entity.RedriveItem, error)
	repository.Bounds
}

// Progress is the part of a store that says what was consumed and what was ingested.
type Progress interface {
	SaveCommitted(ctx context.Context, offsets []repository.Committed) error
	IngestPositions(ctx context.Context) ([]repository.IngestPosition, error)
}

// Groups asks Kafka about consumer groups, whose progress shows what was consumed.
type Groups interface {
	// Committed returns the committed offsets of a consumer group in the partitions of the topics, without partitions in
	// which it has committed none.
	Committed(ctx context.Context, group string, topics []string) ([]repository.Committed, error)
	// Running reports whether a consumer group has members.
	Running(ctx context.Context, group string) (bool, error)
	// Ends returns the same partitions with the ends of their logs in place of the positions.
	Ends(ctx context.Context, positions []repository.IngestPosition) ([]repository.IngestPosition, error)
}

// Archive finds and changes archived messages, wherever they are stored.
type Archive interface {
	// Select returns the archived messages of a selection, the oldest first, or in the order of its ids. A condition
	// that the archive cannot be searched for, and a selection of more than limit messages, is an *entity.FieldError.
	Select(ctx context.Context, s entity.Selection, limit int) ([]repository.ArchivedEntry, error)
	GetArchived(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error

	// RestoreEach restores messages as repository.Archive does it for one message. EraseEach erases them. An error after
	// which trying again is useful ends the work and is returned; Done was not called for the remaining messages.
	RestoreEach(ctx context.Context, w repository.ArchivedWork) error
	EraseEach(ctx context.Context, w repository.ArchivedWork) error

	// Hold makes restored messages due for automatic retry when the time hold is over. It leaves out messages that were
	// attempted since they were restored.
	Hold(ctx context.Context, ids []uuid.UUID, hold time.Duration) error
}

// Config says how redrives are carried out.
type Config struct {
	Workers     int            // parts of one redrive that a process sends at once; 0 leaves redrives to other processes
	ClaimExpiry time.Duration  // duration of a lease, which is also the duration of a claim
	Schemas     Schemas        // decodes and encodes payloads with a schema; nil: no payload has a schema
	Masks       *payload.Masks // what RedriveOptions.KeepsMasked keeps
	Archive     Archive        // nil: a redrive selects live messages only
	Groups      Groups         // nil: without Kafka, so each consumer group counts as one that will commit
	Progress    Progress       // nil only without Groups
	// MetadataGrace is how long a redrive waits for a target that does not exist, because Kafka's answers may be late,
	// before it skips its messages.
	MetadataGrace time.Duration
	// ReplayRemoves is used by previews; nil: they name no headers.
	ReplayRemoves ReplayRemoves
}

// ReplayRemoves returns the names of the headers that a replay of a message to a topic removes.
type ReplayRemoves func(m *entity.Message, topic string) []string

// dependencies are shared by the types of this package.
type dependencies struct {
	cfg      Config
	store    Store
	selected Selections // nil: the store supports only redrives that retry all messages of a topic
	archive  Archive    // nil: there is no archive
	parts    *attempt.Parts
	log      *zap.Logger
	tracer   trace.Tracer // nil: there are no spans
}

const (
	batchMessages = 500 // maximum number of messages that are leased, claimed, sent and stored together
	parkedLimit   = 200 // number of parked leases at which a pass ends
)

// Reasons for which a redrive skips messages. Other reasons are the error classes, attempt.SkippedNotPermitted and the
// reasons of the store.
const (
	SkippedKeyBlocked = "key_blocked" // an earlier message with the same key did not succeed

	// SkippedUnreadable: the message is in an object of the archive that is missing or damaged.
	SkippedUnreadable = "unreadable"

	// SkippedRefused: the database refuses to restore or erase the archived message.
	SkippedRefused = "refused"

	// SkippedPatchFailed: the patch cannot be applied to the value, or the store does not contain the message's value
	// (it is too large, or the record is a pointer), so the patched value cannot be shown before it is sent.
	SkippedPatchFailed = "patch_failed"
)
