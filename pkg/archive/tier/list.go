package tier

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/archive/tier/internal/file"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Search implements repository.Searcher.
func (a *Archive) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	if !q.Archived {
		return a.db.Search(ctx, q)
	}
	if err := searchable("", q.Filter, q.Sort); err != nil {
		return repository.SearchPage{}, err
	}
	// A message that moves to an object between the read of the database and the read of the objects is found by both
	// reads; merged drops one of them.
	page, err := a.db.Search(ctx, q)
	if err != nil || q.Limit < 1 {
		return page, err
	}
	l := newListing(q.Filter)
	l.ascending, l.after, l.limit = q.Sort.Ascending, q.After, q.Limit
	limits := repository.ShownLimits{
		Value: repository.ListValueLimit, Key: repository.ListValueLimit, Headers: repository.ListValueLimit,
		Page: repository.ListPageLimit, NoValues: q.NoValues,
	}
	found, err := a.list(ctx, l, limits)
	if err != nil {
		return repository.SearchPage{}, fmt.Errorf("search messages in objects: %w", err)
	}
	page.Messages = merged(page.Messages, found, q.Sort.Ascending)
	page.Messages = page.Messages[:min(len(page.Messages), q.Limit)]
	return page, nil
}

// searchable returns an error for each condition that objects cannot be searched for. prefix goes in front of the names
// in the errors.
func searchable(prefix string, f entity.Filter, s repository.Sort) error {
	var errs []error
	for _, c := range []struct {
		field string
		set   bool
	}{
		{"status", len(f.Statuses) > 0},
		{"error_class", f.ErrorClass != ""},
		{"consumer_group", f.ConsumerGroup != ""},
		{"dialect", f.Dialect != ""},
		{"group_id", f.Group != uuid.Nil},
		{"origin", f.UnknownOrigin},
		{"retried_after", !f.RetriedAfter.IsZero()},
		{"retried_before", !f.RetriedBefore.IsZero()},
		{"key", f.Key != nil},
		{"header", len(f.Headers) > 0},
		{"payload", len(f.Fields) > 0},
		{"q", len(f.Words) > 0},
		{"sort", s.By == repository.ByLastRetry},
	} {
		if c.set {
			errs = append(errs, &entity.FieldError{Field: prefix + c.field, Reason: "does not work for archived messages that are or may be " +
				"in an object store: use only id, topic, created_after, created_before, and sort by created_at"})
		}
	}
	return errors.Join(errs...)
}

// listing selects a part of a list, in the order of created_at and id.
type listing struct {
	filter    entity.Filter
	ids       map[uuid.UUID]bool // the filter's MessageIDs; empty for all messages
	ascending bool
	after     repository.Cursor
	limit     int
}

func newListing(f entity.Filter) *listing { return &listing{filter: f, ids: setOf(f.MessageIDs)} }

// found is the entry of a message that belongs to a list; object is the index of the object that contains the message.
type found struct {
	file.Entry
	object int
}

// compare says which of the entries a and b comes first in the list.
func (l *listing) compare(a, b *file.Entry) int {
	return l.order(a.CreatedAt, a.ID, b.CreatedAt, b.ID)
}

func (l *listing) order(at repository.Micros, id uuid.UUID, otherAt repository.Micros, otherID uuid.UUID) int {
	c := cmp.Or(cmp.Compare(at, otherAt), bytes.Compare(id[:], otherID[:]))
	if l.ascending {
		return c
	}
	return -c
}

// matches reports whether an entry belongs to the list: it matches the filter and comes after the cursor.
func (l *listing) matches(e *file.Entry) bool {
	f := &l.filter
	switch {
	case l.after != (repository.Cursor{}) && l.order(e.CreatedAt, e.ID, repository.MicrosOf(l.after.CreatedAt), l.after.ID) <= 0,
		!f.CreatedAfter.IsZero() && e.CreatedAt < repository.MicrosOf(entity.TruncateTime(f.CreatedAfter)),
		!f.CreatedBefore.IsZero() && e.CreatedAt >= repository.MicrosOf(entity.TruncateTime(f.CreatedBefore)),
		len(l.ids) > 0 && !l.ids[e.ID]:
		return false
	}
	return l.hasTopics(e.OriginalTopic, e.DLQTopic)
}

// hasTopics reports whether the filter accepts messages with this original topic and this dead-letter topic.
func (l *listing) hasTopics(original, dlq string) bool {
	f := &l.filter
	if f.Topic != "" && f.Topic != original && f.Topic != dlq {
		return false
	}
	if len(f.Topics.Texts()) > 0 && !f.Topics.Match(original) && !f.Topics.Match(dlq) {
		return false
	}
	return f.Visible == nil || f.Visible.Sees(&entity.Message{OriginalTopic: original, Source: entity.Source{Topic: dlq}})
}

