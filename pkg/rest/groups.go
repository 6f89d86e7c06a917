package rest

import (
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// maxNote and maxLink bound the annotations of a group, in characters.
const maxNote, maxLink = 2000, 2000

var (
	groupSorts = map[string]repository.GroupSort{
		"last_seen": repository.GroupsByLastSeen, "first_seen": repository.GroupsByFirstSeen, "open": repository.GroupsByOpen,
	}
	groupSortNames = []string{"last_seen", "first_seen", "open"}

	trends     = map[string]time.Duration{"24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "none": 0}
	trendNames = []string{"24h", "7d", "none"}
)

type groupJSON struct {
	ID          uuid.UUID               `json:"id"`
	Class       *string                 `json:"class"`
	Title       string                  `json:"title"`
	Frames      []string                `json:"frames"`
	Rule        *string                 `json:"rule"`
	FirstSeen   *string                 `json:"first_seen_at"`
	LastSeen    *string                 `json:"last_seen_at"`
	RegressedAt *string                 `json:"regressed_at"`
	New         bool                    `json:"new"`
	Regressed   bool                    `json:"regressed"`
	Counts      map[entity.Status]int64 `json:"counts"`
	Open        int64                   `json:"open"`
	Arrived     int64                   `json:"arrived"`
	Topics      []topicShareJSON        `json:"topics"`
	Trend       []hourJSON              `json:"trend"`
	Note        *string                 `json:"note"`
	Link        *string                 `json:"link"`
	Muted       bool                    `json:"muted"`
	Annotations []annotationJSON        `json:"annotations"`
	Annotated   []string                `json:"annotated_topics,omitempty"` // by the request
}

// annotationJSON is the annotation of a topic; null for all topics without their own.
type annotationJSON struct {
	Topic *string `json:"topic"`
	Note  *string `json:"note"`
	Link  *string `json:"link"`
	Muted bool    `json:"muted"`
}

type topicShareJSON struct {
	Topic    string `json:"topic"`
	Messages int64  `json:"messages"`
}

type hourJSON struct {
	Hour     *string `json:"hour"`
	Messages int64   `json:"messages"`
}

func (s *Server) showGroup(g entity.ErrorGroup, unmasked bool) groupJSON {
	if !unmasked {
		g.Title, g.Frames = maskedText, nil
		if g.Class != "" {
			g.Class = maskedText
		}
	}
	return groupJSON{
		ID: g.ID, Class: orNull(g.Class), Title: g.Title, Frames: listOf(g.Frames), Rule: orNull(g.Rule),
		FirstSeen: stamp(g.FirstSeen), LastSeen: stamp(g.LastSeen), RegressedAt: stamp(g.RegressedAt),
		New: g.New(s.now()), Regressed: g.Regressed(), Counts: showCounts(g.Counts), Open: g.Open(),
		Arrived: g.Arrived,
		Topics:  each(g.Topics, func(t entity.TopicShare) topicShareJSON { return topicShareJSON(t) }),
		Trend:   each(g.Trend, func(h entity.HourCount) hourJSON { return hourJSON{stamp(h.Hour), h.Messages} }),
		Note:    orNull(g.Common.Note), Link: orNull(g.Common.Link), Muted: g.Common.Muted,
		Annotations: each(g.Annotations, showAnnotation),
	}
}

func showAnnotation(a entity.GroupAnnotation) annotationJSON {
	said := annotationJSON{Note: orNull(a.Note), Link: orNull(a.Link), Muted: a.Muted}
	if a.Topic != entity.AllTopics {
		said.Topic = &a.Topic
	}
	return said
}

func (s *Server) listGroups(w http.ResponseWriter, r *http.Request) error {
	l, err := s.listingOf(r, placeSize, defaultLimit, "topic", "open", "sort")
	if err != nil {
		return err
	}
	q, err := s.groupQuery(r)
	if err != nil {
		return err
	}
	if l.place != nil {
		q.After = &repository.GroupCursor{Key: l.number(), ID: uuid.UUID(l.place[numberSize:])}
	}
	q.Limit = l.limit + 1
	unmasked, err := s.viewOfGroups(r)
	if err != nil {
		return err
	}
	groups, err := s.db.ErrorGroups(r.Context(), q)
	if err != nil {
		return err
	}
	groups, next := part(l, groups, func(last repository.ListedGroup) []byte {
		return append(numberPlace(last.Cursor.Key), last.Cursor.ID[:]...)
	})
	show := func(g repository.ListedGroup) groupJSON { return s.showGroup(g.ErrorGroup, unmasked) }
	writeList(w, "groups", each(groups, show), next)
	return nil
}

func (s *Server) groupQuery(r *http.Request) (q repository.GroupQuery, err error) {
	query := r.URL.Query()
	q.Visible = principalOf(r).Scope(auth.Viewer)
	if q.Topic, err = textParameter(query, "topic"); err != nil {
		return q, err
	}
	if query.Has("topic") && (q.Topic == "" || !possibleTopic(q.Topic)) {
		return q, &entity.FieldError{Field: "topic", Reason: "must be the name of an original topic"}
	}
	if q.Open, err = boolParameter(query, "open"); err != nil {
		return q, err
	}
	sort, err := wordParameter(query, "sort", groupSortNames)
	if err != nil {
		return q, err
	}
	q.Sort = groupSorts[sort]
	q.Trend, err = s.trendOf(query, "24h")
	return q, err
}

func (s *Server) trendOf(query url.Values, missing string) (repository.Trend, error) {
	name, err := wordParameter(query, "trend", trendNames)
	if name == "" {
		name = missing
	}
	span := trends[name]
	if err != nil || span == 0 {
		return repository.Trend{}, err
	}
	until := s.now().UTC().Truncate(time.Hour).Add(time.Hour)
	return repository.Trend{Since: until.Add(-span), Until: until}, nil
}

func (s *Server) getGroup(w http.ResponseWriter, r *http.Request) error {
	id, err := idOf(r, "group")
	if err != nil {
		return err
	}
	trend, err := s.trendOf(r.URL.Query(), "7d")
	if err != nil {
		return err
	}
	return s.writeGroup(w, r, id, trend, nil)
}

// writeGroup sends a group, and which topics the request has annotated.
func (s *Server) writeGroup(w http.ResponseWriter, r *http.Request, id uuid.UUID, trend repository.Trend, annotated []string) error {
	unmasked, err := s.viewOfGroups(r)
	if err != nil {
		return err
	}
	g, err := s.db.ErrorGroup(r.Context(), id, principalOf(r).Scope(auth.Viewer), trend)
	if err != nil {
		return err
	}
	shown := s.showGroup(g, unmasked)
	shown.Annotated = annotated
	writeJSON(w, http.StatusOK, shown)
	return nil
}

// annotateGroup sets what is given, for those topics of the group on which the caller is operator.
func (s *Server) annotateGroup(w http.ResponseWriter, r *http.Request) error {
	id, err := idOf(r, "group")
	if err != nil {
		return err
	}
	var note, link nullable[string]
	var muted option[bool]
	cause, err := s.readChange(w, r, fields{"note": &note, "link": &link, "muted": &muted})
	if err != nil {
		return err
	}
	a, err := annotation(note, link, muted)
	if err != nil {
		return err
	}
	trend, err := s.trendOf(r.URL.Query(), "7d")
	if err != nil {
		return err
	}
	if _, err := s.db.ErrorGroup(r.Context(), id, principalOf(r).Scope(auth.Viewer), repository.Trend{}); err != nil {
		return err
	}
	topics, err := s.db.AnnotateGroup(r.Context(), id, a, principalOf(r).Scope(auth.Operator), cause)
	if err != nil {
		return err
	}
	return s.writeGroup(w, r, id, trend, topics)
}

func annotation(note, link nullable[string], muted option[bool]) (a repository.Annotation, err error) {
	var p problems
	if note.given {
		a.Note = textOf(note)
		p.refuse(!possibleText(*a.Note, maxNote) || strings.ContainsFunc(*a.Note, notInNotes), "note",
			"must have at most %d characters, and no control characters but tabs and new lines", maxNote)
	}
	if link.given {
		a.Link = textOf(link)
		p.refuse(*a.Link != "" && !webLink(*a.Link), "link", "must be an http or https address of at most %d characters", maxLink)
	}
	if muted.given {
		a.Muted = &muted.value
	}
	p.refuse(!note.given && !link.given && !muted.given, "body", "must have note, link or muted")
	return a, joined(p)
}

// textOf takes null for the empty text: both clear it.
func textOf(n nullable[string]) *string {
	if n.value == nil {
		return new(string)
	}
	return n.value
}

func notInNotes(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }

// webLink keeps out what would run where a link is clicked.
func webLink(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		utf8.RuneCountInString(text) <= maxLink && possibleText(text, maxLink) && !strings.ContainsFunc(text, unicode.IsControl)
}
