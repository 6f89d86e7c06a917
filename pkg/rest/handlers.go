package rest

import (
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/rest/handlers/admin"
	"github.com/dlq-manager/dlq-manager/pkg/rest/handlers/groups"
	"github.com/dlq-manager/dlq-manager/pkg/rest/handlers/messages"
	"github.com/dlq-manager/dlq-manager/pkg/rest/handlers/redrives"
	"github.com/dlq-manager/dlq-manager/pkg/rest/handlers/search"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/unmask"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// handlers are the resources of the API.
type handlers struct {
	lists                            search.Lists
	exports                          search.Exports
	facets                           search.Facets
	views                            search.Views
	live, archived                   messages.Reader
	livePayloads, archivedPayloads   messages.Payloads
	liveHistories, archivedHistories messages.Histories
	liveSchemas, archivedSchemas     messages.SchemaTexts
	retries                          messages.Retries
	changes                          messages.Changes
	redrives                         redrives.Redrives
	errorGroups                      groups.ErrorGroups
	activity                         groups.Activity
	topics                           groups.Topics
	shareGroups                      groups.ShareGroups
	mappings                         admin.Mappings
	redirects                        admin.Redirects
	audit                            admin.Audit
	quarantine                       admin.Quarantine
	session                          admin.Session
}

// handlers returns the resources, each with the dependencies that it uses. Without a database, the server does not call
// the resources that need one.
func (s *Server) handlers() handlers {
	masking := wire.Masking{Masks: s.masks, Derived: s.derived, Schemas: s.schemas != nil}
	show := wire.Messages{Dialects: s.dialects, Masking: masking}
	rules := unmask.Rules{Masking: masking, Origins: s.origins, Trail: s.stores.Trail, Schemas: s.schemas}
	cursors, bodies, now := request.Cursors{Signer: s.signer}, s.cfg.bodies(), func() time.Time { return s.now() }
	h := handlers{
		lists: search.Lists{Store: s.stores.Lists, Database: s.db.Searches, Show: show, Unmask: rules, Cursors: cursors, Now: now},
		exports: search.Exports{
			Database: s.db.Exports, Show: show, Unmask: rules, Now: now, Timeout: s.cfg.ExportTimeout, MessageTimeout: s.cfg.RequestTimeout,
		},
		facets: search.Facets{Engine: s.facets, Database: s.db.Searches, Unmask: rules, Now: now},
		views:  search.Views{Database: s.db.Views, Masking: masking, Bodies: bodies},
		live:   messages.Reader{Load: s.stores.Objects.Get, Redirects: s.db.Redirects, Topics: s.topics, Show: show, Unmask: rules},
		livePayloads: messages.Payloads{
			Load: s.stores.Objects.Get, Store: s.stores.Values, Fetcher: s.fetcher, Dialects: s.dialects, Unmask: rules, Reserve: s.limits.reserve,
			Timeout: s.cfg.RequestTimeout,
		},
		liveHistories: messages.Histories{Load: s.stores.Objects.Get, Store: s.stores.Histories, Trail: s.db.Trail, Unmask: rules},
		liveSchemas:   messages.SchemaTexts{Load: s.stores.Objects.Get, Schemas: s.schemas},
		retries: messages.Retries{
			Store: s.stores.Histories, Redriver: s.redriver, Origins: s.origins, Dialects: s.dialects, Masking: masking, Bodies: bodies,
			Redirects: s.db.Redirects, Encoder: s.schemas, Reader: rules.Reader,
		},
		changes: messages.Changes{
			Store: s.stores.Changes, Database: s.db.Changes, Redriver: s.redriver, Origins: s.origins, Dialects: s.dialects, Bodies: bodies,
		},
		redrives: redrives.Redrives{
			Store: s.stores.Redrives, Database: s.db.Redrives, Redriver: s.redriver, Unmask: rules, Cursors: cursors, Bodies: bodies, Now: now,
		},
		errorGroups: groups.ErrorGroups{Database: s.db.ErrorGroups, Topics: s.topics, Unmask: rules, Cursors: cursors, Bodies: bodies, Now: now},
		activity:    groups.Activity{Database: s.db.Activity, Now: now},
		topics:      groups.Topics{Database: s.db.Topics, Inspector: s.inspector, Derived: s.derived, Cursors: cursors},
		shareGroups: groups.ShareGroups{Watcher: s.shares, Database: s.db.ShareGroups, Derived: s.derived},
		mappings:    admin.Mappings{Database: s.db.Mappings, Redriver: s.redriver, Origins: s.origins, Dialects: s.dialects, Bodies: bodies},
		redirects: admin.Redirects{
			Database: s.db.Redirects, Redriver: s.redriver, Targets: s.targets, Cursors: cursors, Bodies: bodies,
		},
		audit:      admin.Audit{Store: s.stores.Objects, Database: s.db.Audit, Masking: masking, Cursors: cursors},
		quarantine: admin.Quarantine{Database: s.db.Quarantine, Show: show, Cursors: cursors, Bodies: bodies},
		session:    admin.Session{Mode: s.authentication.mode, Masking: !s.masks.Empty()},
	}
	h.archived, h.archivedPayloads, h.archivedHistories, h.archivedSchemas = h.live, h.livePayloads, h.liveHistories, h.liveSchemas
	if s.stores.Database != nil {
		load := s.db.Objects.GetArchived
		h.archived.Load, h.archivedPayloads.Load, h.archivedHistories.Load, h.archivedSchemas.Load = load, load, load, load
	}
	h.archived.Archived, h.archivedPayloads.Archived = true, true
	return h
}