// objects returns the objects that may contain messages of the list, the object whose messages come first in the list
// first.
func (a *Archive) objects(ctx context.Context, l *listing) ([]repository.ArchiveObject, error) {
	objects, err := a.catalog.Objects(ctx, repository.ObjectQuery{
		CreatedAfter: l.filter.CreatedAfter, CreatedBefore: l.filter.CreatedBefore, Topic: l.filter.Topic,
		MessageIDs: l.filter.MessageIDs,
	})
	if err != nil {
		return nil, err
	}
	objects = slices.DeleteFunc(objects, func(o repository.ArchiveObject) bool {
		return !slices.ContainsFunc(o.Topics, func(t repository.ObjectTopic) bool { return l.hasTopics(t.Original, t.DLQ) })
	})
	slices.SortFunc(objects, func(a, b repository.ArchiveObject) int { return cmp.Compare(l.begin(&a), l.begin(&b)) })
	return objects, nil
}

// begin returns the sort key of an object for a list: an object with a lower key may contain an earlier message of the
// list.
func (l *listing) begin(o *repository.ArchiveObject) repository.Micros {
	if l.ascending {
		return o.FirstCreated
	}
	return -o.LastCreated
}

// list returns a part of a list. When an object is replaced while it is read, list reads all objects again.
func (a *Archive) list(ctx context.Context, l *listing, limits repository.ShownLimits) ([]entity.Message, error) {
	for try := 0; ; try++ {
		objects, err := a.objects(ctx, l)
		if err != nil {
			return nil, err
		}
		messages, err := a.listOnce(ctx, l, objects, limits)
		if !errors.Is(err, errGone) || try == maxReplaced {
			return messages, err
		}
	}
}

func (a *Archive) listOnce(
	ctx context.Context, l *listing, objects []repository.ArchiveObject, limits repository.ShownLimits,
) ([]entity.Message, error) {
	first, err := a.first(ctx, l, objects)
	if err != nil {
		return nil, err
	}
	return a.load(ctx, objects, first, limits)
}

// first returns the first entries of a list. It reads an object only when the object may contain one of these entries.
func (a *Archive) first(ctx context.Context, l *listing, objects []repository.ArchiveObject) ([]found, error) {
	var first []found
	for i := range objects {
		o := &objects[i]
		if len(first) == l.limit && l.full(&first[l.limit-1].Entry, o) {
			break
		}
		err := a.eachMatch(ctx, l, o, func(e *file.Entry) {
			if first = append(first, found{*e, i}); len(first) >= 4*l.limit {
				first = l.cut(first)
			}
		})
		if err != nil {
			return nil, err
		}
		first = l.cut(first)
	}
	return first, nil
}

// eachMatch calls do for the entry of each message of an object that belongs to a list, and that is not hidden.
func (a *Archive) eachMatch(ctx context.Context, l *listing, o *repository.ArchiveObject, do func(*file.Entry)) error {
	entries, err := a.objectEntries(ctx, o)
	if err != nil {
		return err
	}
	hidden := hiddenIn(o)
	for i := range entries {
		if e := &entries[i]; l.matches(e) && !hidden[e.ID] {
			do(e)
		}
	}
	return nil
}

// full reports whether every message of the object o comes after the entry last, so that o need not be read.
func (l *listing) full(last *file.Entry, o *repository.ArchiveObject) bool {
	if l.ascending {
		return last.CreatedAt < o.FirstCreated
	}
	return last.CreatedAt > o.LastCreated
}

// cut sorts entries in the order of the list, and returns as many of the first entries as the list's limit allows.
func (l *listing) cut(entries []found) []found {
	slices.SortFunc(entries, func(a, b found) int { return l.compare(&a.Entry, &b.Entry) })
	return entries[:min(len(entries), l.limit)]
}

// load returns the messages of entries, in their order. It reads one object after the other, and converts a few rows at
// a time to messages. A row contains the whole value, which a message contains only when it is short, so rows need more
// memory.
func (a *Archive) load(
	ctx context.Context, objects []repository.ArchiveObject, entries []found, limits repository.ShownLimits,
) ([]entity.Message, error) {
	wanted := map[int]map[uuid.UUID]bool{}
	for _, e := range entries {
		if wanted[e.object] == nil {
			wanted[e.object] = map[uuid.UUID]bool{}
		}
		wanted[e.object][e.ID] = true
	}
	shown := shown{catalog: a.catalog, limits: limits, messages: make(map[uuid.UUID]entity.Message, len(entries))}
	for i := range objects {
		if wanted[i] == nil {
			continue
		}
		err := a.rows(ctx, &objects[i], wanted[i], func(r *repository.ArchivedRow) error { return shown.add(ctx, r) })
		if err != nil {
			return nil, err
		}
	}
	if err := shown.flush(ctx); err != nil {
		return nil, err
	}
	messages := make([]entity.Message, len(entries))
	for i, e := range entries {
		m, ok := shown.messages[e.ID]
		if !ok {
			return nil, fmt.Errorf("object %s lacks message %s", objects[e.object].Key, e.ID)
		}
		messages[i] = m
	}
	return messages, nil
}

