package rest

import (
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi/openapitest"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// attacked returns a server for attacks: with the program's dialects, with masks, and with a store that has messages in
// several states. Attack.Judge, not the fixture, compares each request and its answer with the API's document.
func attacked(t *testing.T) *fixture {
	t.Helper()
	patterns, err := deadletter.ParsePatterns("*.dlq.v1")
	check.NoError(t, err)
	decoder, err := deadletter.New(deadletter.Config{}, patterns)
	check.NoError(t, err)
	masks := maskOf("$.card.number", "authorization")
	f := newFixture(
		message(idA), message(idB, in(entity.Dead, 3)), message(sixth(0), in(entity.Resolved, 1)),
		message(sixth(1), unknown("a.dlq.v1", 1)), message(sixth(2), withValue("\xff")),
		message(sixth(3), withValue(`{"card":{"number":4111}}`)),
	)
	f.index(masks)
	return f.with(WithMasks(masks), WithDialects(decoder), WithShareGroups(told{known: true})).undocumented().open()
}

func (f *fixture) attack(a openapitest.Attack) error {
	var headers []string
	for name := range a.Header {
		headers = append(headers, name, a.Header.Get(name))
	}
	w := f.do(a.Method, a.Path, string(a.Body), headers...)
	return a.Judge(w.Code, w.Header(), w.Body.Bytes())
}

// Random requests made from the document, one after the other, never get a 5xx, and every answer matches the
// document. A failure prints its seed.
func TestOpenAPI_RandomRequests(t *testing.T) {
	t.Parallel()
	requests, err := openapitest.Random(wire.Each([]uuid.UUID{redrive, idA, idB, sixth(0), sixth(1), sixth(2), sixth(3)}, uuid.UUID.String)...)
	check.NoError(t, err)
	rapid.Check(t, func(rt *rapid.T) {
		f := attacked(t)
		for range 20 {
			if err := f.attack(requests.Draw(rt, "request")); err != nil {
				rt.Fatal(err)
			}
		}
	})
}
