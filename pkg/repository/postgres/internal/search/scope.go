package search

import (
	"context"
	"database/sql"
	"slices"
	"sync/atomic"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Scopes finds out which existing topics match the topic names and patterns of a filter.
type Scopes struct {
	db      *conn.DB
	version *atomic.Pointer[[]int64] // versions of documents that searches may read; nil for the version of the search index only
}

// NewScopes returns Scopes that send their statements to db.
func NewScopes(db *conn.DB) *Scopes { return &Scopes{db: db, version: new(atomic.Pointer[[]int64])} }

// On returns Scopes that read from the database db. SetIndexVersion sets the version of the original and of the
// returned Scopes.
func (s *Scopes) On(db *conn.DB) *Scopes { return &Scopes{db: db, version: s.version} }

// Scope contains the existing topics that a filter matches. They are read before the filter's query is sent, because
// the planner must know them. When a new topic appears in between, its messages are not in the result.
type Scope struct {
	Number  sql.NullInt32 // number of the dead-letter topic that Filter.Topic names, if it names one
	Topics  *topicSet     // topics that Filter.Topics matches; nil for any topic
	Visible *topicSet     // topics that Filter.Visible matches; nil for all topics
	// Pairs contains the original topics of each dead-letter topic, by the number of the dead-letter topic. Number 0
	// stands for messages without a dead-letter topic, and the name "" for messages without an original topic. Pairs is
	// nil when the pairs are not known.
	Pairs map[int32][]string

	Version *[]int64 // versions of documents that searches of this process may read; nil for the version of the search index only
}

// topicSet is the set of existing topics that match given patterns.
type topicSet struct {
	Originals []string // names of the original topics
	Numbers   []int32  // numbers of the dead-letter topics
	Unnamed   bool     // true when the patterns also match messages without a topic name
}

// The two queries read the names of topics: they step from one topic name to the next along an index. Only the counters
// have pairs of original and dead-letter topics, so archivedNamesQuery returns only original topics.
const (
	pairsQuery = `
	WITH RECURSIVE step AS (
		(SELECT original_topic AS name, dlq_topic_id AS number FROM dlq.message_counters
		 ORDER BY original_topic, dlq_topic_id LIMIT 1)
		UNION ALL
		SELECT n.original_topic, n.dlq_topic_id FROM step CROSS JOIN LATERAL (
			SELECT c.original_topic, c.dlq_topic_id FROM dlq.message_counters c
			WHERE (c.original_topic, c.dlq_topic_id) > (step.name, step.number)
			ORDER BY c.original_topic, c.dlq_topic_id LIMIT 1
		) n
	)
	SELECT name, number AS id FROM step
	WHERE (SELECT sum(c.messages) FROM dlq.message_counters c
		WHERE c.original_topic = step.name AND c.dlq_topic_id = step.number) <> 0`

	archivedNamesQuery = `
	WITH RECURSIVE step AS (
		(SELECT original_topic::text AS name FROM dlq.dlq_messages_archive ORDER BY original_topic LIMIT 1)
		UNION ALL
		SELECT n.name FROM step CROSS JOIN LATERAL (
			SELECT m.original_topic::text AS name FROM dlq.dlq_messages_archive m
			WHERE m.original_topic > step.name ORDER BY m.original_topic LIMIT 1
		) n
	)
	SELECT name, 0 AS id FROM step`
)

// Resolve reads which topics a filter matches.
func (s *Scopes) Resolve(ctx context.Context, f entity.Filter, from codec.Source) (Scope, error) {
	n := Scope{Version: s.version.Load()}
	if f.Topic != "" && f.Topic == codec.Clean(f.Topic) {
		var numbers []sql.NullInt32
		if err := s.db.Select(ctx, &numbers, `SELECT id FROM dlq.topics WHERE name = $1`, f.Topic); err != nil {
			return Scope{}, err
		}
		if len(numbers) > 0 {
			n.Number = numbers[0]
		}
	}
	if !patterned(f) {
		return n, nil
	}
	query := pairsQuery
	if from.Archived {
		query = archivedNamesQuery
	}
	var found, topics []TopicRow
	if err := s.db.Select(ctx, &found, query); err != nil {
		return Scope{}, err
	}
	originals := originalsOf(found)
	if !from.Archived {
		n.Pairs = map[int32][]string{}
		for _, p := range found {
			n.Pairs[p.ID] = append(n.Pairs[p.ID], p.Name)
		}
	}
	if err := s.db.Select(ctx, &topics, `SELECT id, name FROM dlq.topics`); err != nil {
		return Scope{}, err
	}
	if len(f.Topics.Texts()) > 0 {
		n.Topics = Matching(f.Topics, originals, topics)
	}
	if f.Visible != nil {
		n.Visible = Matching(*f.Visible, originals, topics)
		// The name "" is removed, because the dead-letter topic decides whether a message without an original topic is
		// visible.
		n.Visible.Originals = slices.DeleteFunc(n.Visible.Originals, func(name string) bool { return name == "" })
	}
	return n, nil
}

// patterned reports whether the filter has patterns of topic names.
func patterned(f entity.Filter) bool { return len(f.Topics.Texts()) > 0 || f.Visible != nil }

// TopicRow is a topic with its id.
type TopicRow struct {
	ID   int32  `db:"id"`
	Name string `db:"name"`
}

// originalsOf returns the names of original topics, each once. The parameter found must be sorted by name.
func originalsOf(found []TopicRow) []string {
	var names []string
	for _, f := range found {
		names = append(names, f.Name)
	}
	return slices.Compact(names)
}

// Matching returns those of the topics that the patterns match.
func Matching(p entity.TopicPatterns, originals []string, topics []TopicRow) *topicSet {
	found := &topicSet{Unnamed: p.Match("")}
	for _, name := range originals {
		if p.Match(name) {
			found.Originals = append(found.Originals, name)
		}
	}
	for _, t := range topics {
		if p.Match(t.Name) {
			found.Numbers = append(found.Numbers, t.ID)
		}
	}
	return found
}

// Named returns a filter's conditions on the topics of the message m.
func (a *Arguments) Named(f entity.Filter, n Scope) []string {
	var all []string
	if f.Topic != "" {
		condition := "m.original_topic = " + a.text(f.Topic)
		if n.Number.Valid {
			condition = "(" + condition + " OR m.dlq_topic_id = " + a.Arg(n.Number.Int32) + "::int)"
		}
		all = append(all, condition)
	}
	if n.Topics != nil {
		all = append(all, "(m.original_topic = ANY ("+a.texts(n.Topics.Originals)+
			") OR m.dlq_topic_id = ANY ("+a.numbers(n.Topics.Numbers)+"))")
	}
	return append(append(all, unknown(f)...), a.Seen(n)...)
}

func unknown(f entity.Filter) []string {
	if f.UnknownOrigin {
		return []string{"m.original_topic = ''"}
	}
	return nil
}

// Seen returns the condition that the caller may see the message m.
func (a *Arguments) Seen(n Scope) []string {
	if n.Visible == nil {
		return nil
	}
	hidden := "m.dlq_topic_id = ANY (" + a.numbers(n.Visible.Numbers) + ")"
	if n.Visible.Unnamed {
		hidden = "(" + hidden + " OR m.dlq_topic_id IS NULL)"
	}
	return []string{"(m.original_topic = ANY (" + a.texts(n.Visible.Originals) + ") OR m.original_topic = '' AND " + hidden + ")"}
}

// maxWalks limits the number of walks (see Walks) in one query.
const maxWalks = 24

// Walks splits a filter's conditions on the topics of m into walks: lists of conditions, each of which selects messages
// that can be read in order along one index. Together the walks return each message of the filter once. A walk without
// conditions reads all messages.
func (a *Arguments) Walks(f entity.Filter, n Scope) [][]string {
	walks, _ := a.apart(f, n)
	return walks
}

// apart returns the walks of a filter (see Walks). inOrder reports whether each walk can be read in order along an
// index. When there would be more than maxWalks walks, apart returns a single walk, and inOrder is false.
func (a *Arguments) apart(f entity.Filter, n Scope) (walks [][]string, inOrder bool) {
	switch {
	case f.Topic != "":
		return a.walksOfTopic(f, n), true
	case f.UnknownOrigin:
		return [][]string{a.Named(f, n)}, true
	case n.Topics != nil && n.Pairs != nil:
		if walks := a.walksOfTopics(f, n); len(walks) <= maxWalks {
			return walks, true
		}
		a.Values = nil
	case n.Topics == nil && n.Visible != nil && len(n.Visible.Originals) < maxWalks:
		return a.walksOfVisible(n), true
	}
	return [][]string{a.Named(f, n)}, n.Topics == nil && n.Visible == nil
}

func (a *Arguments) walksOfTopic(f entity.Filter, n Scope) [][]string {
	rest := f
	rest.Topic = ""
	others := a.Named(rest, n)
	topic := a.text(f.Topic)
	walks := [][]string{append([]string{"m.original_topic = " + topic}, others...)}
	if n.Number.Valid {
		walks = append(walks, append([]string{
			"m.dlq_topic_id = " + a.Arg(n.Number.Int32) + "::int", "m.original_topic <> " + topic,
		}, others...))
	}
	return walks
}

// walksOfTopics returns the walks (see Walks) of a filter with patterns of topics. Each matching original topic has one
// walk. A matching dead-letter topic has one walk for each of its other original topics. A single walk for all of them
// would usually find no messages, but would notice this only after reading the whole dead-letter topic.
func (a *Arguments) walksOfTopics(f entity.Filter, n Scope) [][]string {
	others := append(unknown(f), a.Seen(n)...)
	var walks [][]string
	for _, name := range n.Topics.Originals {
		if name == "" || n.Visible.sees(name, 0) {
			walks = append(walks, append([]string{"m.original_topic = " + a.text(name)}, others...))
		}
	}
	for _, number := range n.Topics.Numbers {
		for _, name := range n.Pairs[number] {
			if !slices.Contains(n.Topics.Originals, name) && n.Visible.sees(name, number) {
				walks = append(walks, append([]string{
					"m.dlq_topic_id = " + a.Arg(number) + "::int", "m.original_topic = " + a.text(name),
				}, others...))
			}
		}
	}
	return walks
}

// sees reports whether messages with this original topic and this dead-letter topic are visible. A nil topicSet makes
// all messages visible.
func (s *topicSet) sees(original string, number int32) bool {
	if s == nil || original != "" {
		return s == nil || slices.Contains(s.Originals, original)
	}
	return slices.Contains(s.Numbers, number)
}

func (a *Arguments) walksOfVisible(n Scope) [][]string {
	var walks [][]string
	for _, name := range n.Visible.Originals {
		walks = append(walks, []string{"m.original_topic = " + a.text(name)})
	}
	if n.seesUnnamed() {
		walks = append(walks, append([]string{"m.original_topic = ''"}, a.Seen(n)...))
	}
	return walks
}

// seesUnnamed reports whether the caller may see any messages without an original topic.
func (n Scope) seesUnnamed() bool {
	return n.Visible.Unnamed || n.Pairs == nil || slices.ContainsFunc(n.Visible.Numbers, func(number int32) bool {
		return slices.Contains(n.Pairs[number], "")
	})
}

// visibleOriginals returns the visible original topics that may have messages which match the filter.
func (n Scope) visibleOriginals(f entity.Filter) []string {
	if f.UnknownOrigin {
		return nil
	}
	of := func(number int32, name string) bool { return n.Pairs == nil || slices.Contains(n.Pairs[number], name) }
	var names []string
	for _, name := range n.Visible.Originals {
		asked := f.Topic == "" || name == f.Topic || n.Number.Valid && of(n.Number.Int32, name)
		if n.Topics != nil && !slices.Contains(n.Topics.Originals, name) {
			asked = asked && slices.ContainsFunc(n.Topics.Numbers, func(number int32) bool { return of(number, name) })
		}
		if asked {
			names = append(names, name)
		}
	}
	return names
}
