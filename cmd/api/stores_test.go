package main

import (
	"reflect"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// With a database, no part of rest.Stores and redrive.Stores is missing. A missing part would cause an error only when
// a request needs it.
func TestStoresWithADatabaseHaveEveryPart(t *testing.T) {
	t.Parallel()
	store := postgres.New(sqlx.NewDb(nil, "postgres"))
	rest := restStores(store, nil)
	for _, stores := range []any{redriveStores(store), rest, *rest.Database} {
		for field, part := range reflect.ValueOf(stores).Fields() {
			if part.IsZero() {
				t.Errorf("%T.%s is missing", stores, field.Name)
			}
		}
	}
}
