package main

import (
	"reflect"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// A part that is missing would fail only when a request needs it.
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
