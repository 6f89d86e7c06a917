package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Search implements repository.Searcher.
func (s *Store) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	if q.Limit < 1 {
		return repository.SearchPage{}, nil
	}
	from := sourceOf(q.Archived)
	n, err := s.namesOf(ctx, q.Filter, from)
	if err != nil {
		return repository.SearchPage{}, translate("search messages", err)
	}
	if plain(q, n) {
		messages, err := s.plainPage(ctx, from, q, n)
		return repository.SearchPage{Messages: messages}, err
	}
	var page repository.SearchPage
	err = s.bounded(ctx, s.searchPatience, func(tx *sqlx.Tx) (err error) {
		var p *places
		if page = (repository.SearchPage{}); q.Filter.Catalogued() {
			if p, page.Next, err = s.searchText(ctx, tx, from, q, n); err != nil {
				return err
			}
		} else {
			p = listed(from, q, n, leaveOut)
		}
		query, args := pageQuery(from, p)
		page.Messages, err = readMessages(ctx, tx, query, args)
		return err
	}, way(q.Filter, n))
	return page, translate("search messages", err)
}

// Ways to find the messages of a filter. A walk in order ends with the page's last message. Collecting and sorting is
// faster for few messages, but PostgreSQL's statistics may be old: for a topic that has been flooded since, it would
// collect everything for every page. A walk is equally fast when there are few. Too many topics, words, and
// alternatives without an index for each can only be collected.
const (
	walkedInOrder = `SET LOCAL enable_bitmapscan = off`
	foundTogether = `SET LOCAL enable_bitmapscan = on`
)

