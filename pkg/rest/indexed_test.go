package rest

import (
	"context"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// index indexes all messages, as the indexer does.
func (f *fixture) index(masks *payload.Masks) {
	ctx := context.Background()
	if _, err := f.memory.AcquireIndexerLease(ctx, idGone, 1, time.Hour); err != nil {
		panic(err) // an error here is a fault of the test itself
	}
	page, err := f.memory.Search(ctx, repository.SearchQuery{Limit: 1000})
	if err != nil {
		panic(err) // an error here is a fault of the test itself
	}
	var documents []entity.Document
	for _, m := range page.Messages {
		d := entity.Document{MessageID: m.ID, Terms: masks.Read(m.Record.Value, nil).Terms(1000)}
		if m.Record.Key != nil {
			term := entity.KeyTerm
			if masks.ReadPart(&m.Record, entity.KeyPart, entity.Decoded{}).Hides() {
				term = entity.HiddenKeyTerm
			}
			d.Terms = append(d.Terms, term(m.Record.Key))
		}
		for _, h := range m.Record.Headers {
			d.Terms = append(d.Terms, entity.HeaderTerm(h.Key, nil), entity.HeaderTerm(h.Key, append([]byte{}, h.Value...)))
		}
		d.Text = strings.ToLower(m.ErrorMessage) + "\n" + masks.Read(m.Record.Value, nil).Text(4096)
		documents = append(documents, d)
	}
	if err := f.memory.StoreDocuments(ctx, 1, documents); err != nil {
		panic(err) // an error here is a fault of the test itself
	}
}

// maskOf makes masks for tests: names that begin with $ are paths in payloads, all others are names of headers.
func maskOf(names ...string) *payload.Masks {
	cfg := payload.DefaultMaskConfig()
	for _, name := range names {
		if strings.HasPrefix(name, "$") {
			cfg.Payload = append(cfg.Payload, name)
		} else {
			cfg.Headers = append(cfg.Headers, name)
		}
	}
	masks, err := payload.NewMasks(cfg)
	if err != nil {
		panic(err)
	}
	return masks
}
