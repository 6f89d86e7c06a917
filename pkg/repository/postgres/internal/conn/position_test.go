package conn

import (
	"context"
	"testing"

	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestLSN(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0/1", "16/B374D848", "FFFFFFFF/FFFFFFFF"} {
		check.Equal(t, check.Must(ParseLSN(text))(t).String(), text, "LSN")
	}
	for _, text := range []string{"", "1", "/", "1/", "01/2", "1/b", "1/2 ", "100000000/1", "-1/2"} {
		check.True(t, check.Err(ParseLSN(text)) != nil, "%q is an LSN", text)
	}
	check.True(t, check.Must(ParseLSN("2/0"))(t) > check.Must(ParseLSN("1/FFFFFFFF"))(t), "2/0 is before 1/FFFFFFFF")
}

// TestPosition: a position is reached only by a server of the same history whose position is not lower.
func TestPosition(t *testing.T) {
	t.Parallel()
	p := check.Must(parsePosition("7712401381544624825 2 16/B374D848"))(t)
	check.Equal(t, p, Position{History{"7712401381544624825", 2}, 0x16B374D848}, "position")
	for _, text := range []string{"", "1 2", "1 x 0/1", "1 4294967296 0/1", "1 2 x"} {
		check.True(t, check.Err(parsePosition(text)) != nil, "%q is a position", text)
	}
	for name, tt := range map[string]struct {
		needed Position
		has    bool
	}{
		"Same":           {p, true},
		"Earlier":        {Position{p.History, p.LSN - 1}, true},
		"Later":          {Position{p.History, p.LSN + 1}, false},
		"OlderTimeline":  {Position{History{p.System, 1}, 1}, false},
		"NewerTimeline":  {Position{History{p.System, 3}, 1}, false},
		"AnotherCluster": {Position{History{"1", 2}, 1}, false},
	} {
		check.Same(t, p.has(tt.needed), tt.has, "%s", name)
	}
}

// TestStatementThatAReplicaEnds: a statement with a Need, which a replica may end, is not tried again on the replica,
// so that the database can answer the read at once.
func TestStatementThatAReplicaEnds(t *testing.T) {
	t.Parallel()
	for name, ctx := range map[string]context.Context{"replica": WithNeed(t.Context(), Need{}), "database": t.Context()} {
		tries := 0
		err := Retry(ctx, func() error {
			tries++
			return &pq.Error{Code: "40001"}
		})
		check.True(t, contended(err), "%s: got %v", name, err)
		check.Same(t, tries, map[string]int{"replica": 1, "database": StatementTries}[name], "tries on the %s", name)
	}
}
