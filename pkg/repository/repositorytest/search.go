package repositorytest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func searchPromises() []promise {
	return []promise{
		{"EachFilterNarrows", searchFilters},
		{"TwoFiltersNarrowTogether", searchFilterPairs},
		{"FiltersHoldInTheArchive", searchFiltersArchived},
		{"RedrivesReadFiltersAlike", searchRedrives},
		{"OrderHasTiesByID", searchOrder},
		{"LastRetryLeavesOutWhatWasNeverRetried", searchByLastRetry},
		{"PagesStayWhereTheyAreWhileMessagesArrive", searchPages},
		{"PagesOfEachFilterAreTheWhole", searchPagesOfFilters},
		{"VisibleIsNeverWidened", searchVisible},
		{"PatternsOfManyTopics", searchManyTopics},
		{"WordsAreNotPatterns", searchLiteralWords},
		{"HostileTextFindsNothingAndBreaksNothing", searchHostile},
		{"BytesAreThoseOfAList", searchBytes},
		{"NoLimitIsNothing", searchNoLimit},
	}
}

func (h *harness) search(q repository.SearchQuery) []uuid.UUID {
	h.Helper()
	if q.Limit == 0 {
		q.Limit = everything
	}
	found := check.Must(h.Repository.Search(h.Context(), q))(h)
	return ids(found.Messages)
}

func (h *harness) globs(list ...string) entity.TopicPatterns {
	h.Helper()
	return check.Must(entity.ParseTopicPatterns("topics", list...))(h)
}

func (h *harness) visible(list ...string) *entity.TopicPatterns {
	p := h.globs(list...)
	return &p
}

const indexVersion = 7

// indexed stores the document of a message as the indexer does, from the error message, the value, and the given terms.
func (h *harness) indexed(m entity.Message, terms ...int64) {
	h.Helper()
	h.hold(indexVersion)
	h.document(indexVersion, entity.Document{
		MessageID: m.ID, Text: strings.ToLower(m.ErrorMessage + "\n" + string(m.Record.Value)), Terms: terms,
	})
}

// assorted contains messages with different properties, by the names that the tests give them. The filters of
// filterCases match different ones of them.
type assorted struct {
	byName map[string]uuid.UUID
	order  []string // names of the messages, in the order of their creation, the oldest first
}

func (a assorted) ids(names ...string) []uuid.UUID {
	var found []uuid.UUID
	for _, name := range a.order {
		if slices.Contains(names, name) {
			found = append(found, a.byName[name])
		}
	}
	return found
}

func (h *harness) assorted() assorted {
	h.Helper()
	a := assorted{byName: map[string]uuid.UUID{}}
	add := func(name string, m entity.Message) {
		a.byName[name], a.order = m.ID, append(a.order, name)
	}
	class := func(class, group, dialect string) func(*entity.Message) {
		return func(m *entity.Message) {
			m.Failure.Class, m.Failure.ConsumerGroup, m.Failure.Dialect = class, group, dialect
		}
	}
	of := func(topic, dlq string) func(*entity.Message) {
		return func(m *entity.Message) { m.OriginalTopic, m.Source = topic, h.source(dlq, h.next) }
	}
	words := func(message, value string) func(*entity.Message) {
		return func(m *entity.Message) { m.ErrorMessage, m.Record.Value = message, []byte(value) }
	}
	plain := h.put(class("Timeout", "billing", "spring"), words("Timed out", `{"sku": "A-1"}`))
	add("plain", plain)
	h.indexed(plain, entity.KeyTerm([]byte("k1")), entity.HeaderTerm("trace", nil), entity.HeaderTerm("trace", []byte("t1")),
		entity.FieldTerm("$.sku", ""), entity.FieldTerm("$.sku", `"A-1"`))
	dead := h.in(entity.Dead, class("Timeout", "shipping", "connect"), words("Timed out again", `{"sku": "B-2"}`))
	add("dead", dead)
	h.indexed(dead, entity.KeyTerm([]byte("k2")), entity.HeaderTerm("trace", nil), entity.HeaderTerm("trace", []byte("t2")),
		entity.FieldTerm("$.sku", ""), entity.FieldTerm("$.sku", `"B-2"`))
	resolved := h.in(entity.Resolved, class("Parse", "billing", "spring"))
	add("resolved", resolved)
	h.clock.Advance(time.Hour)
	payments := h.put(of("payments", "payments.dlq"), class("Parse", "", ""), func(m *entity.Message) { m.Group = someGroup })
	add("payments", payments)
	h.indexed(payments, entity.KeyTerm(nil))
	unknown := h.put(of("", "lost.dlq"))
	add("unknown", unknown)
	sql := h.put(func(m *entity.Message) { m.Source = entity.Source{} })
	add("sql", sql)
	retrying := h.in(entity.Retrying, of("payments.eu", "payments.dlq"))
	add("retrying", retrying)
	return a
}

