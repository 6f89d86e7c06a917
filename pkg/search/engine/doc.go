// Package engine joins a search engine that has the search index with a store that has the messages. The engine finds
// the messages whose documents match; the store decides, for each of them, whether it exists, in which state it is, and
// whether the caller may see it. So no answer shows what the store would not show.
//
// Read it in this order:
//
//   - facets.go: the values of messages
//   - selections.go: the messages of redrives
//   - searches.go: pages, counts and exports
//   - indexer.go: Indexer, which writes the documents of the indexer worker
//   - repair.go: documents that the search engine has lost, or should not have
//   - engine.go: Engine, and what it needs of the search engine and of the store
package engine
