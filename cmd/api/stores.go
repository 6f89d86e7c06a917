package main

import (
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/rest"
)

// redriveStores returns the parts of a store that redrives use.
func redriveStores(store repository.Core) redrive.Stores {
	stores := redrive.Stores{Attempts: store, Redrives: store, Due: store}
	if full, ok := store.(*postgres.Store); ok {
		stores.Selections, stores.Outcomes, stores.Redirects = full, full, full
	}
	return stores
}

// restStores returns the parts of a store that the API uses.
func restStores(store repository.Core) rest.Stores {
	stores := rest.Stores{
		Objects: store, Lists: store, Histories: store, Changes: store, Values: store, Redrives: store, Trail: store, Keys: store,
	}
	if full, ok := store.(*postgres.Store); ok {
		stores.Database = &rest.Database{
			Objects: full, Searches: full, Exports: full, Views: full, Changes: full, Redrives: full, ErrorGroups: full,
			Topics: full, ShareGroups: full, Activity: full, Mappings: full, Redirects: full, Audit: full, Quarantine: full,
		}
	}
	return stores
}
