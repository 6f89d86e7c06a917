package postgres

import (
	"testing"

	"github.com/jmoiron/sqlx"
)

// storeDocuments stores documents by SQL: of messages of a FROM clause m, with the columns
// text and terms.
func storeDocuments(t testing.TB, db *sqlx.DB, text, terms, from string, args ...any) {
	t.Helper()
	for _, s := range []struct {
		query string
		args  []any
	}{
		{`SELECT dlq.create_document_partitions(ARRAY(SELECT m.created_at FROM ` + from + `))`, nil},
		{`INSERT INTO dlq.message_documents (message_id, created_at, version, text, terms) SELECT m.id, m.created_at, 1, ` + text + `, ` + terms + ` FROM ` + from, args},
	} {
		if _, err := db.Exec(s.query, s.args...); err != nil {
			t.Fatal(err)
		}
	}
}
