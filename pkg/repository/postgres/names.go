package postgres

import (
	"context"
	"database/sql"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// names are the topics of a filter, read before the query: the planner must know them, and a name that appears
// meanwhile adds no message to the result.
type names struct {
	number  sql.NullInt32 // of Filter.Topic as a dead-letter topic, if it is one
	topics  *nameSet      // Filter.Topics; nil: any
	visible *nameSet      // Filter.Visible; nil: all
	// pairs are the original topics of each dead-letter topic, 0 being none; nil when they are unknown.
	pairs map[int32][]string

	version *int64 // of the documents that this process answers from; nil: that of the search index
}

// nameSet is the set of existing topics that match patterns.
type nameSet struct {
	originals []string // names of original topics
	numbers   []int32  // of dead-letter topics
	unnamed   bool     // the patterns match messages without a name
}

// source is where messages are read: the live table or the archive. view is the table with the bytes of the records,
// which are in a separate table.
type source struct {
	table, view string
	archived    bool
}

func sourceOf(archived bool) source {
	if archived {
		return source{"dlq.dlq_messages_archive", "dlq.archived_messages", true}
	}
	return source{"dlq.dlq_messages", "dlq.messages", false}
}

// join joins the message m with that id. An archived one is read from the partition that archive_ids names; without
// that every partition would be searched.
func (s source) join(id string) string { return s.joinOf(s.table, id) }

// joinView is join with the bytes of the record.
func (s source) joinView(id string) string { return s.joinOf(s.view, id) }

func (s source) joinOf(table, id string) string {
	if s.archived {
		return "JOIN dlq.archive_ids kept ON kept.id = " + id +
			" JOIN " + table + " m ON m.id = kept.id AND m.archived_at = kept.archived_at"
	}
	return "JOIN " + table + " m ON m.id = " + id
}

// has is the condition that m has that id.
func (s source) has(id string) string {
	if s.archived {
		return "m.id = " + id + " AND m.archived_at = (SELECT archived_at FROM dlq.archive_ids WHERE id = " + id + ")"
	}
	return "m.id = " + id
}

// Both step from name to name along an index; only the counters have the pairs.
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

func (s *Store) namesOf(ctx context.Context, f entity.Filter, from source) (names, error) {
	n := names{version: s.answersFrom.Load()}
	if f.Topic != "" && f.Topic == clean(f.Topic) {
		var numbers []sql.NullInt32
		if err := s.selectRows(ctx, &numbers, `SELECT id FROM dlq.topics WHERE name = $1`, f.Topic); err != nil {
			return names{}, err
		}
		if len(numbers) > 0 {
			n.number = numbers[0]
		}
	}
	if !patterned(f) {
		return n, nil
	}
	query := pairsQuery
	if from.archived {
		query = archivedNamesQuery
	}
	var found, topics []topicRow
	if err := s.selectRows(ctx, &found, query); err != nil {
		return names{}, err
	}
	originals := originalsOf(found)
	if !from.archived {
		n.pairs = map[int32][]string{}
		for _, p := range found {
			n.pairs[p.ID] = append(n.pairs[p.ID], p.Name)
		}
	}
	if err := s.selectRows(ctx, &topics, `SELECT id, name FROM dlq.topics`); err != nil {
		return names{}, err
	}
	if len(f.Topics.Texts()) > 0 {
		n.topics = matching(f.Topics, originals, topics)
	}
	if f.Visible != nil {
		n.visible = matching(*f.Visible, originals, topics)
		// The visibility of a message without an original topic is that of its dead-letter topic.
		n.visible.originals = slices.DeleteFunc(n.visible.originals, func(name string) bool { return name == "" })
	}
	return n, nil
}

// patterned reports whether the filter has patterns to match against names.
func patterned(f entity.Filter) bool { return len(f.Topics.Texts()) > 0 || f.Visible != nil }

type topicRow struct {
	ID   int32  `db:"id"`
	Name string `db:"name"`
}

// originalsOf returns each name once; found is in the order of names.
func originalsOf(found []topicRow) []string {
	var names []string
	for _, f := range found {
		names = append(names, f.Name)
	}
	return slices.Compact(names)
}

func matching(p entity.TopicPatterns, originals []string, topics []topicRow) *nameSet {
	found := &nameSet{unnamed: p.Match("")}
	for _, name := range originals {
		if p.Match(name) {
			found.originals = append(found.originals, name)
		}
	}
	for _, t := range topics {
		if p.Match(t.Name) {
			found.numbers = append(found.numbers, t.ID)
		}
	}
	return found
}

// named are a filter's conditions on the topics of m.
func (a *arguments) named(f entity.Filter, n names) []string {
	var all []string
	if f.Topic != "" {
		condition := "m.original_topic = " + a.text(f.Topic)
		if n.number.Valid {
			condition = "(" + condition + " OR m.dlq_topic_id = " + a.arg(n.number.Int32) + "::int)"
		}
		all = append(all, condition)
	}
	if n.topics != nil {
		all = append(all, "(m.original_topic = ANY ("+a.texts(n.topics.originals)+
			") OR m.dlq_topic_id = ANY ("+a.numbers(n.topics.numbers)+"))")
	}
	return append(append(all, unknown(f)...), a.seen(n)...)
}

func unknown(f entity.Filter) []string {
	if f.UnknownOrigin {
		return []string{"m.original_topic = ''"}
	}
	return nil
}

// seen is the condition that the caller may see m.
func (a *arguments) seen(n names) []string {
	if n.visible == nil {
		return nil
	}
	hidden := "m.dlq_topic_id = ANY (" + a.numbers(n.visible.numbers) + ")"
	if n.visible.unnamed {
		hidden = "(" + hidden + " OR m.dlq_topic_id IS NULL)"
	}
	return []string{"(m.original_topic = ANY (" + a.texts(n.visible.originals) + ") OR m.original_topic = '' AND " + hidden + ")"}
}

// maxWalks limits the walks of one query.
const maxWalks = 24

// walks splits a filter's conditions on the topics of m so that each part can be read in order along an index;
// together they return each message once. A part without conditions reads all messages.
func (a *arguments) walks(f entity.Filter, n names) [][]string {
	walks, _ := a.apart(f, n)
	return walks
}

// apart returns the walks, and whether each has its index. If they would be too many, it returns one walk without an
// index.
func (a *arguments) apart(f entity.Filter, n names) (walks [][]string, inOrder bool) {
	switch {
	case f.Topic != "":
		return a.walksOfTopic(f, n), true
	case f.UnknownOrigin:
		return [][]string{a.named(f, n)}, true
	case n.topics != nil && n.pairs != nil:
		if walks := a.walksOfTopics(f, n); len(walks) <= maxWalks {
			return walks, true
		}
		a.values = nil
	case n.topics == nil && n.visible != nil && len(n.visible.originals) < maxWalks:
		return a.walksOfVisible(n), true
	}
	return [][]string{a.named(f, n)}, n.topics == nil && n.visible == nil
}

func (a *arguments) walksOfTopic(f entity.Filter, n names) [][]string {
	rest := f
	rest.Topic = ""
	others := a.named(rest, n)
	topic := a.text(f.Topic)
	walks := [][]string{append([]string{"m.original_topic = " + topic}, others...)}
	if n.number.Valid {
		walks = append(walks, append([]string{
			"m.dlq_topic_id = " + a.arg(n.number.Int32) + "::int", "m.original_topic <> " + topic,
		}, others...))
	}
	return walks
}

// walksOfTopics reads a dead-letter topic only for messages that are not found by their original topic already:
// mostly there are none, and a walk would find that out only at its end.
func (a *arguments) walksOfTopics(f entity.Filter, n names) [][]string {
	others := append(unknown(f), a.seen(n)...)
	var walks [][]string
	for _, name := range n.topics.originals {
		if name == "" || n.visible.sees(name, 0) {
			walks = append(walks, append([]string{"m.original_topic = " + a.text(name)}, others...))
		}
	}
	for _, number := range n.topics.numbers {
		for _, name := range n.pairs[number] {
			if !slices.Contains(n.topics.originals, name) && n.visible.sees(name, number) {
				walks = append(walks, append([]string{
					"m.dlq_topic_id = " + a.arg(number) + "::int", "m.original_topic = " + a.text(name),
				}, others...))
			}
		}
	}
	return walks
}

// sees reports whether messages of a topic are visible; a nil set sees all.
func (s *nameSet) sees(original string, number int32) bool {
	if s == nil || original != "" {
		return s == nil || slices.Contains(s.originals, original)
	}
	return slices.Contains(s.numbers, number)
}

func (a *arguments) walksOfVisible(n names) [][]string {
	var walks [][]string
	for _, name := range n.visible.originals {
		walks = append(walks, []string{"m.original_topic = " + a.text(name)})
	}
	if n.seesUnnamed() {
		walks = append(walks, append([]string{"m.original_topic = ''"}, a.seen(n)...))
	}
	return walks
}

// seesUnnamed reports whether messages without an original topic may be visible.
func (n names) seesUnnamed() bool {
	return n.visible.unnamed || n.pairs == nil || slices.ContainsFunc(n.visible.numbers, func(number int32) bool {
		return slices.Contains(n.pairs[number], "")
	})
}

// visibleOriginals are the visible original topics of which a filter may have messages.
func (n names) visibleOriginals(f entity.Filter) []string {
	if f.UnknownOrigin {
		return nil
	}
	of := func(number int32, name string) bool { return n.pairs == nil || slices.Contains(n.pairs[number], name) }
	var names []string
	for _, name := range n.visible.originals {
		asked := f.Topic == "" || name == f.Topic || n.number.Valid && of(n.number.Int32, name)
		if n.topics != nil && !slices.Contains(n.topics.originals, name) {
			asked = asked && slices.ContainsFunc(n.topics.numbers, func(number int32) bool { return of(number, name) })
		}
		if asked {
			names = append(names, name)
		}
	}
	return names
}
