// Package tier is the second tier of the archive: closed days of archived messages in Parquet files in an S3-compatible
// object store. A message is in the database or in one object, never in both and never in neither.
//
// # Where what is
//
// An object has messages of one day (in UTC) of archived_at, sorted by id: at most 20,000, or about 32 MB. It has every
// column of the archive, the bytes of the records, and a copy of the attempts, so it can be read without the database.
// The database keeps the manifest (dlq.archive_objects: key, checksum, ranges of ids and times; the numbers of messages
// by topic), and for each message its row of dlq.archive_ids, which names its object. That row decides: a message whose
// row is gone is not in the archive, whatever its object has. It also keeps the attempts, edits and returns, by which a
// record that comes back is recognised.
//
// # Who does what
//
//   - Mover (archiver) writes closed days to objects.
//   - Rewriter (archiver; API for an erasure) writes objects again without the messages that left the archive, deletes
//     objects, purges.
//   - Archive (API) reads and restores messages of both tiers. It has the methods of the store that it replaces.
//
// # What a kill leaves
//
// A move: store the key as one to delete; write the object; read it back, and compare its length, checksum and number of
// rows; in one transaction cancel the deletion of the key, add the object to the manifest, and delete its rows from
// the database. Before that transaction the rows are where they were, and the object is deleted an hour later, or by the
// next run when its writer has read it back. A row that changed after it was read is not deleted, and is hidden in the
// object.
//
// A message leaves the archive in one transaction: its row of archive_ids is deleted, its id is hidden, and a restore
// inserts it into the live table. To write an object again: store the key of the new object as one to delete; write it
// without the hidden messages; compare; in one transaction, if the manifest still has the old key, replace it by the new
// one, delete the hidden ids, and store the old key as one to delete; delete the old object with all its versions; delete
// the key. Each step can be repeated. Object Lock may forbid the deletion; then the key is kept with the time until
// when.
//
// Every stored key has the ids of the messages whose bytes may be in its object, and is stored before these are read. So an
// erasure finds each object outside the manifest that has, or will have, the bytes: it deletes the object, says until
// when it is locked, or says that it waits for its writer.
//
// A deletion first marks its key; a marked key cannot enter the manifest. So a slow process can lose its object only
// before that object has messages.
//
// Read it in this order:
//
//   - unconfigured.go: an API without the configuration of the object store
//   - export.go: exports
//   - list.go: lists and counts
//   - archive.go: Archive, single messages
//   - cache.go: entries of objects in memory
//   - mover.go: Mover
//   - rewriter.go: Rewriter
//   - objects.go: writing and reading one object
package tier