func way(f entity.Filter, n names) string {
	if n.pairs == nil && (f.Topic != "" || f.UnknownOrigin) && alternatives(f, n) {
		return foundTogether // not every alternative has a walk
	}
	if _, inOrder := (&arguments{first: 1}).apart(f, n); inOrder {
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
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err reports it
	found := make([]entity.Message, 0, expected)
	var shown shownPage
	err = scanRows(rows, func(r *scannedRow) error {
		m, err := shown.message(ctx, &r.row)
		found = append(found, m)
		return err
	})
	return found, err
}

// places is a query that returns id, at (the time by which the list is sorted) and created_at in an order, and its
// arguments.
type places struct {
	arguments
	query string
	order string

	noValues bool // do not load the values of the messages
}

// Treatment of a filter's words, and of every other condition that needs the search index.
const (
	leaveOut  = ""      // not part of this query
	lookUp    = "look"  // the document of each message is tested
	findFirst = "first" // documents are found first, and then their messages
)

func (a *arguments) words(f entity.Filter, how string) []string {
	switch how {
	case findFirst:
		return []string{a.found(f)}
	case lookUp:
		return []string{a.lookedUp(f)}
	}
	return nil
}

// ways returns the walks, or at most one when the messages are already known.
func (a *arguments) ways(f entity.Filter, n names, how string) [][]string {
	if how == findFirst {
		return [][]string{a.named(f, n)}
	}
	if walks, apart := a.walksOfPairs(f, n); apart {
		return walks
	}
	return a.walks(f, n)
}

// stretch is a part of a list.
type stretch struct {
	limit  int
	within string // a condition on m; "": none
	first  int    // number of its first parameter
}

// listed returns the query for the places of a page.
func listed(from source, q repository.SearchQuery, n names, how string) *places {
	return listedIn(from, q, n, how, stretch{limit: q.Limit, first: 1})
}

// listedIn returns the query for a part of the list that q asks for.
func listedIn(from source, q repository.SearchQuery, n names, how string, s stretch) *places {
	p := &places{arguments: arguments{first: s.first, version: n.version}, noValues: q.NoValues}
	p.order = order(q.Sort, "at", "id")
	column := sortColumn(q.Sort)
	walks := p.ways(q.Filter, n, how)
	if len(walks) == 0 {
		p.values = nil // they are not parameters of the query
		p.query = "SELECT NULL::uuid AS id, NULL::timestamptz AS at, NULL::timestamptz AS created_at WHERE false"
		return p
	}
	conditions := append(p.conditions(q.Filter), p.words(q.Filter, how)...)
	if q.Sort.By == repository.ByLastRetry {
		conditions = append(conditions, "m.last_retry_at IS NOT NULL")
	}
	conditions = append(conditions, p.behind(q)...)
	if s.within != "" {
		conditions = append(conditions, s.within)
	}
	limit := number(s.limit) // in the text, so that the planner knows that it is small
	if how != findFirst {
		walks = byStatus(walks, q)
	}
	for i, walk := range walks {
		walks[i] = []string{"(SELECT m.id, m." + column + " AS at, m.created_at FROM " + from.table + " m WHERE " + and(append(walk, conditions...)...) +
			" ORDER BY " + order(q.Sort, "m."+column, "m.id") + " LIMIT " + limit + ")"}
	}
	p.query = "SELECT id, at, created_at FROM (" + join(walks, "\n\tUNION ALL\n\t") + ") walked ORDER BY " + p.order + " LIMIT " + limit
	return p
}

// byStatus walks every status separately when no other condition selects an index.
func byStatus(walks [][]string, q repository.SearchQuery) [][]string {
	if len(walks) != 1 || len(walks[0]) > 0 || q.Filter.Group != uuid.Nil || q.Sort.By != repository.ByCreated {
		return walks
	}
	var each [][]string
	for _, s := range entity.Statuses() {
		if slices.Contains(q.Filter.Statuses, s) {
			each = append(each, []string{status([]entity.Status{s})})
		}
	}
	if len(each) < 2 || len(each) == len(entity.Statuses()) {
		return walks
	}
	return each
}

func join(walks [][]string, by string) string {
	texts := make([]string, len(walks))
	for i, w := range walks {
		texts[i] = and(w...)
	}
	return strings.Join(texts, by)
}

func sortColumn(s repository.Sort) string {
	if s.By == repository.ByLastRetry {
		return "last_retry_at"
	}
	return "created_at"
}

func order(s repository.Sort, at, id string) string {
	if s.Ascending {
		return at + ", " + id
	}
	return at + " DESC, " + id + " DESC"
}

// behind is the condition that m comes after the cursor of the page.
func (a *arguments) behind(q repository.SearchQuery) []string {
	if q.After == (repository.Place{}) {
		return nil
	}
	sign := "<"
	if q.Sort.Ascending {
		sign = ">"
	}
	return []string{"(m." + sortColumn(q.Sort) + ", m.id) " + sign +
		" (" + a.arg(entity.Moment(q.After.CreatedAt)) + "::timestamptz, " + a.arg(q.After.ID) + "::uuid)"}
}

// these are known messages, in the order of their rows.
func these(from source, q repository.SearchQuery, ids []uuid.UUID) *places {
	p := &places{arguments: arguments{first: 1}, order: order(q.Sort, "at", "id"), noValues: q.NoValues}
	p.query = "SELECT m.id, m." + sortColumn(q.Sort) + " AS at, m.created_at FROM unnest(" + p.arg(uuids(ids)) + "::uuid[]) AS w (id) " + from.join("w.id") +
		" ORDER BY " + p.order + " LIMIT " + number(q.Limit)
	return p
}

// pageQuery reads the messages of places, with bytes limited as in List.
func pageQuery(from source, p *places) (string, []any) {
	limit, page := number(repository.ListValueLimit), number(repository.ListPageLimit)
	values, size := "m.room", listedSize(limit)
	if p.noValues {
		values, size = "0", listedSizeWithout(limit)
	}
	return `
	SELECT ` + stateColumns + `, ` + byteColumns(values, "m.room") + `, ` + consumptionColumns + `
	FROM (
		SELECT m.*, place.ord, CASE WHEN sum(` + size + `) OVER (ORDER BY place.ord) <= ` + page + ` THEN ` + limit + ` ELSE 0 END AS room
		FROM (SELECT id, row_number() OVER (ORDER BY ` + p.order + `) AS ord FROM (` + p.query + `) placed) place
		` + from.joinView("place.id") + `
	) m
	LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id` + consumptionOf + `
	ORDER BY m.ord`, p.values
}

// listedSize is how many bytes of m a page loads: a part that is too large by itself does not count.
func listedSize(limit string) string {
	return listedSizeWithout(limit) + `
			+ CASE WHEN coalesce(octet_length(m.value), pg_column_size(m.payload)) <= ` + limit + `
			       THEN coalesce(octet_length(m.value), pg_column_size(m.payload)) ELSE 0 END`
}

// listedSizeWithout is listedSize without the value.
func listedSizeWithout(limit string) string {
	return `
			octet_length(m.error_message)
			+ CASE WHEN octet_length(m.key) <= ` + limit + ` THEN octet_length(m.key) ELSE 0 END
			+ CASE WHEN octet_length(m.headers) <= ` + limit + ` THEN octet_length(m.headers) ELSE 0 END`
}

// plain reports whether a page is one range of an index: of all messages or of one original topic, by creation. Such
// a query needs no plan for its arguments and no transaction. Matches of any other filter may be rare or common,
// which the planner must know.
func plain(q repository.SearchQuery, n names) bool {
	return q.Sort.By == repository.ByCreated && !n.number.Valid &&
		reflect.DeepEqual(q.Filter, entity.Filter{Topic: q.Filter.Topic})
}

// plainPage answers a plain query in one round trip.
func (s *Store) plainPage(ctx context.Context, from source, q repository.SearchQuery, n names) ([]entity.Message, error) {
	bounded, cancel := context.WithTimeout(ctx, s.searchPatience)
	defer cancel()
	query, args := pageQuery(from, listed(from, q, n, leaveOut))
	messages := make([]entity.Message, 0, min(q.Limit, expected))
	var shown shownPage
	err := s.eachRow(bounded, query, args, nil, func(r *row) error {
		m, err := shown.message(ctx, r)
		messages = append(messages, m)
		return err
	})
	if err != nil {
		return nil, translate("search messages", tooLong(ctx, bounded, err))
	}
	return messages, nil
}

// tooLong converts the error of a statement that was ended by its own time limit, not by its caller's context, into a
// *repository.TooBroadError.
func tooLong(caller, own context.Context, err error) error {
	ended := errors.Is(err, context.DeadlineExceeded) || isCanceled(err)
	if ended && own.Err() != nil && caller.Err() == nil {
		return &repository.TooBroadError{}
	}
	return err
}

// Time limits of a statement with a filter of a user: of a search or an export, and of an exact count.
const (
	searchPatience = 10 * time.Second
	countPatience  = 5 * time.Second
)

// bounded runs do in one snapshot, in statements that take no longer than patience; a longer one is a
// *repository.TooBroadError. settings run first, in the same round trip. do is called again in another transaction
// when the connection is broken: the pool repeats only statements outside of a transaction.
func (s *Store) bounded(ctx context.Context, patience time.Duration, do func(tx *sqlx.Tx) error, settings ...string) error {
	err := s.boundedOnce(ctx, patience, do, settings)
	if ctx.Err() == nil && (errors.Is(err, driver.ErrBadConn) || roleMayBeGone(err)) {
		err = s.boundedOnce(ctx, patience, do, settings)
	}
	return err
}

func (s *Store) boundedOnce(ctx context.Context, patience time.Duration, do func(tx *sqlx.Tx) error, settings []string) error {
	tx, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	all := append([]string{fmt.Sprintf(
		`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = %d`,
		max(1, patience.Milliseconds()))}, settings...)
	_, err = tx.ExecContext(ctx, strings.Join(all, "; "))
	if err == nil {
		err = do(tx)
	}
	if isCanceled(err) && ctx.Err() == nil {
		return &repository.TooBroadError{}
	}
	return err
}

// isCanceled reports whether the server cancelled a statement, because of its time limit or at the request of another
// session.
func isCanceled(err error) bool {
	var pe *pq.Error
	return errors.As(err, &pe) && pe.Code == "57014"
}

// readRows runs a query into dest, a pointer to a slice. It is prepared to read bytea in binary, see Store.stmt,
// and still planned for its arguments: PostgreSQL does so the first five times.
func readRows(ctx context.Context, tx *sqlx.Tx, dest any, query string, args ...any) error {
	st, err := tx.PreparexContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	return st.SelectContext(ctx, dest, args...)
}
