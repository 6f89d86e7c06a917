package search_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
	"github.com/dlq-manager/dlq-manager/pkg/search"
)

// TestSearch runs the worker on a store, and then searches for messages by the documents that the worker stored.
func TestSearch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := fake.New(time.Now)
		m := entity.NewMessage("orders", "Order 17 has no stock", time.Now())
		m.Record = entity.Record{
			Key: []byte("k-1"), Value: []byte(`{"items":[{"sku":"X-1","quantity":2.0}],"card":{"number":"4111"}}`),
			Headers: []entity.Header{{Key: "trace", Value: []byte("t-1")}},
		}
		store.Insert(m)
		hidden := entity.NewMessage("orders", "hidden stock", time.Now())
		hidden.Record.Value = []byte(`{"sku":"behind-a-mask"}`)
		store.Insert(hidden)
		run(t, store)

		word := func(words ...string) entity.Filter { return entity.Filter{Words: words} }
		field := func(path, value string) entity.Filter {
			return entity.Filter{Fields: []entity.FieldMatch{{Path: path, Values: payload.ParseScalars(value)}}}
		}
		for name, c := range map[string]struct {
			filter entity.Filter
			want   int
		}{
			"WordOfTheError":     {word("stock"), 1},
			"WordOfTheRecord":    {word("stock", "x-1"), 1},
			"NoSuchWord":         {word("stocks"), 0},
			"NeverWhatIsMasked":  {word("4111"), 0},
			"NorReadFromMasked":  {word("hidden"), 0},
			"ButItsRecord":       {word("behind-a-mask"), 1},
			"Field":              {field("$.items[*].sku", "X-1"), 1},
			"FieldByNumber":      {field("$.items[*].quantity", "2"), 1},
			"FieldWithOtherText": {field("$.items[*].sku", "x-1"), 0},
			"FieldThatIsThere":   {entity.Filter{Fields: []entity.FieldMatch{{Path: "$.card.number"}}}, 1},
			"Key":                {entity.Filter{Key: []byte("k-1")}, 1},
			"Header":             {entity.Filter{Headers: []entity.HeaderMatch{{Name: "trace", Value: []byte("t-1")}}}, 1},
			"Group":              {entity.Filter{Group: entity.Fingerprint{Title: "Order <n> has no stock"}.ID()}, 1},
		} {
			found := check.Must(store.Search(t.Context(), repository.SearchQuery{Filter: c.filter, Limit: 10}))(t)
			check.Same(t, len(found.Messages), c.want, "%s: messages", name)
		}
	})
}

func run(t *testing.T, store *fake.Store) {
	t.Helper()
	masks := check.Must(payload.NewMasks(payload.MaskConfig{Payload: []string{"$.card.number"}}))(t)
	maker := check.Must(fingerprint.New(fingerprint.DefaultConfig()))(t)
	hidden := func(m *entity.Message) entity.MaskedFields {
		return entity.MaskedFields{ErrorMessage: strings.Contains(m.ErrorMessage, "hidden")}
	}
	decode := func(m entity.Message) (class, message, stack string) { return "", m.ErrorMessage, "" }
	w := search.New(search.DefaultConfig(), store, decode, maker, masks, hidden, prometheus.NewRegistry(), zap.NewNop())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	w.Run(ctx)
}