var someGroup = uuid.MustParse("6f1c9a36-54b1-8c0f-9c39-0a6b4d4f7a11")

type filterCase struct {
	name   string
	filter entity.Filter
	want   []string
}

// filterCases returns filters for each field of entity.Filter, each with the names of the messages that it matches.
func (h *harness) filterCases(a assorted) []filterCase {
	h.Helper()
	created := func(name string) time.Time {
		h.Helper()
		m := check.Must(h.Repository.Get(h.Context(), a.byName[name], 0))(h)
		return m.CreatedAt
	}
	deadRetried := h.get(a.byName["dead"]).LastRetryAt
	orders := []string{"plain", "dead", "resolved", "sql"}
	return []filterCase{
		{"nothing", entity.Filter{}, a.order},
		{"ids", entity.Filter{MessageIDs: append(a.ids("sql", "plain"), uuid.New())}, []string{"plain", "sql"}},
		{"topic", entity.Filter{Topic: original}, orders},
		{"dead-letter topic", entity.Filter{Topic: "payments.dlq"}, []string{"payments", "retrying"}},
		{"no such topic", entity.Filter{Topic: "orders_"}, nil},
		{"pattern", entity.Filter{Topics: h.globs("payments*")}, []string{"payments", "retrying"}},
		{"pattern of a dead-letter topic", entity.Filter{Topics: h.globs("lost.*")}, []string{"unknown"}},
		{"patterns", entity.Filter{Topics: h.globs("payments.eu", "^lost.*$")}, []string{"retrying", "unknown"}},
		{"pattern of nothing", entity.Filter{Topics: h.globs("x*")}, nil},
		{"one status", entity.Filter{Statuses: []entity.Status{entity.Dead}}, []string{"dead"}},
		{"two statuses", entity.Filter{Statuses: []entity.Status{entity.Resolved, entity.Retrying}}, []string{"resolved", "retrying"}},
		{"a status that is none", entity.Filter{Statuses: []entity.Status{"LOST"}}, nil},
		{"class", entity.Filter{ErrorClass: "Timeout"}, []string{"plain", "dead"}},
		{"consumer group", entity.Filter{ConsumerGroup: "billing"}, []string{"plain", "resolved"}},
		{"dialect", entity.Filter{Dialect: "spring"}, []string{"plain", "resolved"}},
		{"error group", entity.Filter{Group: someGroup}, []string{"payments"}},
		{"no such group", entity.Filter{Group: uuid.New()}, nil},
		{"unknown origin", entity.Filter{UnknownOrigin: true}, []string{"unknown"}},
		{"created after", entity.Filter{CreatedAfter: created("payments")}, []string{"payments", "unknown", "sql", "retrying"}},
		{"created before", entity.Filter{CreatedBefore: created("dead")}, []string{"plain"}},
		{"retried after", entity.Filter{RetriedAfter: deadRetried.Add(time.Microsecond)}, []string{"resolved", "retrying"}},
		{"retried before", entity.Filter{RetriedBefore: deadRetried.Add(time.Microsecond)}, []string{"dead"}},
		{"key", entity.Filter{Key: []byte("k1")}, []string{"plain"}},
		{"empty key", entity.Filter{Key: []byte{}}, []string{"payments"}},
		{"header", entity.Filter{Headers: []entity.HeaderMatch{{Name: "trace"}}}, []string{"plain", "dead"}},
		{"header's value", entity.Filter{Headers: []entity.HeaderMatch{{Name: "trace", Value: []byte("t2")}}}, []string{"dead"}},
		{"field", entity.Filter{Fields: []entity.FieldMatch{{Path: "$.sku"}}}, []string{"plain", "dead"}},
		{"field's value", entity.Filter{Fields: []entity.FieldMatch{{Path: "$.sku", Values: []string{`"B-2"`, "7"}}}}, []string{"dead"}},
		{"field's values", entity.Filter{Fields: []entity.FieldMatch{{Path: "$.sku", Values: []string{`"A-1"`, `"B-2"`}}}}, []string{"plain", "dead"}},
		{"word of the error", entity.Filter{Words: []string{"timed"}}, []string{"plain", "dead"}},
		{"words", entity.Filter{Words: []string{"timed", "again"}}, []string{"dead"}},
		{"part of a word of the value", entity.Filter{Words: []string{"a-1"}}, []string{"plain"}},
		{"word of nothing", entity.Filter{Words: []string{"nowhere"}}, nil},
		{"visible", entity.Filter{Visible: h.visible("payments")}, []string{"payments"}},
		{"visible by the dead-letter topic", entity.Filter{Visible: h.visible("lost.dlq", "payments.dlq")}, []string{"unknown"}},
		{"visible nothing", entity.Filter{Visible: h.visible("x*")}, nil},
		{"visible everything", entity.Filter{Visible: h.visible("*")}, a.order},
		{"visible to no pattern", entity.Filter{Visible: &entity.TopicPatterns{}}, nil},
	}
}

