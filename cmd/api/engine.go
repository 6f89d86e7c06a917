package main

import (
	"context"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/opensearch"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/rest"
	"github.com/dlq-manager/dlq-manager/pkg/search"
	"github.com/dlq-manager/dlq-manager/pkg/search/engine"
)

// searching holds the search index and what reads it. The store has the search index, unless the configuration names a
// search engine.
type searching struct {
	index search.Store
	reads liveReads
	facet search.FacetStore

	// The following fields are set with a search engine only.
	engine *engine.Engine
	client *opensearch.Client
}

// buildSearching builds what searches. The documents of a search engine lack the masked fields.
func (p *parts) buildSearching(store *postgres.Store, masked entity.MaskedFields) (*searching, error) {
	var reads liveReads = store
	if p.reads != nil {
		reads = p.reads
	}
	cfg := p.base.Config.Search
	if cfg.Engine != search.EngineOpenSearch {
		return &searching{index: store, reads: reads, facet: facetStore(store, p.reads)}, nil
	}
	client, err := opensearch.New(cfg.OpenSearch)
	if err != nil {
		return nil, err
	}
	e := engine.New(client, store, masked)
	searches := e.NewSearches(reads)
	return &searching{
		index: e.NewIndexer(engine.Stores{Index: store, Notes: store, Repairs: store}, client, p.base.Registry, p.base.Log),
		reads: searches, facet: searches, engine: e, client: client,
	}, nil
}

// options returns the options of the indexer.
func (s *searching) options(with decoding) []search.Option {
	options := []search.Option{search.WithSchemas(with.index)}
	if s.engine != nil {
		options = append(options, search.WithFields())
	}
	return options
}

// facets returns what counts facets. The store decides about messages that have changed.
func (s *searching) facets(counter *search.FacetCounter, store *postgres.Store) rest.Option {
	if s.engine == nil {
		return rest.WithFacets(counter)
	}
	return rest.WithFacets(s.engine.NewFacets(counter, store))
}

// use makes the API and redrives search in the search engine.
func (s *searching) use(stores *rest.Stores, redrives *redrive.Stores, store *postgres.Store) {
	stores.Database.Searches, stores.Database.Exports = s.reads, s.reads
	if s.engine != nil {
		selected := engineRedrives{store, s.engine.NewSelections(store), s.engine.NewSearches(store)}
		redrives.Redrives, redrives.Selections = selected, selected
	}
}

// checks returns the readiness check of the search engine. Without it the API works, except for searches by text, key,
// header and field.
func (s *searching) checks() []rest.Check {
	if s == nil || s.engine == nil {
		return nil
	}
	return []rest.Check{{Name: "opensearch", Probe: s.client.Ping}}
}

// engineRedrives is a store whose redrives and exports find messages in a search engine.
type engineRedrives struct {
	*postgres.Store
	*engine.Selections
	searches *engine.Searches
}

func (r engineRedrives) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	return r.searches.Search(ctx, q)
}

func (r engineRedrives) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	return r.searches.Export(ctx, q, yield)
}
