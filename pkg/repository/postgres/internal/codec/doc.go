// Package codec converts between Go values and the values of statements: arrays and headers as arguments, and rows as
// messages, attempts and edits. For each kind of row it also has the list of columns to select. It sends no statement.
//
// Read it in this order:
//
//   - page.go: messages of a page or alone, with limited bytes
//   - scan.go: rows of a query without reflection
//   - attempt.go: an attempt and its edit
//   - object.go: the bytes of a row of an object
//   - row.go: Row, a message, and its columns
//   - defect.go: what could not be read of a record
//   - arrays.go: arrays in binary form, texts, JSON
//   - headers.go: headers as one value
//   - source.go: the live table or the archive
package codec
