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
	tables := scaling.Tables(figures(t))
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

// figures are those of the pages as they lie there: after one was written anew, the
// document is printed again with -update.
func figures(t *testing.T) scaling.Inputs {
	t.Helper()
	read := func(name string) string {
		content, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	in, err := scaling.Measured(scaling.Pages{
		Bench: read("benchmarks.md"), Reads: read("benchmarks-reads.md"), Schema: read("benchmarks-schema.md"),
	})
	if err != nil {
		t.Fatalf("the figures cannot be read; let integration/scaling/inputs.go look for what the pages say now:\n%v", err)
	}
	return in
}

func TestFiguresComeFromThePages(t *testing.T) {
	t.Parallel()
	const bench = `
| ingest 1,000,000 × 1 KB, Kafka to PostgreSQL | 21,500 /s | a | 8 | b | yes | the processors: 92 % busy, 3 % with others' work; a record takes PostgreSQL 61 µs, ingester 12.5 µs, Kafka 6 µs |
| ingest 1,000,000 × 1 KB, Kafka to PostgreSQL | 1 /s | a | 8 | b | yes | as above |
- 4 cores (some)
`
	in, err := scaling.Measured(scaling.Pages{Bench: bench})
	if in.IngestRate.Value != 21_500 || in.IngestPostgres.Value != 61 || in.IngestIngester.Value != 12.5 || in.IngestKafka.Value != 6 || in.Cores.Value != 4 {
		t.Errorf("got %v, %v, %v, %v, %v, want those of the first such row", in.IngestRate, in.IngestPostgres, in.IngestIngester, in.IngestKafka, in.Cores)
	}
	if in.IngestOthers.Value != 3 {
		t.Errorf("others took %v %%, want 3", in.IngestOthers.Value)
	}
	if want := `docs/benchmarks.md: there is no row that begins with "retry-all of 100,000 × 1 KB"`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want %s", err, want)
	}
}