// wantFound checks with each method of the Searcher that a filter matches exactly these messages.
func (h *harness) wantFound(name string, f entity.Filter, archived bool, want []uuid.UUID) {
	h.Helper()
	newestFirst := slices.Clone(want)
	slices.Reverse(newestFirst)
	h.wantIDs(name+": Search", h.search(repository.SearchQuery{Filter: f, Archived: archived}), newestFirst)
	h.wantIDs(name+": Search ascending",
		h.search(repository.SearchQuery{Filter: f, Archived: archived, Sort: repository.Sort{Ascending: true}}), want)
	h.wantIDs(name+": Export", h.export(repository.ExportQuery{Filter: f, Archived: archived}), newestFirst)
	count := h.countMatching(repository.CountQuery{Filter: f, Archived: archived, How: repository.CountExact})
	check.True(h, count == (repository.MatchCount{Messages: int64(len(want)), Exact: true}),
		"%s: CountMatching = %+v, want exactly %d", name, count, len(want))
}

func searchFilters(h *harness) {
	a := h.assorted()
	for _, c := range h.filterCases(a) {
		h.wantFound(c.name, c.filter, false, a.ids(c.want...))
		h.wantFound(c.name, c.filter, true, nil)
	}
}

// together2 returns a filter with the conditions of the filters a and b. The result ok is false when both filters set
// the same field, unless this is Headers, Fields, Words or UnknownOrigin.
func together2(a, b entity.Filter) (entity.Filter, bool) {
	clash := len(a.MessageIDs) > 0 && len(b.MessageIDs) > 0 || a.Topic != "" && b.Topic != "" || len(a.Topics.Texts()) > 0 && len(b.Topics.Texts()) > 0 ||
		len(a.Statuses) > 0 && len(b.Statuses) > 0 || a.ErrorClass != "" && b.ErrorClass != "" ||
		a.ConsumerGroup != "" && b.ConsumerGroup != "" || a.Dialect != "" && b.Dialect != "" ||
		a.Group != uuid.Nil && b.Group != uuid.Nil || a.Key != nil && b.Key != nil || a.Visible != nil && b.Visible != nil ||
		!a.CreatedAfter.IsZero() && !b.CreatedAfter.IsZero() || !a.CreatedBefore.IsZero() && !b.CreatedBefore.IsZero() ||
		!a.RetriedAfter.IsZero() && !b.RetriedAfter.IsZero() || !a.RetriedBefore.IsZero() && !b.RetriedBefore.IsZero()
	if clash {
		return entity.Filter{}, false
	}
	f := a
	f.MessageIDs = append(slices.Clone(a.MessageIDs), b.MessageIDs...)
	f.Topic += b.Topic
	if len(b.Topics.Texts()) > 0 {
		f.Topics = b.Topics
	}
	f.Statuses = append(slices.Clone(a.Statuses), b.Statuses...)
	f.ErrorClass += b.ErrorClass
	f.ConsumerGroup += b.ConsumerGroup
	f.Dialect += b.Dialect
	if b.Group != uuid.Nil {
		f.Group = b.Group
	}
	f.UnknownOrigin = a.UnknownOrigin || b.UnknownOrigin
	later := func(to *time.Time, t time.Time) {
		if !t.IsZero() {
			*to = t
		}
	}
	later(&f.CreatedAfter, b.CreatedAfter)
	later(&f.CreatedBefore, b.CreatedBefore)
	later(&f.RetriedAfter, b.RetriedAfter)
	later(&f.RetriedBefore, b.RetriedBefore)
	if b.Key != nil {
		f.Key = b.Key
	}
	f.Headers = append(slices.Clone(a.Headers), b.Headers...)
	f.Fields = append(slices.Clone(a.Fields), b.Fields...)
	f.Words = append(slices.Clone(a.Words), b.Words...)
	if b.Visible != nil {
		f.Visible = b.Visible
	}
	return f, true
}

