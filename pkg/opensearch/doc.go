// Package opensearch keeps the search index in OpenSearch: one index for each day, and one alias for each version of the
// documents. It stores documents, finds the messages whose documents match a filter, and counts values. It knows nothing
// about the state of messages; package search/engine joins that from the store.
//
// Read it in this order:
//
//   - config.go: where OpenSearch is, and how to sign in
//   - client.go: Client, one request, and the kinds of its errors
//   - indices.go: the indexes of days, and which documents they have
//   - documents.go: writes of documents
//   - query.go: a filter as a query
//   - find.go: pages of messages
//   - facets.go: the values of messages
package opensearch
