package search

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
)

// idQuery is a query for the ids of the messages of a page, with its arguments. It returns id, at (the time by which
// the list is sorted) and created_at, in the order of the page.
type idQuery struct {
	Arguments
	Query string
	order string

	noValues bool // whether the query leaves out the values of the messages
}

// The ways in which a query treats a filter's words and other conditions that need the search index.
const (
	LeaveOut  = ""      // without conditions on documents: the filter has none, or another query tests the documents
	testEach  = "look"  // messages are read first, and the document of each is tested
	findFirst = "first" // documents are found first, and then their messages
)

func (a *Arguments) words(f entity.Filter, how string) []string {
	switch how {
	case findFirst:
		return []string{a.found(f)}
	case testEach:
		return []string{a.DocumentMatches(f)}
	}
	return nil
}

// ways returns the walks of a filter; see Walks. With findFirst it returns a single walk, because the messages are
// found by their documents.
func (a *Arguments) ways(f entity.Filter, n Scope, how string) [][]string {
	if how == findFirst {
		return [][]string{a.Named(f, n)}
	}
	if walks, apart := a.WalksOfPairs(f, n); apart {
		return walks
	}
	return a.Walks(f, n)
}

// listPart limits a query to a part of a list: the first messages that meet an additional condition.
type listPart struct {
	limit  int
	within string // an SQL condition on the message m that limits the part; "" for no condition
	first  int    // number of the query's first parameter
}

// Listed returns the query for the ids of the messages of a page.
func Listed(from codec.Source, q repository.SearchQuery, n Scope, how string) *idQuery {
	return listedIn(from, q, n, how, listPart{limit: q.Limit, first: 1})
}

// listedIn returns the query for the part s of the list that q asks for.
func listedIn(from codec.Source, q repository.SearchQuery, n Scope, how string, s listPart) *idQuery {
	p := &idQuery{Arguments: Arguments{First: s.first, Version: n.Version}, noValues: q.NoValues}
	p.order = orderBy(q.Sort, "at", "id")
	column := sortColumn(q.Sort)
	walks := p.ways(q.Filter, n, how)
	if len(walks) == 0 {
		p.Values = nil // no message can match, so the query needs no parameters
		p.Query = "SELECT NULL::uuid AS id, NULL::timestamptz AS at, NULL::timestamptz AS created_at WHERE false"
		return p
	}
	conditions := append(p.Conditions(q.Filter), p.words(q.Filter, how)...)
	if q.Sort.By == repository.ByLastRetry {
		conditions = append(conditions, "m.last_retry_at IS NOT NULL")
	}
	conditions = append(conditions, p.behind(q)...)
	if s.within != "" {
		conditions = append(conditions, s.within)
	}
	limit := codec.Bigint(s.limit) // a literal in the query, so that the planner knows how small the limit is
	if how != findFirst {
		walks = byStatus(walks, q)
	}
	for i, walk := range walks {
		walks[i] = []string{"(SELECT m.id, m." + column + " AS at, m.created_at FROM " + from.Table + " m WHERE " + And(append(walk, conditions...)...) +
			" ORDER BY " + orderBy(q.Sort, "m."+column, "m.id") + " LIMIT " + limit + ")"}
	}
	p.Query = "SELECT id, at, created_at FROM (" + Join(walks, "\n\tUNION ALL\n\t") + ") walked ORDER BY " + p.order + " LIMIT " + limit
	return p
}

// byStatus returns one walk (see Walks) for each status of a filter that has several statuses, but not all, when no
// other condition of the filter can use an index. Otherwise it returns the given walks.
func byStatus(walks [][]string, q repository.SearchQuery) [][]string {
	if len(walks) != 1 || len(walks[0]) > 0 || q.Filter.Group != uuid.Nil || q.Sort.By != repository.ByCreated {
		return walks
	}
	var each [][]string
	for _, s := range entity.Statuses() {
		if slices.Contains(q.Filter.Statuses, s) {
			each = append(each, []string{Status([]entity.Status{s})})
		}
	}
	if len(each) < 2 || len(each) == len(entity.Statuses()) {
		return walks
	}
	return each
}

// Join returns the SQL of several walks (see Walks): the conditions of each walk joined with AND, and the walks joined
// with the text in the parameter by.
func Join(walks [][]string, by string) string {
	texts := make([]string, len(walks))
	for i, w := range walks {
		texts[i] = And(w...)
	}
	return strings.Join(texts, by)
}

func sortColumn(s repository.Sort) string {
	if s.By == repository.ByLastRetry {
		return "last_retry_at"
	}
	return "created_at"
}

// orderBy returns the ORDER BY of a list; the parameters at and id are the names of its columns.
func orderBy(s repository.Sort, at, id string) string {
	if s.Ascending {
		return at + ", " + id
	}
	return at + " DESC, " + id + " DESC"
}

// behind returns the SQL condition that the message m comes after the cursor of the page; it returns no condition for
// the first page.
func (a *Arguments) behind(q repository.SearchQuery) []string {
	if q.After == (repository.Cursor{}) {
		return nil
	}
	sign := "<"
	if q.Sort.Ascending {
		sign = ">"
	}
	return []string{"(m." + sortColumn(q.Sort) + ", m.id) " + sign +
		" (" + a.Arg(entity.TruncateTime(q.After.CreatedAt)) + "::timestamptz, " + a.Arg(q.After.ID) + "::uuid)"}
}

// these returns the idQuery for the messages with the given ids.
func these(from codec.Source, q repository.SearchQuery, ids []uuid.UUID) *idQuery {
	p := &idQuery{Arguments: Arguments{First: 1}, order: orderBy(q.Sort, "at", "id"), noValues: q.NoValues}
	p.Query = "SELECT m.id, m." + sortColumn(q.Sort) + " AS at, m.created_at FROM unnest(" + p.Arg(codec.UUIDArray(ids)) + "::uuid[]) AS w (id) " + from.Join("w.id") +
		" ORDER BY " + p.order + " LIMIT " + codec.Bigint(q.Limit)
	return p
}

// PageQuery returns the query for the messages of an idQuery, with keys, values and headers limited as in List.
func PageQuery(from codec.Source, p *idQuery) (string, []any) {
	limit, page := codec.Bigint(repository.ListValueLimit), codec.Bigint(repository.ListPageLimit)
	values, size := "m.room", codec.ListedSize(limit)
	if p.noValues {
		values, size = "0", codec.ListedSizeWithout(limit)
	}
	return `
	SELECT ` + codec.StateColumns + `, ` + codec.ByteColumns(values, "m.room") + `, ` + codec.ConsumptionColumns + `
	FROM (
		SELECT m.*, place.ord, CASE WHEN sum(` + size + `) OVER (ORDER BY place.ord) <= ` + page + ` THEN ` + limit + ` ELSE 0 END AS room
		FROM (SELECT id, row_number() OVER (ORDER BY ` + p.order + `) AS ord FROM (` + p.Query + `) placed) place
		` + from.JoinView("place.id") + `
	) m
	LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id` + codec.ConsumptionOf + `
	ORDER BY m.ord`, p.Values
}
