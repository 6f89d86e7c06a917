// Package codec converts between Go values and the values of statements: arrays and headers as arguments, and rows as
// messages, attempts and edits. For each kind of row it also contains the list of columns to select. It sends no
// statements.
//
// Read it in this order:
//
//   - page.go: messages for a page or for a single view, with limited sizes
//   - scan.go: reads the rows of a query without reflection
//   - attempt.go: an attempt and its edit
//   - object.go: the bytes of a message that is stored in an object
//   - row.go: Row, a message, and its columns
//   - defect.go: which limit a record exceeds, or why it could not be read
//   - arrays.go: arrays in binary form, texts, JSON
//   - headers.go: the headers of a record as one value
//   - actions.go: the names of redrives' actions
//   - source.go: reads from the live table or from the archive
package codec
