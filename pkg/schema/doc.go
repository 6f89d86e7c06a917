// Package schema reads and writes keys and values that are encoded with the schemas of a registry: Avro, Protobuf and
// JSON Schema. It sends requests only to the registries that the configuration names. The bytes of a record are stored
// and sent unchanged; decoded values are used to show messages to people, to fill the search index, and to make edits.
//
// Reading order:
//   - compare.go: compares the schema of a message with the latest version of its subject
//   - encode.go: encodes edited parts; a part is the key or the value of a record
//   - decoder.go: decodes parts of records
//   - masks.go: reports masks that a new version of a subject has lost
//   - registry.go: the look-ups of one registry, and their limits
//   - health.go: when a registry counts as down
//   - client.go: the requests of a look-up
//   - share.go: topics take turns at what is limited
//   - cache.go: caches schemas that were looked up
//   - compile.go: a schema of any format
//   - frame.go: how a part names its schema
//   - config.go: the settings
//
// The folders below internal translate the three formats.
package schema
