// Package wire defines the JSON and CSV of the API's answers, and converts values of package entity to them. Its
// functions have no side effects. In an answer, an empty list is not null, and an unknown value is null. Times are in
// RFC 3339 and UTC.
//
// Reading order:
//
//   - redirect.go: redirects of original topics
//   - redrive.go: redrives
//   - changes.go: answers to changes of single objects
//   - history.go: attempts, their edits, and changes
//   - message.go: messages, and records that could not be stored
//   - facets.go: values of messages, with their counts
//   - csv.go: messages as CSV
//   - explanation.go: where the fields of a message come from
//   - decoded.go: payloads and keys with a schema
//   - payload.go: which payloads are shown
//   - filter.go: filters, and the end of a page of matches
//   - views.go: saved filters
//   - topics.go: topics, the topic mapping, error groups and the number of arrivals
//   - shares.go: share groups
//   - masks.go: which values are masked
//   - json.go: times, null, lists, and JSON without reflection
package wire
