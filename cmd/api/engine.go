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

// searching holds the search index, and the parts of the API that search in it. PostgreSQL holds the search index,
// unless the configuration names a search engine.
type searching struct {
	index search.Store
	reads liveReads
	facet search.FacetStore
	load  search.LoadReporter

	// The fields below are set only if the configuration names a search engine.
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
		return &searching{index: store, reads: reads, facet: facetStore(store, p.reads), load: store}, nil
	}
	client, err := opensearch.New(cfg.OpenSearch)
	if err != nil {
		return nil, err
	}
	e := engine.New(client, store, masked)
	searches := e.NewSearches(reads)
	return &searching{
		index: e.NewIndexer(engine.Stores{Index: store, Notes: store, Repairs: store}, client, p.base.Registry, p.base.Log),
		reads: searches, facet: searches, load: store, engine: e, client: client,
	}, nil
}

// options returns the options for the indexer, which fills the search index.
func (s *searching) options(with decoding) []search.Option {
	options := []search.Option{search.WithSchemas(with.index), search.WithLoad(s.load)}
	if s.engine != nil {
		options = append(options, search.WithFields())
	}
	return options
}

// facets returns the option with which the API counts facets, in PostgreSQL or in the search engine. The store decides
// about messages whose documents in the search engine are out of date.
func (s *searching) facets(counter *search.FacetCounter, store *postgres.Store) rest.Option {
	if s.engine == nil {
		return rest.WithFacets(counter)
	}
	return rest.WithFacets(s.engine.NewFacets(counter, store))
}

// use sets where the API searches and exports. With a search engine, redrives also find their messages there.
func (s *searching) use(stores *rest.Stores, redrives *redrive.Stores, store *postgres.Store) {
	stores.Database.Searches, stores.Database.Exports = s.reads, s.reads
	if s.engine != nil {
		selected := engineRedrives{store, s.engine.NewSelections(store), s.engine.NewSearches(store)}
		redrives.Redrives, redrives.Selections = selected, selected
	}
}

// checks returns the readiness check of the search engine. While the search engine is unavailable, the API works,
// except for searches by text, key, header and field.
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
