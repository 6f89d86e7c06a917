package postgres

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// Limits of one read of an export: messages, and bytes of each part; a message with a larger part is read alone. This
// bounds the memory.
const (
	exportStep  = 250
	exportBytes = 16 << 10
)

// When at least this many of the sampled messages have a filter's words, the export tests message by message.
const (
	exportSample = 5000
	exportHits   = exportSample / 100
)

// Export implements repository.Searcher. A cursor keeps the snapshot: the caller may take any time for a message.
func (s *Store) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	if q.Limit < 1 {
		return nil
	}
	from := sourceOf(q.Archived)
	n, err := s.namesOf(ctx, q.Filter, from)
	if err != nil {
		return translate("export messages", err)
	}
	var refused, broken error
	begun := false
	once := func(m *entity.Message) error { begun = true; return yield(m) }
	err = s.bounded(ctx, s.searchPatience, func(tx *sqlx.Tx) error {
		if begun { // what was yielded cannot be taken back
			return broken
		}
		how, err := howToExport(ctx, tx, from, q, n)
		if err != nil {
			return err
		}
		query, args := exportQuery(from, q, n, how)
		if _, err := tx.ExecContext(ctx, "DECLARE exported NO SCROLL CURSOR FOR "+query, args...); err != nil {
			return err
		}
		e, err := newExporter(ctx, tx, from, q.MaxValue)
		if err != nil {
			return err
		}
		refused, err = e.run(ctx, once)
		broken = err
		return err
	})
	if refused != nil {
		return refused
	}
	return translate("export messages", err)
}

// exportQuery merges the rows of its walks with pointers to their bytes only.
func exportQuery(from source, q repository.ExportQuery, n names, how string) (string, []any) {
	a := &arguments{first: 1, version: n.version}
	walks := a.ways(q.Filter, n, how)
	if len(walks) == 0 {
		a.values, walks = nil, [][]string{{"false"}}
	}
	conditions := append(a.conditions(q.Filter), a.words(q.Filter, how)...)
	for i, walk := range walks {
		walks[i] = []string{"(SELECT m.* FROM " + from.view + " m WHERE " + and(append(walk, conditions...)...) +
			" ORDER BY m.created_at DESC, m.id DESC)"}
	}
	limit := a.arg(exportBytes) + "::bigint"
	errorMessage := "CASE WHEN octet_length(m.error_message) <= " + limit + " THEN m.error_message END AS error_message"
	return `
	SELECT ` + stateColumnsBefore + errorMessage + stateColumnsBehind + `, ` + byteColumnsWith(keyUpTo(limit), limit, headersUpTo(limit)) + `, ` + consumptionColumns + `,
		coalesce(octet_length(m.key), 0) > ` + limit + ` OR octet_length(m.error_message) > ` + limit + ` AS cut
	FROM (` + join(walks, "\n\tUNION ALL\n\t") + `) m
	LEFT JOIN LATERAL (SELECT name FROM dlq.topics WHERE id = m.dlq_topic_id OFFSET 0) t ON true` + consumptionOf + `
	ORDER BY m.created_at DESC, m.id DESC LIMIT ` + a.arg(q.Limit) + `::bigint`, a.values
}

// howToExport chooses to test message by message when many have a filter's words, or when the rest of the filter
// leaves few.
func howToExport(ctx context.Context, tx *sqlx.Tx, from source, q repository.ExportQuery, n names) (string, error) {
	if !q.Filter.Catalogued() {
		return "", nil
	}
	l, err := probe(ctx, tx, from, repository.SearchQuery{Filter: q.Filter, Limit: exportHits}, n, exportSample)
	if l.all || len(l.hits) >= exportHits {
		return lookUp, err
	}
	return findFirst, err
}

// exporter reads from the cursor "exported" of its transaction.
type exporter struct {
	next, whole *sqlx.Stmt
	maxValue    int64
}

func newExporter(ctx context.Context, tx *sqlx.Tx, from source, maxValue int64) (*exporter, error) {
	next, err := tx.PreparexContext(ctx, fmt.Sprintf("FETCH %d FROM exported", exportStep))
	if err != nil {
		return nil, err
	}
	whole, err := tx.PreparexContext(ctx, oneQuery(from, anyKey))
	return &exporter{next: next, whole: whole, maxValue: maxValue}, err
}

// exported is a message as the cursor returns it. It may be cut: its key or its error message is too long.
type exported struct {
	message entity.Message
	cut     bool
}

// run yields all messages. It returns an error of yield apart from those of the store.
func (e *exporter) run(ctx context.Context, yield func(*entity.Message) error) (refused, err error) {
	step := make([]exported, 0, exportStep)
	for {
		if step, err = e.fetch(ctx, step[:0]); err != nil {
			return nil, err
		}
		for i := range step {
			m, err := e.message(ctx, &step[i])
			if err != nil {
				return nil, err
			}
			if err := yield(m); err != nil {
				return err, nil
			}
			step[i] = exported{} // release its bytes
		}
		ctx = traces.Quiet(ctx) //nolint:fatcontext // wrapped once; only the first read has a span
		if len(step) < exportStep {
			return nil, nil
		}
	}
}

// fetch appends the cursor's next messages to step.
func (e *exporter) fetch(ctx context.Context, step []exported) ([]exported, error) {
	rows, err := e.next.Stmt.QueryContext(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err reports it
	err = scanRows(rows, func(r *scannedRow) error {
		m, err := r.messageToShow()
		step = append(step, exported{m, r.Cut.Bool})
		return err
	})
	return step, err
}

// message returns the message of a row. It reads the message again alone when its bytes are too many to be read with
// others.
func (e *exporter) message(ctx context.Context, r *exported) (*entity.Message, error) {
	m := &r.message
	left := m.Record.State == entity.ValueNotLoaded && (e.maxValue < 0 || e.maxValue > exportBytes && m.Record.Size <= e.maxValue)
	if r.cut || m.Record.HeadersOmitted || left {
		var one row
		if err := e.whole.GetContext(ctx, &one, m.ID, e.maxValue); err != nil {
			return nil, err
		}
		whole, err := one.messageToShow()
		return &whole, err
	}
	if e.maxValue >= 0 && m.Record.Value != nil && m.Record.Size > e.maxValue {
		m.Record.State, m.Record.Value = entity.ValueNotLoaded, nil
	}
	return m, nil
}
