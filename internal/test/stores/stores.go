// Package stores gives one store to a constructor that takes the parts of a store one by one.
package stores

import "reflect"

// Fill returns a struct of interfaces of type T, in which every field contains store. It panics when store does not
// implement one of these interfaces. Fields of other types stay zero.
func Fill[T any](store any) T {
	var parts T
	for field, value := range reflect.ValueOf(&parts).Elem().Fields() {
		if field.Type.Kind() == reflect.Interface {
			value.Set(reflect.ValueOf(store))
		}
	}
	return parts
}