// shown converts rows of objects to messages, a few rows at a time.
type shown struct {
	catalog  Catalog
	limits   repository.ShownLimits
	rows     []repository.ArchivedRow
	bytes    int64 // size of the rows in the field rows
	used     int64 // size in memory of the messages in the field messages
	messages map[uuid.UUID]entity.Message
}

func (s *shown) add(ctx context.Context, r *repository.ArchivedRow) error {
	s.rows = append(s.rows, *r)
	if s.bytes += file.Size(r); s.bytes < loadBytes {
		return nil
	}
	return s.flush(ctx)
}

func (s *shown) flush(ctx context.Context) error {
	limits := s.limits
	if limits.Page > 0 {
		limits.Page = max(1, limits.Page-s.used)
	}
	messages, err := s.catalog.Show(ctx, s.rows, limits)
	if err != nil {
		return err
	}
	for i := range messages {
		size := repository.SizeInMemory(&messages[i])
		if s.limits.Page > 0 { // only a page, which keeps all its messages, reserves memory; an export does not keep its messages
			if err := repository.ReserveMemory(ctx, size); err != nil {
				return err
			}
		}
		s.used += size
		s.messages[messages[i].ID] = messages[i]
	}
	s.rows, s.bytes = s.rows[:0], 0
	return nil
}

// merged merges two lists in the order of the list. A message that is in both is taken from the first.
func merged(a, b []entity.Message, ascending bool) []entity.Message {
	l := listing{ascending: ascending}
	all := make([]entity.Message, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := l.compareMessages(&a[0], &b[0]); {
		case c == 0:
			b = b[1:]
		case c < 0:
			all, a = append(all, a[0]), a[1:]
		default:
			all, b = append(all, b[0]), b[1:]
		}
	}
	return append(append(all, a...), b...)
}

func (l *listing) compareMessages(a, b *entity.Message) int {
	return l.order(repository.MicrosOf(a.CreatedAt), a.ID, repository.MicrosOf(b.CreatedAt), b.ID)
}

// CountMatching implements repository.Searcher.
func (a *Archive) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	if !q.Archived {
		return a.db.CountMatching(ctx, q)
	}
	if err := searchable("", q.Filter, repository.Sort{}); err != nil {
		return repository.MatchCount{}, err
	}
	count, err := a.countBoth(ctx, q)
	if err != nil {
		return repository.MatchCount{}, err
	}
	if q.Filter.Visible != nil && count.Exact {
		return repository.LimitedCount(count.Messages), nil
	}
	if q.Filter.Visible != nil {
		count.Messages = min(count.Messages, repository.CountLimit)
	}
	return count, nil
}

// countBoth adds the number of matching messages in the database and the number in objects. A message that moves
// between the two counts would be counted twice or not at all, so the objects are counted before and after the
// database. When the two counts of the objects differ, countBoth counts again; after maxReplaced repetitions, it
// returns a number that is not exact.
func (a *Archive) countBoth(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	l := newListing(q.Filter)
	before, err := a.count(ctx, l)
	for try := 0; err == nil; try++ {
		count, failed := a.db.CountMatching(ctx, q)
		if failed != nil {
			return count, failed
		}
		var after int64
		if after, err = a.count(ctx, l); err == nil && (after == before || try == maxReplaced) {
			count.Messages += after
			count.Exact = count.Exact && after == before
			return count, nil
		}
		before = after
	}
	return repository.MatchCount{}, fmt.Errorf("count messages in objects: %w", err)
}

// count counts the matching messages of objects. If the filter names no ids, and all messages of an object are in its
// time range, count takes the number from the manifest. Of other objects it reads the entries.
func (a *Archive) count(ctx context.Context, l *listing) (n int64, err error) {
	for try := 0; ; try++ {
		objects, err := a.objects(ctx, l)
		if err != nil {
			return 0, err
		}
		n, err = a.countOnce(ctx, l, objects)
		if !errors.Is(err, errGone) || try == maxReplaced {
			return n, err
		}
	}
}

func (a *Archive) countOnce(ctx context.Context, l *listing, objects []repository.ArchiveObject) (n int64, err error) {
	within := func(o *repository.ArchiveObject) bool {
		f := &l.filter
		return len(l.ids) == 0 && (f.CreatedAfter.IsZero() || o.FirstCreated >= repository.MicrosOf(entity.TruncateTime(f.CreatedAfter))) &&
			(f.CreatedBefore.IsZero() || o.LastCreated < repository.MicrosOf(entity.TruncateTime(f.CreatedBefore)))
	}
	for i := range objects {
		o := &objects[i]
		if within(o) {
			for _, t := range o.Topics {
				if l.hasTopics(t.Original, t.DLQ) {
					n += t.Messages
				}
			}
			continue
		}
		if err := a.eachMatch(ctx, l, o, func(*file.Entry) { n++ }); err != nil {
			return 0, err
		}
	}
	return n, nil
}
