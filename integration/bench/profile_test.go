package main

import (
	"testing"
	"time"
)

func TestReadTop(t *testing.T) {
	t.Parallel()
	const text = `File: ingester
Type: cpu
Duration: 10.12s, Total samples = 4.50s (44.47%)
Showing nodes accounting for 3.10s, 68.89% of 4.50s total
      flat  flat%   sum%        cum   cum%
     1.50s 33.33% 33.33%      1.60s 35.56%  encoding/json.checkValid
     0.90s 20.00% 53.33%      0.90s 20.00%  github.com/dlq-manager/dlq-manager/pkg/repository/postgres.(*column).bytes (inline)
      80ms  1.78% 55.11%      2.10s 46.67%  github.com/lib/pq.(*conn).recv[...]
         0     0% 55.11%      4.00s 88.89%  main.main
`
	got, all, err := readTop(text)
	if err != nil || all != 4500*time.Millisecond || len(got) != 4 {
		t.Fatalf("readTop = %v of %s, %v, want 4 of 4.5s", got, all, err)
	}
	for i, want := range []spent{{what: "json.checkValid", share: 0.3333}, {what: "postgres.(*column).bytes", share: 0.2}, {what: "pq.(*conn).recv[...]", share: 0.0178}, {what: aloneName, share: 1.4 / 4.5}} {
		if got[i].what != want.what || got[i].share < want.share-1e-9 || got[i].share > want.share+1e-9 {
			t.Errorf("readTop[%d] = %+v, want %+v", i, got[i], want)
		}
	}
	if _, _, err := readTop("no profile"); err == nil {
		t.Error("readTop of nothing = nil, want an error")
	}
}

func TestShortStatement(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"WITH a AS (\n UPDATE dlq.ingest_positions p SET x = $1), b AS (INSERT INTO dlq.dlq_messages (a) SELECT 1) SELECT 1 FROM dlq.returns": "with a: UPDATE ingest_positions, INSERT dlq_messages",
		"SELECT a FROM dlq.dlq_messages m JOIN x ON true WHERE b IN (SELECT b FROM dlq.attempts)":                                             "SELECT dlq_messages, SELECT attempts",
		"WITH want AS (SELECT id FROM unnest($1)) SELECT 1 FROM want JOIN dlq.a ON true":                                                      "with want: SELECT a",
		"insert into dlq.a select 1": "INSERT a",
		"DELETE FROM ONLY dlq.a":     "DELETE a",
		"BEGIN":                      "BEGIN",
		"UPDATE dlq.a SET x = 1; UPDATE dlq.b SET x = 1; UPDATE dlq.c SET x = 1; UPDATE dlq.d SET x = 1": "UPDATE a, UPDATE b, UPDATE c, …",
		"SELECT a FROM dlq.b FOR NO KEY UPDATE":                                                          "SELECT b",
	} {
		if got := shortStatement(query); got != want {
			t.Errorf("shortStatement(%q) = %q, want %q", query, got, want)
		}
	}
}

func TestReadProduced(t *testing.T) {
	t.Parallel()
	const text = "12000 records sent, 2400.0 records/sec (4.1 MB/sec), 10 ms avg latency\n" +
		"300000 records sent, 60000.000000 records/sec (91.55 MB/sec), 250.07 ms avg latency, 400.00 ms max latency.\n"
	got, said, err := readProduced(text)
	if err != nil || got != (rate{300_000, 5 * time.Second}) || said == "" {
		t.Errorf("readProduced = %+v, %q, %v, want 300000 in 5s", got, said, err)
	}
	for _, bad := range []string{"", "100 records sent, 0.0 records/sec"} {
		if _, _, err := readProduced(bad); err == nil {
			t.Errorf("readProduced(%q) = nil, want an error", bad)
		}
	}
}

func TestSampleMakesNewRowsOfStoredOnes(t *testing.T) {
	t.Parallel()
	s := &sample{
		columns: []string{"id", "claim_id", "dlq_offset", "created_at", "updated_at", "value"},
		rows:    [][]any{{"1", nil, "7", "then", "then", `\x01`}, {"2", nil, "8", "then", "then", nil}},
	}
	s.shrink()
	if err := s.find(); err != nil {
		t.Fatal(err)
	}
	if len(s.columns) != 5 || len(s.rows[1]) != 5 {
		t.Fatalf("%v with %v, want no column that is empty in all rows", s.columns, s.rows)
	}
	seen := map[any]bool{}
	for range 4 {
		row, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		if seen[row[s.id]] || seen[row[s.offset]] || row[s.created] != row[s.updated] || row[s.created] == "then" {
			t.Errorf("next() = %v, want another id and offset and one new time", row)
		}
		seen[row[s.id]], seen[row[s.offset]] = true, true
	}
	if s.rows[0][0] != "1" || s.rows[1][4] != nil {
		t.Errorf("the rows were changed: %v", s.rows)
	}
	const text = "INSERT INTO dlq.dlq_messages (id, dlq_offset, created_at, updated_at, value) VALUES ($1, $2, $3, $4, $5)"
	if got := s.insertText(); got != text {
		t.Errorf("insertText() = %q, want %q", got, text)
	}
	if err := (&sample{columns: []string{"id"}}).find(); err == nil {
		t.Error("find() without an offset = nil, want an error")
	}
}

func TestSizedLettersHaveTheirSize(t *testing.T) {
	t.Parallel()
	l := newLetters()
	for _, want := range []int{100, 1000, 100_000} {
		if got := len(l.sized(want)); got != want {
			t.Errorf("sized(%d) has %d bytes", want, got)
		}
	}
}
