// Package groups answers requests about failures and arrivals as a whole: error groups, topics with the state of their
// consumers, share groups, and the number of arrivals. The answers count the messages of the principal's topics only.
package groups

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/unmask"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// maxNote and maxLink bound the annotations of a group, in characters.
const maxNote, maxLink = 2000, 2000

var (
	groupSorts = map[string]repository.GroupSort{
		"last_seen": repository.GroupsByLastSeen, "first_seen": repository.GroupsByFirstSeen, "open": repository.GroupsByOpen,
		"recent": repository.GroupsByRecent,
	}
	groupSortNames = []string{"last_seen", "first_seen", "open", "recent"}

	trends     = map[string]time.Duration{"24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "none": 0}
	trendNames = []string{"24h", "7d", "none"}
)

// ErrorGroups answers with error groups, and annotates them.
type ErrorGroups struct {
	Database Database
	Topics   Existing // nil: answers do not say which topics exist
	Unmask   unmask.Rules
	Cursors  request.Cursors
	Bodies   request.Bodies
	Now      func() time.Time
}

// Database reads and annotates error groups, and finds the targets of redirects.
type Database interface {
	ErrorGroups(ctx context.Context, q repository.GroupQuery) ([]repository.ListedGroup, error)
	ErrorGroup(ctx context.Context, id uuid.UUID, visible *entity.TopicPatterns, trend repository.Trend) (entity.ErrorGroup, error)
	AnnotateGroup(ctx context.Context, id uuid.UUID, a repository.Annotation, where *entity.TopicPatterns, cause entity.AuditInfo) ([]string, error)
	RedirectTargets(ctx context.Context, topics []string) (map[string]string, error)
}

// Existing knows which topics exist.
type Existing interface {
	// Exists reports for each of the topics whether it exists. It leaves out the topics for which Kafka does not say so
	// within seconds.
	Exists(ctx context.Context, topics ...string) map[string]bool
}

// List sends a page of the error groups.
func (h ErrorGroups) List(w http.ResponseWriter, r *http.Request) error {
	l, err := h.Cursors.List(r, request.TimeSize, request.DefaultLimit, "topic", "open", "status", "new", "regressed", "sort")
	if err != nil {
		return err
	}
	q, err := h.readQuery(r)
	if err != nil {
		return err
	}
	if l.Position != nil {
		q.After = &repository.GroupCursor{Key: l.Number(), ID: uuid.UUID(l.Position[request.NumberSize:])}
	}
	q.Limit = l.Limit + 1
	unmasked, err := h.Unmask.ErrorGroups(r)
	if err != nil {
		return err
	}
	groups, err := h.Database.ErrorGroups(r.Context(), q)
	if err != nil {
		return err
	}
	groups, next := request.Part(l, groups, func(last repository.ListedGroup) []byte {
		return append(request.NumberPosition(last.Cursor.Key), last.Cursor.ID[:]...)
	})
	show := func(g repository.ListedGroup) wire.ErrorGroup {
		return wire.NewErrorGroup(g.ErrorGroup, h.Now(), unmasked)
	}
	respond.List(w, "groups", wire.Each(groups, show), next)
	return nil
}

func (h ErrorGroups) readQuery(r *http.Request) (q repository.GroupQuery, err error) {
	query := r.URL.Query()
	q.Visible = access.Principal(r).Scope(auth.Viewer)
	if q.Topic, err = request.Text(query, "topic"); err != nil {
		return q, err
	}
	if query.Has("topic") && (q.Topic == "" || !request.PossibleTopic(q.Topic)) {
		return q, &entity.FieldError{Field: "topic", Reason: "must be the name of an original topic"}
	}
	if q.Statuses, err = readStatuses(query); err != nil {
		return q, err
	}
	isNew, err := request.Bool(query, "new")
	if err != nil {
		return q, err
	}
	if isNew {
		q.FirstAfter = h.Now().Add(-entity.NewGroupAge)
	}
	if q.Regressed, err = request.Bool(query, "regressed"); err != nil {
		return q, err
	}
	sort, err := request.Word(query, "sort", groupSortNames)
	if err != nil {
		return q, err
	}
	q.Sort, q.Recent = groupSorts[sort], wire.RecentSince(h.Now())
	q.Trend, err = h.readTrend(query, "24h")
	return q, err
}

// readStatuses reads the states of messages by which error groups are selected: a group is listed when a message of it
// has one of the states. open=true means every state but RESOLVED.
func readStatuses(query url.Values) ([]entity.Status, error) {
	open, err := request.Bool(query, "open")
	if err != nil {
		return nil, err
	}
	statuses, err := request.Statuses(query)
	if err != nil || !open {
		return statuses, err
	}
	if len(statuses) == 0 {
		return repository.OpenStatuses, nil
	}
	return nil, &entity.FieldError{Field: "open", Reason: "must not be given with status"}
}

func (h ErrorGroups) readTrend(query url.Values, missing string) (repository.Trend, error) {
	name, err := request.Word(query, "trend", trendNames)
	if err != nil {
		return repository.Trend{}, err
	}
	steps, err := request.Bool(query, "minutes")
	if err != nil {
		return repository.Trend{}, err
	}
	trend := repository.Trend{Minutes: wire.RecentSince(h.Now())}
	if steps {
		trend.Minutes = wire.MinutesSince(h.Now())
	}
	if name == "" {
		name = missing
	}
	if timeRange := trends[name]; timeRange > 0 {
		trend.Until = h.Now().UTC().Truncate(time.Hour).Add(time.Hour)
		trend.Since = trend.Until.Add(-timeRange)
	}
	return trend, nil
}

// Get sends an error group.
func (h ErrorGroups) Get(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "group")
	if err != nil {
		return err
	}
	trend, err := h.readTrend(r.URL.Query(), "7d")
	if err != nil {
		return err
	}
	return h.write(w, r, id, trend, nil)
}

