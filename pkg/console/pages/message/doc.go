// Package message contains the page of a message, live or archived, with its history and its payload, and the actions
// on the message. One of the actions changes the message before it is sent.
//
// In the order in which to read them:
//
//   - page.go: what the page shows, and its download
//   - edit.go: the form that changes a message, checks it and sends it
//   - draft.go: the fields of that form, and how they become an edit in a request to the API
//   - actions.go: the actions on a message, and which of them are possible
//   - outcome.go: whether the sent record was consumed or failed again
//   - history.go: attempts, changes, and the messages before and after it
//   - payload.go: the views of the payload
//   - schema.go: the schema of the payload or the key, compared with its latest version
//   - tree.go: JSON as a tree of limited size, and what is masked in it
//   - record.go: key, headers and trace, and where the message came from
//   - stack.go: stack traces with folded library frames
//   - curl.go: the same requests as shell commands
//   - load.go: how a message is loaded, masked or not
package message
