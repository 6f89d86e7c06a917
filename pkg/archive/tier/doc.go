// Package tier is the second tier of the archive: Parquet files in an S3-compatible object store. An archived message is
// either in the database or in one object.
//
// # What is stored where
//
// A day of the archive is closed once it has ended (in UTC). An object contains messages that were archived on one closed
// day, sorted by id: at most 20,000, or about 32 MB. It contains every column of the archive, the bytes of the records,
// and a copy of the attempts, so that the object can be read without the database.
//
// The database keeps the manifest (dlq.archive_objects: the key, the checksum, and the ranges of ids and times of each
// object, with the numbers of its messages by topic). It also keeps a row of dlq.archive_ids for each message, which names
// the message's object. This row decides: a message without it is not in the archive, even if an object contains the
// message. The database also keeps the attempts, edits and returns of messages in objects, to recognise a dead letter
// that is the return of such a message.
//
// # Who does what
//
//   - Mover (archiver) writes closed days to objects.
//   - Rewriter (archiver; API for an erasure) replaces objects by objects without the messages that left the archive,
//     deletes objects, and purges messages.
//   - Archive (API) reads and restores messages of both tiers. It has the methods of the store that it replaces.
//
// # What remains when a process is killed
//
// The mover moves messages in these steps:
//
//  1. It stores the key of the new object as one to delete.
//  2. It writes the object.
//  3. It reads the object back, and compares its length, its checksum and its number of rows.
//  4. In one transaction it removes the key from those to delete, adds the object to the manifest, and deletes the
//     object's rows from the database.
//
// Before that transaction the rows are still in the database. An object that a dead mover left is deleted an hour later;
// an object that its mover abandoned is deleted by the next run. A row that changed after it was read stays in the
// database, and its message is hidden in the object.
//
// A message leaves the archive in one transaction: its row of archive_ids is deleted, its id is hidden in the object, and
// a restore inserts it into the live table. Later the object is written again without its hidden messages:
//
//  1. The rewriter stores the key of the new object as one to delete.
//  2. It writes the new object without the hidden messages, and compares it as the mover does.
//  3. In one transaction, if the manifest still has the old key, it replaces the old key by the new one, deletes the
//     hidden ids, and stores the old key as one to delete.
//  4. It deletes the old object with all its versions, and then the old object's key.
//
// Each step can be repeated. When Object Lock forbids the deletion of an object, its key is kept together with the time
// until which the lock lasts.
//
// With every key, the ids of the messages whose bytes may be in its object are stored before the bytes are read. So an
// erasure finds each object outside the manifest that contains, or will contain, the bytes of the erased message. The
// erasure deletes such an object, or answers until when the object is locked, or answers that a process still writes it.
//
// A deletion first marks the key of its object, and a marked key cannot enter the manifest. So a slow process can lose
// its object only while the rows of the object are still in the database.
//
// Read it in this order:
//
//   - redrive.go: messages of redrives: selecting, restoring and erasing many
//   - unconfigured.go: an API without the configuration of the object store
//   - export.go: exports
//   - list.go: lists and counts
//   - archive.go: Archive, reads and changes of single messages
//   - cache.go: the entries of objects that are kept in memory
//   - mover.go: Mover
//   - rewriter.go: Rewriter
//   - objects.go: writing and reading one object
package tier