// write sends an error group, and the names of the topics whose annotations the request has changed.
func (h ErrorGroups) write(w http.ResponseWriter, r *http.Request, id uuid.UUID, trend repository.Trend, annotated []string) error {
	unmasked, err := h.Unmask.ErrorGroups(r)
	if err != nil {
		return err
	}
	g, err := h.Database.ErrorGroup(r.Context(), id, access.Principal(r).Scope(auth.Viewer), trend)
	if err != nil {
		return err
	}
	shown := wire.NewErrorGroup(g, h.Now(), unmasked)
	shown.Annotated = annotated
	if shown.Missing, err = h.missing(r.Context(), g.Topics); err != nil {
		return err
	}
	respond.JSON(w, http.StatusOK, shown)
	return nil
}

// missing returns those topics of an error group to which no retry can be sent: they do not exist and have no redirect.
func (h ErrorGroups) missing(ctx context.Context, topics []entity.TopicShare) ([]string, error) {
	if h.Topics == nil {
		return nil, nil
	}
	var names, missing []string
	for _, t := range topics {
		if t.Topic != "" {
			names = append(names, t.Topic)
		}
	}
	existing := h.Topics.Exists(ctx, names...)
	for _, name := range names {
		if exists, known := existing[name]; known && !exists {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	redirects, err := h.Database.RedirectTargets(ctx, missing)
	return slices.DeleteFunc(missing, func(name string) bool { return redirects[name] != "" }), err
}

// Annotate sets the given fields for those topics of the error group on which the caller is operator.
func (h ErrorGroups) Annotate(w http.ResponseWriter, r *http.Request) error {
	id, err := request.ID(r, "group")
	if err != nil {
		return err
	}
	var note, link request.Nullable[string]
	var muted request.Option[bool]
	cause, err := h.Bodies.ReadChange(w, r, request.Fields{"note": &note, "link": &link, "muted": &muted})
	if err != nil {
		return err
	}
	a, err := annotation(note, link, muted)
	if err != nil {
		return err
	}
	trend, err := h.readTrend(r.URL.Query(), "7d")
	if err != nil {
		return err
	}
	if _, err := h.Database.ErrorGroup(r.Context(), id, access.Principal(r).Scope(auth.Viewer), repository.Trend{}); err != nil {
		return err
	}
	topics, err := h.Database.AnnotateGroup(r.Context(), id, a, access.Principal(r).Scope(auth.Operator), cause)
	if err != nil {
		return err
	}
	return h.write(w, r, id, trend, topics)
}

func annotation(note, link request.Nullable[string], muted request.Option[bool]) (a repository.Annotation, err error) {
	var p request.Problems
	if note.Given {
		a.Note = textOf(note)
		p.Refuse(!request.PossibleText(*a.Note, maxNote) || strings.ContainsFunc(*a.Note, notInNotes), "note",
			"must have at most %d characters, and no control characters but tabs and new lines", maxNote)
	}
	if link.Given {
		a.Link = textOf(link)
		p.Refuse(*a.Link != "" && !webLink(*a.Link), "link", "must be an http or https address of at most %d characters", maxLink)
	}
	if muted.Given {
		a.Muted = &muted.Value
	}
	p.Refuse(!note.Given && !link.Given && !muted.Given, "body", "must have note, link or muted")
	return a, p.Err()
}

// textOf returns the text of a field, and "" for null, because both clear the field.
func textOf(n request.Nullable[string]) *string {
	if n.Value == nil {
		return new(string)
	}
	return n.Value
}

func notInNotes(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }

// webLink accepts only http and https URLs: other URLs could run a script when a user clicks the link.
func webLink(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		utf8.RuneCountInString(text) <= maxLink && request.PossibleText(text, maxLink) && !strings.ContainsFunc(text, unicode.IsControl)
}
