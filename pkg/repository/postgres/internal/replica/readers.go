package replica

import (
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/insight"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/messages"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
)

// Readers contains the types whose methods answer the reads of Reads. All of them read from the database, or all from
// the replica.
type Readers struct {
	*search.Searcher
	*search.Indexer
	*messages.Messages
	*insight.Groups
	*insight.Topics
	*insight.Activity
	*insight.Audit

	replica bool // true when they read from the replica, not from the database
}
