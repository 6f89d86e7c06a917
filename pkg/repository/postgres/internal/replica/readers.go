package replica

import (
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/insight"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/messages"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
)

// Readers have the statements of Reads.
type Readers struct {
	*search.Searcher
	*search.Indexer
	*messages.Messages
	*insight.Groups
	*insight.Topics
	*insight.Activity
	*insight.Audit

	replica bool // whether these Readers read from the replica, and not from the database
}