func searchFilterPairs(h *harness) {
	a := h.assorted()
	cases := h.filterCases(a)
	pairs := 0
	for i, one := range cases {
		for _, other := range cases[i+1:] {
			f, ok := together2(one.filter, other.filter)
			if !ok {
				continue
			}
			pairs++
			both := slices.DeleteFunc(slices.Clone(one.want), func(name string) bool { return !slices.Contains(other.want, name) })
			want := a.ids(both...)
			slices.Reverse(want)
			h.wantIDs(one.name+" and "+other.name, h.search(repository.SearchQuery{Filter: f}), want)
		}
	}
	check.True(h, pairs >= 300, "%d pairs of filters, want hundreds", pairs)
}

func searchFiltersArchived(h *harness) {
	a := h.assorted()
	cases := h.filterCases(a)
	for _, id := range a.byName {
		h.Archive(h.T, id)
	}
	for _, c := range cases {
		h.wantFound("archived, "+c.name, c.filter, true, a.ids(c.want...))
		h.wantFound("live, "+c.name, c.filter, false, nil)
	}
}

func searchRedrives(h *harness) {
	a := h.assorted()
	for _, c := range h.filterCases(a) {
		if !c.filter.Narrow() {
			continue
		}
		f := c.filter
		if len(f.Statuses) == 0 {
			f.Statuses = entity.Statuses()
		}
		messages := 0
		for _, g := range h.survey(retryAll(func(n *repository.NewRedrive) { n.Selection = entity.Selection{Filter: f} })) {
			messages += g.Messages
		}
		check.Same(h, messages, len(c.want), "%s: a redrive would select messages", c.name)
		r := h.create(retryAll(func(n *repository.NewRedrive) {
			n.ID, n.Action, n.Selection = uuid.New(), entity.RedriveDelete, entity.Selection{Filter: f}
		}))
		check.Same(h, r.Selected, len(c.want), "%s: a redrive selects messages", c.name)
		byID := h.create(retryAll(func(n *repository.NewRedrive) {
			n.ID, n.Action, n.Selection = uuid.New(), entity.RedriveDelete, entity.Selection{IDs: a.ids(a.order...), Filter: f}
		}))
		check.Same(h, byID.Selected, len(c.want), "%s: a redrive of all ids selects messages", c.name)
	}
}

