package search

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// Limits that bound the memory of an export. One statement reads at most ExportStep messages, and leaves out each key,
// header list, value or error message that is longer than ExportBytes. A message with such a long part is read by a
// statement of its own, unless only its value is too long and the caller does not want the value.
const (
	ExportStep  = 250
	ExportBytes = 16 << 10
)

// An export first tests a sample of exportSample messages for the filter's words. When at least exportHits of them
// contain the words, the export tests all messages one by one.
const (
	exportSample = 5000
	exportHits   = exportSample / 100
)

// Export implements repository.Searcher. It reads through a cursor of the database, so all messages come from one
// snapshot, however long the caller takes for each.
func (s *Searcher) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	if q.Limit < 1 {
		return nil
	}
	from := codec.SourceOf(q.Archived)
	n, err := s.scopes.Resolve(ctx, q.Filter, from)
	if err != nil {
		return conn.Translate("export messages", err)
	}
	var refused, broken error
	begun := false
	once := func(m *entity.Message) error { begun = true; return yield(m) }
	err = Bounded(ctx, s.db, s.SearchTimeout, func(tx *sqlx.Tx) error {
		if begun { // begun says that the caller has received messages already, so the export must not start again
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
	return conn.Translate("export messages", err)
}

// exportQuery returns the query of an export. It merges the rows of several walks (see Walks) in the order of the
// export. The merge copies only pointers to the bytes of the records, because PostgreSQL stores these out of line.
func exportQuery(from codec.Source, q repository.ExportQuery, n Scope, how string) (string, []any) {
	a := &Arguments{First: 1, Version: n.Version}
	walks := a.ways(q.Filter, n, how)
	if len(walks) == 0 {
		a.Values, walks = nil, [][]string{{"false"}}
	}
	conditions := append(a.Conditions(q.Filter), a.words(q.Filter, how)...)
	table, columns, consumption := from.View, wholeColumns, codec.ConsumptionOf
	if q.Parts != nil {
		columns, consumption = partColumns(*q.Parts), ""
		if *q.Parts == (repository.RecordParts{}) {
			table = from.Table
		}
	}
	for i, walk := range walks {
		walks[i] = []string{"(SELECT m.* FROM " + table + " m WHERE " + And(append(walk, conditions...)...) +
			" ORDER BY m.created_at DESC, m.id DESC)"}
	}
	return `
	SELECT ` + columns + `
	FROM (` + Join(walks, "\n\tUNION ALL\n\t") + `) m
	LEFT JOIN LATERAL (SELECT name FROM dlq.topics WHERE id = m.dlq_topic_id OFFSET 0) t ON true` + consumption + `
	ORDER BY m.created_at DESC, m.id DESC LIMIT ` + a.Arg(q.Limit) + `::bigint`, a.Values
}

// wholeColumns are the columns of an export of whole messages. Parts longer than ExportBytes are NULL.
var (
	exportBytes  = codec.Bigint(ExportBytes)
	wholeColumns = codec.StateColumnsBefore +
		"CASE WHEN octet_length(m.error_message) <= " + exportBytes + " THEN m.error_message END AS error_message" +
		codec.StateColumnsBehind + `, ` + codec.ByteColumnsWith(codec.KeyUpTo(exportBytes), exportBytes, codec.HeadersUpTo(exportBytes)) +
		`, ` + codec.ConsumptionColumns + `,
		coalesce(octet_length(m.key), 0) > ` + exportBytes + ` OR octet_length(m.error_message) > ` + exportBytes + ` AS cut`
)

// partColumns returns the columns of an export that needs only some parts of the records.
func partColumns(p repository.RecordParts) string {
	columns := `m.id, m.created_at, m.original_topic, t.name AS dlq_topic, m.dlq_topic_id, m.status, m.error_class, m.consumer_group,
		m.dialect, m.group_id, ` + strconv.FormatBool(p.Key) + " AND octet_length(m.key) > " + exportBytes + " AS cut"
	if p.Key {
		columns += ", octet_length(m.key) AS key_size, " + codec.KeyUpTo(exportBytes)
	}
	if p.Headers {
		columns += ", octet_length(m.headers) > 1 AS has_headers, " + codec.HeadersUpTo(exportBytes) + " AS headers"
	}
	if p.Value {
		columns += ", " + codec.ValueUpTo(exportBytes)
	}
	return columns
}

// howToExport returns LeaveOut for a filter without words. It returns testEach when many messages of the sample contain
// the filter's words, or when so few messages match the rest of the filter that all of them were tested. Otherwise it
// returns findFirst.
func howToExport(ctx context.Context, tx *sqlx.Tx, from codec.Source, q repository.ExportQuery, n Scope) (string, error) {
	if !q.Filter.NeedsSearchIndex() {
		return "", nil
	}
	l, err := scanMessages(ctx, tx, from, repository.SearchQuery{Filter: q.Filter, Limit: exportHits}, n, exportSample)
	if l.all || len(l.hits) >= exportHits {
		return testEach, err
	}
	return findFirst, err
}

// exporter fetches messages from the database cursor "exported" of its transaction.
type exporter struct {
	next, whole *sqlx.Stmt
	maxValue    int64
}

func newExporter(ctx context.Context, tx *sqlx.Tx, from codec.Source, maxValue int64) (*exporter, error) {
	next, err := tx.PreparexContext(ctx, fmt.Sprintf("FETCH %d FROM exported", ExportStep))
	if err != nil {
		return nil, err
	}
	whole, err := tx.PreparexContext(ctx, codec.OneQuery(from, codec.AnyKey))
	return &exporter{next: next, whole: whole, maxValue: maxValue}, err
}

// exported is a message that the cursor returned. cut says that its key or its error message was left out because it is
// too long.
type exported struct {
	message entity.Message
	cut     bool
}

// run passes all messages to yield. It returns an error of yield as refused, and an error of the database as err.
func (e *exporter) run(ctx context.Context, yield func(*entity.Message) error) (refused, err error) {
	step := make([]exported, 0, ExportStep)
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
			step[i] = exported{} // lets the garbage collector free the bytes of this row
		}
		ctx = traces.Quiet(ctx) //nolint:fatcontext // wrapped once; only the first read has a span
		if len(step) < ExportStep {
			return nil, nil
		}
	}
}

// fetch appends the cursor's next messages to step.
func (e *exporter) fetch(ctx context.Context, step []exported) ([]exported, error) {
	rows, err := e.next.Stmt.QueryContext(ctx) //nolint:rowserrcheck // codec.ScanRows checks it
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // codec.ScanRows has returned the error of rows.Err
	err = codec.ScanRows(rows, func(r *codec.ScannedRow) error {
		m, err := r.MessageToShow()
		step = append(step, exported{m, r.Cut.Bool})
		return err
	})
	return step, err
}

// message returns the message that the cursor returned. When a part that the caller wants was left out because it is
// too long, it reads the message again with a separate query.
func (e *exporter) message(ctx context.Context, r *exported) (*entity.Message, error) {
	m := &r.message
	left := m.Record.State == entity.ValueNotLoaded && (e.maxValue < 0 || e.maxValue > ExportBytes && m.Record.Size <= e.maxValue)
	if r.cut || m.Record.HeadersOmitted || left {
		var one codec.Row
		if err := e.whole.GetContext(ctx, &one, m.ID, e.maxValue); err != nil {
			return nil, err
		}
		whole, err := one.MessageToShow()
		return &whole, err
	}
	if e.maxValue >= 0 && m.Record.Value != nil && m.Record.Size > e.maxValue {
		m.Record.State, m.Record.Value = entity.ValueNotLoaded, nil
	}
	return m, nil
}
