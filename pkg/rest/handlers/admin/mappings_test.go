package admin

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// operations is a Redriver that records with which operation each redrive is begun.
type operations struct {
	Redriver
	begun []uuid.UUID
}

func (o *operations) Begin(_ context.Context, order repository.NewRedrive) (entity.Redrive, error) {
	o.begun = append(o.begun, order.Cause.Operation)
	return entity.Redrive{}, nil
}

// prefixes maps every dead-letter topic to the original topic of the first rule.
type prefixes struct{ Dialects }

func (prefixes) MapTopic(rules []entity.TopicRule, _ string) string { return rules[0].Original }

// A repeated request begins its redrives with the same ids, and another request with other ids.
func TestMappings_ApplyAgain(t *testing.T) {
	t.Parallel()
	var redriver operations
	h := Mappings{Redriver: &redriver, Dialects: prefixes{}}
	request, other := uuid.New(), uuid.New()
	for _, operation := range []uuid.UUID{request, request, other} {
		if _, err := h.apply(t.Context(), []entity.TopicRule{{Pattern: "a.*", Original: "orders"}},
			[]repository.UnmappedTopic{{DLQTopic: "a.dlq.v1"}}, entity.AuditInfo{Actor: "x", Operation: operation}); err != nil {
			t.Fatal(err)
		}
	}
	begun := redriver.begun
	if begun[0] != begun[1] || begun[1] == begun[2] {
		t.Errorf("operations %s, want the same for the same request, and another for another", begun)
	}
}
