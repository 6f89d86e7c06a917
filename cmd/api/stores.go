package main

import (
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// redriveStores returns the parts of a store that redrives use.
func redriveStores(store repository.Core) redrive.Stores {
	stores := redrive.Stores{Attempts: store, Redrives: store, Due: store}
	if full, ok := store.(*postgres.Store); ok {
		stores.Selections, stores.Outcomes, stores.Redirects = full, full, full
	}
	return stores
}