func searchOrder(h *harness) {
	want := ties(h, 9)
	h.wantIDs("ascending", h.search(repository.SearchQuery{Sort: repository.Sort{Ascending: true}}), want)
	slices.Reverse(want)
	h.wantIDs("newest first", h.search(repository.SearchQuery{}), want)
}

func searchByLastRetry(h *harness) {
	var retried []uuid.UUID
	for range 3 {
		h.put()
		retried = append(retried, h.in(entity.Resolved).ID)
	}
	again := h.put()
	h.attempt(again.ID, entity.Failed)
	retried = append(retried, again.ID)
	up := repository.Sort{By: repository.ByLastRetry, Ascending: true}
	h.wantIDs("ascending", h.search(repository.SearchQuery{Sort: up}), retried)
	place := repository.Cursor{CreatedAt: h.get(retried[1]).LastRetryAt, ID: retried[1]}
	h.wantIDs("after a place", h.search(repository.SearchQuery{Sort: up, After: place}), retried[2:])
	h.wantIDs("of a topic", h.search(repository.SearchQuery{Sort: up, Filter: entity.Filter{Topic: original}}), retried)
	slices.Reverse(retried)
	h.wantIDs("last first", h.search(repository.SearchQuery{Sort: repository.Sort{By: repository.ByLastRetry}}), retried)
}

// pagesOf reads all pages of a search, calls the function between after each page, and returns the ids of all messages
// on the pages.
func (h *harness) pagesOf(q repository.SearchQuery, between func()) []uuid.UUID {
	h.Helper()
	var all []uuid.UUID
	for range everything {
		page := check.Must(h.Repository.Search(h.Context(), q))(h)
		all = append(all, ids(page.Messages)...)
		if q.After = page.Next; len(page.Messages) == q.Limit {
			last := page.Messages[q.Limit-1]
			q.After = repository.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
		} else if page.Next == (repository.Cursor{}) {
			return all
		}
		between()
	}
	h.Fatal("pages without end")
	return nil
}

func searchPages(h *harness) {
	want := ties(h, 12)
	slices.Reverse(want)
	got := h.pagesOf(repository.SearchQuery{Filter: entity.Filter{Topic: original}, Limit: 4}, func() { h.put() })
	h.wantIDs("pages of four while messages arrive", got, want)
}

func searchPagesOfFilters(h *harness) {
	a := h.assorted()
	for _, c := range h.filterCases(a) {
		for _, up := range []bool{true, false} {
			want := a.ids(c.want...)
			if !up {
				slices.Reverse(want)
			}
			got := h.pagesOf(repository.SearchQuery{Filter: c.filter, Limit: 1, Sort: repository.Sort{Ascending: up}}, func() {})
			h.wantIDs(c.name+" in pages of one", got, want)
		}
	}
}

