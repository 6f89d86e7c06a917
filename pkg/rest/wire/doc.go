// Package wire has the JSON and CSV of the API's answers, and makes them of the values of package entity. It is pure.
// Lists are never null in an answer, unknown values always are; times are RFC 3339 in UTC.
//
// Reading order:
//
//   - message.go: messages
//   - quarantine.go: records that could not be stored
//   - csv.go: messages as CSV
//   - explanation.go: where the fields of a message come from
//   - payload.go: which payloads are shown
//   - history.go: attempts, their edits, and changes
//   - changes.go: answers to changes of single objects
//   - redrive.go: redrives
//   - filter.go: filters, and the end of a page of matches
//   - errorgroups.go: error groups, and the number of arrivals
//   - topics.go: topics and the topic mapping
//   - masks.go: which values are masked
//   - json.go: times, null and lists
//   - jsontext.go: JSON without reflection
package wire
