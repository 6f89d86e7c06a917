package search

import (
	"context"
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

	SearchTimeout, CountTimeout time.Duration // of a statement with a filter of a user
	SearchTime, rangeTime       time.Duration // of a free-text search
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

// Settings of the planner for the two ways to find the messages of a filter. walkedInOrder reads an index in the
// order of the page and ends with the page's last message. foundTogether also allows to collect all messages of the
// filter and sort them. PostgreSQL prefers that where its statistics say that messages are few. But statistics may
// be old: for a topic that has been flooded since, it would collect everything for every page, while a walk is fast
// in both cases. So foundTogether is only for filters that no index has in order: those with words, with too many
// topics, or with alternatives of which one has no index.
const (
	walkedInOrder = `SET LOCAL enable_bitmapscan = off`
	foundTogether = `SET LOCAL enable_bitmapscan = on`
)

// way returns the settings of the planner for a filter.
func way(f entity.Filter, n Scope) string {
	if n.Pairs == nil && (f.Topic != "" || f.UnknownOrigin) && alternatives(f, n) {
		return foundTogether // not every alternative has a walk
	}
	if _, inOrder := (&Arguments{First: 1}).apart(f, n); inOrder {
		return walkedInOrder
	}
	return foundTogether
}

// readMessages runs a query for messages. It is prepared in the transaction, so that the statement timeout also ends
// a wait for a lock: the driver would wait without limit.
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
	defer func() { _ = rows.Close() }() // rows.Err reports it
	found := make([]entity.Message, 0, codec.Expected)
	var shown codec.ShownPage
	err = codec.ScanRows(rows, func(r *codec.ScannedRow) error {
		m, err := shown.Message(ctx, &r.Row)
		found = append(found, m)
		return err
	})
	return found, err
}

// plain reports whether a page is one range of an index: of all messages or of one original topic, by creation. Such
// a query needs no plan for its arguments and no transaction. Matches of any other filter may be rare or common,
// which the planner must know.
func plain(q repository.SearchQuery, n Scope) bool {
	return q.Sort.By == repository.ByCreated && !n.Number.Valid &&
		reflect.DeepEqual(q.Filter, entity.Filter{Topic: q.Filter.Topic})
}

// plainPage answers a plain query in one round trip.
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

// tooLong converts the error of a statement that was ended by its own time limit, not by its caller's context, into a
// *repository.TooBroadError.
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

// Bounded runs do in one snapshot, in statements that take no longer than limit; a longer one is a
// *repository.TooBroadError. settings run first, in the same round trip. do is called again in another transaction
// when the connection is broken: the pool repeats only statements outside of a transaction.
func Bounded(ctx context.Context, db *conn.DB, limit time.Duration, do func(tx *sqlx.Tx) error, settings ...string) error {
	err := boundedOnce(ctx, db, limit, do, settings)
	if ctx.Err() == nil && (errors.Is(err, driver.ErrBadConn) || conn.RoleMayBeGone(err)) {
		err = boundedOnce(ctx, db, limit, do, settings)
	}
	return err
}

func boundedOnce(ctx context.Context, db *conn.DB, limit time.Duration, do func(tx *sqlx.Tx) error, settings []string) error {
	tx, err := db.Pool.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	all := append([]string{fmt.Sprintf(
		`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = %d`,
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

// readRows runs a query into dest, a pointer to a slice. It is prepared to read bytea in binary, see conn.DB.Prepared,
// and still planned for its arguments: PostgreSQL does so the first five times.
func readRows(ctx context.Context, tx *sqlx.Tx, dest any, query string, args ...any) error {
	st, err := tx.PreparexContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	return st.SelectContext(ctx, dest, args...)
}
