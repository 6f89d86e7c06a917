// Package opensearch keeps the search index in OpenSearch: one index for each day, and one alias for each version of the
// documents. It stores documents, finds the messages whose documents match a filter, and counts values. It knows nothing
// about the state of messages; package search/engine joins that from the store.
//
// Read it in this order:
//
//   - facets.go: the values of messages
//   - ranges.go: which documents there are, for comparisons
//   - find.go: pages of messages
//   - query.go: a filter as a query
//   - documents.go: writes of documents
//   - indices.go: the indexes of days
//   - client.go: Client, one request, and the kinds of its errors
//   - config.go: where OpenSearch is, and how to sign in
package opensearch
