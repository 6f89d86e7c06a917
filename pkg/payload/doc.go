// Package payload reads the JSON that records contain: it finds single values, computes terms for the search index, and
// masks and patches values. It works on the producer's own text and does no I/O.
//
// Reading order:
//   - patch.go: applies a patch (RFC 6902) to a value
//   - mask_patch.go: the patch that a user with masks may see
//   - diff.go: the patch between two values
//   - members.go: the members of one object
//   - terms.go: the terms by which a field search finds a record
//   - scalars.go: all scalars that are not hidden
//   - values.go: the values at some paths
//   - text.go: the text for free-text search
//   - reading.go: a key or a value as masks let it be seen
//   - masks.go: the masked paths and headers
//   - rules.go: the masked paths while a document is read
//   - mask_config.go: the masked fields in the configuration
//   - scalar.go: the canonical form of a value
//   - path.go: paths in a document
//   - cursor.go: walks over a document by offsets
//   - scan.go: the scanner below all of them
package payload
