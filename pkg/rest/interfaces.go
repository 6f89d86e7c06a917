package rest

import (
	"context"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/handlers/admin"
	"github.com/dlq-manager/dlq-manager/pkg/rest/handlers/groups"
	"github.com/dlq-manager/dlq-manager/pkg/rest/handlers/messages"
	"github.com/dlq-manager/dlq-manager/pkg/rest/handlers/redrives"
	"github.com/dlq-manager/dlq-manager/pkg/rest/handlers/search"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/unmask"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// Stores are the parts of a store that the resources use.
type Stores struct {
	Objects   policyStore
	Lists     search.Store
	Histories messages.HistoryStore
	Changes   messages.ChangeStore
	Values    messages.Values
	Redrives  redrives.Store
	Trail     request.Recorder
	Keys      repository.Keys
	Database  *Database // nil: the store is in memory, so routes that need a database answer 503
}

// Database contains the parts of a store that routes use only with PostgreSQL.
type Database struct {
	Objects     policyDatabase
	Searches    search.Database
	Exports     search.ExportDatabase
	Views       search.ViewDatabase
	Changes     messages.ChangeDatabase
	Redrives    redrives.Database
	ErrorGroups groups.Database
	Topics      groups.TopicDatabase
	ShareGroups groups.ShareDatabase
	Activity    repository.Activity
	Mappings    repository.Mappings
	Redirects   admin.RedirectDatabase
	Audit       admin.AuditDatabase
	Trail       messages.Trail // reads the changes of a message for its history, always from the database itself
	Quarantine  admin.QuarantineDatabase
}

// Redriver sends back, marks dead and deletes messages, one by one and by redrives, and previews redrives.
type Redriver interface {
	messages.Redriver
	redrives.Redriver
	admin.RedirectPreviewer
}

// Origins checks the original topics of messages against the configuration and the mapping. It returns an error only
// when the mapping cannot be read.
type Origins interface {
	messages.Origins // checks messages whose records are sent
	unmask.Origins   // checks messages that are displayed
}

// Dialects reads the headers of dead-letter producers, and maps dead-letter topics by rules.
type Dialects interface {
	wire.Dialects
	messages.Dialects
	admin.Dialects
}

// Schemas decodes and encodes keys and values that have a schema in a registry.
type Schemas interface {
	unmask.Schemas
	messages.Encoder
	messages.SchemaReader
}

type (
	// DerivedMasks report which fields were read from masked headers.
	DerivedMasks = wire.DerivedMasks
	// Fetcher reads values that were too large to store.
	Fetcher = messages.Fetcher
	// Inspector describes the topics of the cluster.
	Inspector = groups.Inspector
	// ShareWatcher knows the share groups of the cluster.
	ShareWatcher = groups.ShareWatcher
	// Targets checks targets of replays.
	Targets = admin.Targets
	// FacetEngine counts the values of the messages that match.
	FacetEngine = search.FacetEngine
	// Topics knows which topics exist.
	Topics = messages.Topics
)

// noDialects derives no field from headers, so that only stored fields are shown.
type noDialects struct{}

func (noDialects) StackTraceOf(m entity.Message) string             { return m.Failure.StackTrace }
func (noDialects) ExplainMessage(entity.Message) entity.Explanation { return entity.Explanation{} }
func (noDialects) IsPointer(*entity.Message) bool                   { return false }
func (noDialects) ReplayHeaders(*entity.Message, string, entity.Explanation) entity.ReplayHeaders {
	return entity.ReplayHeaders{}
}
func (noDialects) PositionHolds(*entity.Message) bool                { return true }
func (noDialects) StripsHeader(*entity.Message, string, string) bool { return false }
func (noDialects) CheckRules([]entity.TopicRule) error               { return nil }
func (noDialects) MapTopic([]entity.TopicRule, string) string        { return "" }
func (noDialects) ConfiguredRules() []entity.TopicRule               { return nil }

// noDerivedMasks hides nothing that was read from headers.
type noDerivedMasks struct{}

func (noDerivedMasks) Fields() entity.MaskedFields            { return entity.MaskedFields{} }
func (noDerivedMasks) Of(*entity.Message) entity.MaskedFields { return entity.MaskedFields{} }

type allDeclared struct{}

func (allDeclared) Standing(context.Context) (func(*entity.Message) entity.OriginStanding, error) {
	return func(*entity.Message) entity.OriginStanding {
		return entity.OriginStanding{Declaration: entity.Declared}
	}, nil
}

func (a allDeclared) Recent(ctx context.Context) (func(*entity.Message) entity.OriginStanding, error) {
	return a.Standing(ctx)
}
