package scaling_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/scaling"
)

// update prints the tables into the document instead of comparing them:
// go test ./integration/scaling -run TestDocument -update.
var update = flag.Bool("update", false, "print the tables into docs/scaling.md")

const document = "../../docs/scaling.md"

func TestDocument(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	tables := scaling.Tables(scaling.Measured())
	for _, table := range tables {
		begin, end := "<!-- table: "+table.Name+" -->\n", "<!-- end -->"
		before, rest, found := strings.Cut(text, begin)
		shown, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Errorf("%s has no %q with an end", document, begin)
			continue
		}
		if want := table.String(); shown != want && !*update {
			t.Errorf("table %s is\n%s\nwant, as it is calculated,\n%s", table.Name, shown, want)
		}
		text = before + begin + table.String() + end + after
	}
	if got := strings.Count(text, "<!-- table: "); got != len(tables) {
		t.Errorf("%s has places for %d tables, want %d", document, got, len(tables))
	}
	if *update {
		if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
