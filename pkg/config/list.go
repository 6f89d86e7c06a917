package config

import (
	"maps"
	"reflect"
	"slices"
)

// Keys lists every key that Load accepts for T, sorted: what a reference file
// has to show.
func Keys[T any](defaults T) []string {
	keys, err := describe(reflect.ValueOf(&defaults).Elem())
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(keys.settings))
}