func searchVisible(h *harness) {
	a := h.assorted()
	mine := h.visible("payment*")
	for _, c := range h.filterCases(a) {
		f := c.filter
		if f.Visible != nil {
			continue
		}
		f.Visible = mine
		seen := slices.DeleteFunc(slices.Clone(c.want), func(name string) bool { return name != "payments" && name != "retrying" })
		h.wantFound("of payments, "+c.name, f, false, a.ids(seen...))
	}
	sees := entity.Filter{Visible: h.visible("lost.dlq", "orders.dlq")}
	h.wantFound("a dead-letter topic's name shows only what has no other", sees, false, a.ids("unknown"))
	for name, c := range map[string]struct {
		both entity.TopicPatterns
		want []string
	}{
		"payments as it is written twice": {h.visible("payments", "x*").And(*h.visible("payment*")), []string{"payments"}},
		"a dead-letter topic twice":       {h.visible("*.dlq").And(*h.visible("lost*")), []string{"unknown"}},
		"what only one half sees":         {h.visible("*").And(entity.TopicPatterns{}), nil},
	} {
		h.wantFound(name, entity.Filter{Visible: &c.both}, false, a.ids(c.want...))
	}
}

func searchManyTopics(h *harness) {
	var want []uuid.UUID
	for i := range 40 {
		topic := fmt.Sprintf("many.%d", i)
		want = append(want, h.put(func(m *entity.Message) { m.OriginalTopic = topic }).ID)
		h.put(func(m *entity.Message) { m.OriginalTopic = "few." + topic })
	}
	h.wantFound("forty topics by a pattern", entity.Filter{Topics: h.globs("many.*")}, false, want)
	h.wantFound("forty topics in sight", entity.Filter{Visible: h.visible("many.*")}, false, want)
	h.wantFound("both", entity.Filter{Topics: h.globs("*"), Visible: h.visible("many.*")}, false, want)
	h.wantFound("a few of them", entity.Filter{Topics: h.globs("many.1*"), Visible: h.visible("*.1")}, false, nil)
}

