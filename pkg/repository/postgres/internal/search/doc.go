// Package search turns a filter into SQL, for pages, counts and exports, and keeps the search index. Other packages use
// Scopes and Arguments for their own statements with a filter.
//
// Read it in this order:
//
//   - undecoded.go: messages whose key or value must be decoded again, because their schema could not be read
//   - index.go: Indexer, which stores documents
//   - engine.go: what the database stores when a search engine has the search index
//   - count.go: the number of messages of a filter
//   - export.go: all messages of a filter
//   - search.go: Searcher, and its statements' time limits
//   - text.go: a page of messages that contain the words of a filter
//   - range.go: documents of a time range
//   - words.go: messages tested one by one
//   - page.go: the messages of a page
//   - scope.go: Scopes, the topics of a filter
//   - filter.go: Arguments, the other conditions of a filter
package search
