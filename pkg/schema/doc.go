// Package schema reads and writes keys and values that are encoded with the schemas of a registry: Avro, Protobuf and
// JSON Schema. It asks the registries of the configuration, and no other address. The bytes of a record are stored and
// sent unchanged; decoded values are for people, for the search index, and for edits.
//
// Reading order:
//   - compare.go: the schema of a message beside the latest one
//   - encode.go: encodes edited parts
//   - decoder.go: decodes parts of records
//   - registry.go: the look-ups of one registry, and their limits
//   - client.go: the requests of a look-up
//   - cache.go: keeps schemas that were looked up
//   - compile.go: a schema of any format
//   - frame.go: how a part names its schema
//   - config.go: the settings
//
// The folders below internal translate the three formats.
package schema
