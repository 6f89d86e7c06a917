package main

import (
	"reflect"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/archive/tier"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// TestTieredStoreHasTheMethodsOfBothTiers: a method that the archive of both tiers and the store have is that of the
// archive. If tier.Database lost the method, tieredStore would have the store's, which knows no objects.
func TestTieredStoreHasTheMethodsOfBothTiers(t *testing.T) {
	t.Parallel()
	archive, store, chosen := reflect.TypeFor[*tier.Archive](), reflect.TypeFor[*postgres.Store](), reflect.TypeFor[tier.Database]()
	for method := range archive.Methods() {
		_, stored := store.MethodByName(method.Name)
		_, found := chosen.MethodByName(method.Name)
		if stored && !found {
			t.Errorf("tier.Database has no %s, so tieredStore calls that of the store", method.Name)
		}
	}
}
