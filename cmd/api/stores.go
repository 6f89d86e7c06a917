package main

import (
	"context"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/rest"
	"github.com/dlq-manager/dlq-manager/pkg/search"
)

// redriveStores returns the parts of a store that redrives use.
func redriveStores(store repository.Core) redrive.Stores {
	stores := redrive.Stores{Attempts: store, Redrives: store, Due: store}
	if full, ok := store.(*postgres.Store); ok {
		stores.Selections, stores.Outcomes, stores.Progress, stores.Redirects, stores.AutoSends = full, full, full, full, full
	}
	return stores
}

// restStores returns the parts of a store that the API uses. When reads is nil, no replica is used.
func restStores(store repository.Core, reads *postgres.Reads) rest.Stores {
	stores := rest.Stores{
		Objects: store, Lists: store, Histories: store, Changes: store, Values: store, Redrives: store, Trail: store, Keys: store,
	}
	if full, ok := store.(*postgres.Store); ok {
		stores.Database = &rest.Database{
			Objects: full, Searches: full, Exports: full, Views: full, Changes: full, Redrives: full, ErrorGroups: full,
			Topics: full, ShareGroups: full, Activity: full, Mappings: full, Redirects: full, Audit: full, Trail: full, Quarantine: full,
		}
		if reads != nil {
			useReplica(&stores, full, reads)
		}
	}
	return stores
}

// facetStore returns the store from which facets read messages: the replica if there is one, otherwise the database.
func facetStore(store *postgres.Store, reads *postgres.Reads) search.FacetStore {
	if reads == nil {
		return store
	}
	return reads
}

// useReplica makes lists and numbers come from a replica of the database while it is fresh enough. Reads on which a
// change depends still use the database.
func useReplica(stores *rest.Stores, store *postgres.Store, reads *postgres.Reads) {
	stores.Lists = reads
	db := stores.Database
	db.Searches, db.Exports, db.Activity, db.Audit = reads, reads, reads, reads
	db.ErrorGroups = errorGroups{store, reads}
	db.Topics = topicLists{store, reads}
}

// errorGroups reads error groups from a replica and changes them in the store.
type errorGroups struct {
	*postgres.Store
	reads *postgres.Reads
}

func (g errorGroups) ErrorGroups(ctx context.Context, q repository.GroupQuery) ([]repository.ListedGroup, error) {
	return g.reads.ErrorGroups(ctx, q)
}

func (g errorGroups) ErrorGroup(
	ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend repository.Trend,
) (entity.ErrorGroup, error) {
	return g.reads.ErrorGroup(ctx, id, visible, trend)
}

// topicLists reads the numbers of messages of each topic from a replica, and everything else that is shown about topics
// from the database.
type topicLists struct {
	*postgres.Store
	reads *postgres.Reads
}

func (t topicLists) TopicSummaries(ctx context.Context, q repository.TopicQuery) ([]repository.TopicSummary, error) {
	return t.reads.TopicSummaries(ctx, q)
}
