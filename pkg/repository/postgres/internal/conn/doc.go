// Package conn connects to PostgreSQL for the other packages of the store: it opens connections with credentials that
// may change, keeps statements prepared, repeats statements that failed because of other sessions, and translates the
// driver's errors to the kinds of package entity. Only this package knows the driver's error codes.
//
// Read it in this order:
//
//   - db.go: DB, which runs statements
//   - plans.go: when statements are prepared again
//   - connect.go: Open, the connections of a pool and their time limits
//   - traces.go: a span for each statement
//   - session.go: a connection, and what happens when its role is dropped
//   - config.go: Config and the files with credentials
//   - errors.go: the kinds of errors, and after which errors a statement is repeated
//   - position.go: positions in the database's log, and which position a replica must have replayed to answer a statement
package conn
