package search

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Searcher implements repository.Searcher.
type Searcher struct {
	db     *conn.DB
	scopes *Scopes

	SearchTimeout, CountTimeout time.Duration // time limits of a search or an export, and of a count
	SearchTime, rangeTime       time.Duration // time limits of one page of a free-text search, and of one of the statements that search for it
}

// New returns a Searcher with the time limits of production.
func New(db *conn.DB, scopes *Scopes) *Searcher {
	return &Searcher{
		db: db, scopes: scopes,
		SearchTimeout: searchTimeout, CountTimeout: CountTimeout, SearchTime: searchTime, rangeTime: rangeTime,
	}
}

// Search implements repository.Searcher.
func (s *Searcher) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	if q.Limit < 1 {
		return repository.SearchPage{}, nil
	}
	from := codec.SourceOf(q.Archived)
	n, err := s.scopes.Resolve(ctx, q.Filter, from)
	if err != nil {
		return repository.SearchPage{}, conn.Translate("search messages", err)
	}
	if plain(q, n) {
		messages, err := s.plainPage(ctx, from, q, n)
		return repository.SearchPage{Messages: messages}, err
	}
	var page repository.SearchPage
	err = Bounded(ctx, s.db, s.SearchTimeout, func(tx *sqlx.Tx) (err error) {
		var p *idQuery
		if page = (repository.SearchPage{}); q.Filter.NeedsSearchIndex() {
			if p, page.Next, err = s.searchText(ctx, tx, from, q, n); err != nil {
				return err
			}
		} else {
			p = Listed(from, q, n, LeaveOut)
		}
		query, args := PageQuery(from, p)
		page.Messages, err = readMessages(ctx, tx, query, args)
		return err
	}, way(q.Filter, n))
	return page, conn.Translate("search messages", err)
}

// Settings of the planner for the two ways to find the messages of a filter. With walkedInOrder PostgreSQL walks an
// index in the order of the page and stops after the page's last message. With foundTogether it may also collect all
// messages of the filter and sort them. PostgreSQL prefers to collect when its statistics say that few messages match.
// But the statistics may be old: when a topic was flooded since then, PostgreSQL would collect the whole topic for
// every page, while a walk is fast with few and with many matches. So foundTogether is only used for filters whose
// messages no index has in order: filters with words, with too many topics, or with alternatives (see the function of
// this name).
const (
	walkedInOrder = `SET LOCAL enable_bitmapscan = off`
	foundTogether = `SET LOCAL enable_bitmapscan = on`
)

// way returns the setting of the planner for a filter.
func way(f entity.Filter, n Scope) string {
	if n.Pairs == nil && (f.Topic != "" || f.UnknownOrigin) && alternatives(f, n) {
		return foundTogether // the messages of the alternatives are in no index in the order of the page
	}
	if _, inOrder := (&Arguments{First: 1}).apart(f, n); inOrder {
		return walkedInOrder
	}
	return foundTogether
}

// readMessages runs a query for messages. It prepares the query in the transaction, so that the statement timeout also
// ends a wait for a lock; otherwise the driver would wait without limit.
func readMessages(ctx context.Context, tx *sqlx.Tx, query string, args []any) ([]entity.Message, error) {
	st, err := tx.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = st.Close() }()
	rows, err := st.QueryContext(ctx, args...) //nolint:rowserrcheck // codec.ScanRows checks it
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // codec.ScanRows has returned the error of rows.Err
	found := make([]entity.Message, 0, codec.Expected)
	var shown codec.ShownPage
	err = codec.ScanRows(rows, func(r *codec.ScannedRow) error {
		m, err := shown.Message(ctx, &r.Row)
		found = append(found, m)
		return err
	})
	return found, err
}

// plain reports whether a page is one range of one index: all messages, or those of one original topic, sorted by
// creation. The query for such a page needs no transaction and no plan for its arguments. The queries for other filters
// need both, because the planner must know whether few or many messages match their arguments.
func plain(q repository.SearchQuery, n Scope) bool {
	return q.Sort.By == repository.ByCreated && !n.Number.Valid &&
		reflect.DeepEqual(q.Filter, entity.Filter{Topic: q.Filter.Topic})
}

// plainPage reads a plain page in one round trip.
func (s *Searcher) plainPage(ctx context.Context, from codec.Source, q repository.SearchQuery, n Scope) ([]entity.Message, error) {
	bounded, cancel := context.WithTimeout(ctx, s.SearchTimeout)
	defer cancel()
	query, args := PageQuery(from, Listed(from, q, n, LeaveOut))
	messages := make([]entity.Message, 0, min(q.Limit, codec.Expected))
	var shown codec.ShownPage
	err := codec.EachRow(bounded, s.db, query, args, nil, func(r *codec.Row) error {
		m, err := shown.Message(ctx, r)
		messages = append(messages, m)
		return err
	})
	if err != nil {
		return nil, conn.Translate("search messages", tooLong(ctx, bounded, err))
	}
	return messages, nil
}

// tooLong returns a *repository.TooBroadError for a statement that ended because of its own time limit. When the
// statement ended because of the caller's context, tooLong returns err.
func tooLong(caller, own context.Context, err error) error {
	ended := errors.Is(err, context.DeadlineExceeded) || conn.Canceled(err)
	if ended && own.Err() != nil && caller.Err() == nil {
		return &repository.TooBroadError{}
	}
	return err
}

// Time limits of a statement with a filter of a user: of a search or an export, and of an exact count.
const (
	searchTimeout = 10 * time.Second
	CountTimeout  = 5 * time.Second
)

// Bounded runs do in one snapshot. Its statements may take no longer than limit; when one does, Bounded returns a
// *repository.TooBroadError. The statements in settings run first, in the same round trip. When the connection breaks
// or its role may have been dropped, do is called again in another transaction, because the pool repeats only
// statements outside of a transaction.
func Bounded(ctx context.Context, db *conn.DB, limit time.Duration, do func(tx *sqlx.Tx) error, settings ...string) error {
	err := boundedOnce(ctx, db, limit, do, settings)
	if ctx.Err() == nil && (errors.Is(err, driver.ErrBadConn) || conn.RoleMayBeGone(err)) {
		err = boundedOnce(ctx, db, limit, do, settings)
	}
	return err
}

func boundedOnce(ctx context.Context, db *conn.DB, limit time.Duration, do func(tx *sqlx.Tx) error, settings []string) error {
	tx, err := db.Pool.BeginTxx(ctx, &sql.TxOptions{ReadOnly: true}) // a replica accepts only transactions that are read-only
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // ends the transaction, which has only read
	all := append([]string{fmt.Sprintf(
		`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET LOCAL statement_timeout = %d`,
		max(1, limit.Milliseconds()))}, settings...)
	_, err = tx.ExecContext(ctx, strings.Join(all, "; "))
	if err == nil {
		err = do(tx)
	}
	if conn.Canceled(err) && ctx.Err() == nil {
		return &repository.TooBroadError{}
	}
	return err
}

// readRows runs a query into dest, a pointer to a slice. It prepares the query to read bytea in binary form; see
// conn.DB.Prepared. PostgreSQL plans the query for its arguments nevertheless, because it does so the first five times.
func readRows(ctx context.Context, tx *sqlx.Tx, dest any, query string, args ...any) error {
	st, err := tx.PreparexContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	return st.SelectContext(ctx, dest, args...)
}