func searchLiteralWords(h *harness) {
	text := func(text string) uuid.UUID {
		m := h.put(func(m *entity.Message) { m.ErrorMessage = text })
		h.indexed(m)
		return m.ID
	}
	percent, underscore, backslash, quote := text("at 100% of it"), text("a_b_c"), text(`c:\temp`), text(`it's "so"`)
	order := text("注文番号 42")
	text("at 1005 of it, axbxc, c:temp, its so")
	for word, want := range map[string][]uuid.UUID{
		"100%": {percent}, "0% of": {percent}, "a_b": {underscore}, `c:\t`: {backslash}, `\`: {backslash}, "it's": {quote},
		`"so"`: {quote}, "A_B": {underscore}, "注文": {order}, "番注": nil, "%%": nil, "_%_": nil, `\%`: nil, "%": {percent},
	} {
		h.wantFound(fmt.Sprintf("word %q", word), entity.Filter{Words: []string{word}}, false, want)
	}
}

// maxWord is the length in bytes of the longest word that a request may contain. For a longer word, a store may return
// an error.
const maxWord = 1000

func searchHostile(h *harness) {
	m := h.put()
	h.indexed(m)
	for _, text := range append(slices.Clone(impossible), `\`, "'", "''; DELETE FROM dlq.dlq_messages; --", "$1", "{}", `{"a"}`, "‮", "a\r\nb") {
		for name, f := range map[string]entity.Filter{
			"topic":    {Topic: text},
			"class":    {ErrorClass: text},
			"consumer": {ConsumerGroup: text},
			"dialect":  {Dialect: text},
			"key":      {Key: []byte(text)},
			"header":   {Headers: []entity.HeaderMatch{{Name: text, Value: []byte(text)}}},
			"field":    {Fields: []entity.FieldMatch{{Path: text, Values: []string{text}}}},
			"status":   {Statuses: []entity.Status{entity.Status(text)}},
			"word":     {Words: []string{text}},
		} {
			if name == "word" && (strings.Contains(m.ErrorMessage+string(m.Record.Value), text) || len(text) > maxWord) {
				continue
			}
			h.wantFound(fmt.Sprintf("%s %.40q", name, text), f, false, nil)
		}
	}
	h.wantUnchanged(h.get(m.ID))
}

func searchBytes(h *harness) {
	small := h.put()
	large := h.put(func(m *entity.Message) { m.Record.Value = make([]byte, repository.ListValueLimit+1) })
	found, err := h.Repository.Search(h.Context(), repository.SearchQuery{Limit: 10})
	check.Require(h, err == nil && len(found.Messages) == 2, "Search = %v, %v, want both", ids(found.Messages), err)
	if r := found.Messages[0].Record; r.State != entity.ValueNotLoaded || r.Value != nil || r.Size != int64(len(large.Record.Value)) {
		h.Errorf("a value over the limit is in state %d with %d of %d bytes, want none of them", r.State, len(r.Value), r.Size)
	}
	if r := found.Messages[1].Record; string(r.Value) != string(small.Record.Value) {
		h.Errorf("value = %q, want %q", r.Value, small.Record.Value)
	}
	if got, want := found.Messages[1], h.get(small.ID); got.Source != want.Source || got.CreatedAt != want.CreatedAt || got.Status != want.Status {
		h.Errorf("found %+v, want %+v", got, want)
	}
	found, err = h.Repository.Search(h.Context(), repository.SearchQuery{Limit: 10, NoValues: true})
	check.Require(h, err == nil && len(found.Messages) == 2, "Search without values = %v, %v, want both", ids(found.Messages), err)
	for i, want := range []entity.Message{h.get(large.ID), h.get(small.ID)} {
		got := found.Messages[i].Record
		if got.State != entity.ValueNotLoaded || got.Value != nil || got.Size != int64(len(want.Record.Value)) {
			h.Errorf("a value that was not asked for is in state %d with %d of %d bytes, want none of %d", got.State, len(got.Value), got.Size, len(want.Record.Value))
		}
		if string(got.Key) != string(want.Record.Key) || len(got.Headers) != len(want.Record.Headers) || got.HeadersOmitted {
			h.Errorf("without its value: got %+v, want the key and the headers of %+v", got, want.Record)
		}
	}
}

func searchNoLimit(h *harness) {
	h.put()
	found, err := h.Repository.Search(h.Context(), repository.SearchQuery{})
	check.True(h, err == nil && len(found.Messages) == 0, "Search without a limit = %v, %v, want nothing", ids(found.Messages), err)
	h.wantIDs("Export without a limit", h.exported(repository.ExportQuery{}, nil), nil)
}

func matchingPromises() []promise {
	return []promise{
		{"EstimateOfWhatCountersKnowIsExact", matchingCounters},
		{"EstimateIsANumber", matchingEstimate},
	}
}

func (h *harness) countMatching(q repository.CountQuery) repository.MatchCount {
	h.Helper()
	return check.Must(h.Repository.CountMatching(h.Context(), q))(h)
}

func matchingCounters(h *harness) {
	a := h.assorted()
	for _, c := range h.filterCases(a) {
		f := c.filter
		f.Topic, f.Topics, f.Statuses, f.Visible, f.UnknownOrigin = "", entity.TopicPatterns{}, nil, nil, false
		if f.Narrow() || !f.CreatedAfter.IsZero() || !f.CreatedBefore.IsZero() || !f.RetriedAfter.IsZero() || !f.RetriedBefore.IsZero() {
			continue
		}
		want := repository.MatchCount{Messages: int64(len(c.want)), Exact: true}
		check.Same(h, h.countMatching(repository.CountQuery{Filter: c.filter}), want, "%s: an estimate", c.name)
	}
}

func matchingEstimate(h *harness) {
	a := h.assorted()
	for _, c := range h.filterCases(a) {
		for _, archived := range []bool{false, true} {
			got := h.countMatching(repository.CountQuery{Filter: c.filter, Archived: archived})
			if got.Messages < 0 || got.Exact && !archived && got.Messages != int64(len(c.want)) {
				h.Errorf("%s: an estimate is %+v, want a number, and %d if it is exact", c.name, got, len(c.want))
			}
		}
	}
}
