// Package view answers requests with pages: it renders templates, redirects with a confirmation, serves the files of
// the pages, and puts errors of the API into words.
package view

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"path"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
)

const layoutFile = "templates/layout.html"

// Handler answers a request for a page. When it returns an error, it has written nothing.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Page is a page within the layout that all pages share.
type Page struct {
	Title   string
	Nav     string   // path of the navigation entry that the page belongs to
	Modules []string // names of the scripts that the page uses, without .js
	Problem *Problem // problem of the user's last action; nil: the action succeeded, or there was none
	Data    any
}

// Site contains the data about the program that the layout of every page shows.
type Site struct {
	Name        string
	Environment string
	Offers      Offers
}

// Offers says how people sign in. Needed: they must sign in. Issuer: they can sign in at an issuer.
type Offers struct{ Needed, Issuer bool }

type layout struct {
	Page
	Site
	Viewer *session.Viewer
	Theme  string
	Self   string // path and query of the page
	Path   string
	Done   string // the sentence about the last change
	Undo   string // address of the form that reverts the change; "": none
	draft  *Draft
}

func (l layout) Key(address string) string { return l.draft.Key(address) }

// Renderer renders pages. It is safe for concurrent use.
type Renderer struct {
	site   Site
	pages  map[string]*template.Template
	drafts Drafts
}

// NewRenderer parses the files templates/*.html of a file system. Ages are computed with the clock now.
func NewRenderer(templates fs.FS, site Site, files *Assets, drafts Drafts, now func() time.Time) (*Renderer, error) {
	names, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		return nil, err
	}
	r := &Renderer{site: site, pages: map[string]*template.Template{}, drafts: drafts}
	for _, name := range names {
		if name == layoutFile || strings.HasPrefix(path.Base(name), "parts") {
			continue
		}
		t, err := template.New("layout.html").Funcs(functions(files, now)).Option("missingkey=error").
			ParseFS(templates, layoutFile, "templates/parts*.html", name)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		r.pages[strings.TrimSuffix(path.Base(name), ".html")] = t
	}
	return r, nil
}

func functions(files *Assets, now func() time.Time) template.FuncMap {
	return template.FuncMap{
		"asset":     files.URL,
		"topicPage": link.Topic, "to": link.To,
		"ago":     func(t time.Time) string { return format.Ago(now(), t) },
		"now":     now,
		"clock":   func(t time.Time) string { return t.UTC().Format(time.TimeOnly) },
		"utc":     format.UTC,
		"iso":     format.ISO,
		"number":  format.Number,
		"bytes":   format.Bytes,
		"percent": format.Percent,
		"short":   format.Short,
		"lower":   strings.ToLower,
		"plural":  format.Plural,
		// The functions clip, visible and middle escape invisible characters, and characters that reverse text.
		"clip":    func(n int, text string) string { return format.Visible(format.Clip(n, text)) },
		"pair":    func(first, second any) map[string]any { return map[string]any{"First": first, "Second": second} },
		"visible": format.Visible,
		"middle":  func(n int, text string) string { return format.Visible(format.Middle(n, text)) },
		"parts":   format.Parts,

		"utcMinute":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
		"hourMinute": func(t time.Time) string { return t.UTC().Format("15:04") },
		"percentage": func(share float64) float64 { return share * 100 },
		"count":      func(list any) int64 { return int64(reflect.ValueOf(list).Len()) },
	}
}

// Render answers with a page. If p contains no problem, the page shows why its draft was refused. Render writes nothing
// when the page cannot be rendered.
func (v *Renderer) Render(w http.ResponseWriter, r *http.Request, status int, name string, p Page) error {
	t, ok := v.pages[name]
	if !ok {
		return fmt.Errorf("there is no page %q", name)
	}
	p.Problem = cmp.Or(p.Problem, DraftOf(r).Refused())
	done, undo := takeDone(w, r)
	var b bytes.Buffer
	if err := t.Execute(&b, layout{
		Page: p, Site: v.site, Viewer: session.ViewerOf(r), Theme: theme(r), Self: selfOf(r, p), Path: r.URL.Path, Done: done, Undo: undo, draft: DraftOf(r),
	}); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	page := visible(b.String())
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Add("Vary", "Accept-Encoding")
	if len(page) < worthPacking || !acceptsGzip(r) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, page) // an error means that the client has disconnected
		return nil
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z := packers.Get().(*gzip.Writer) //nolint:forcetypeassert // the pool has only *gzip.Writer
	defer packers.Put(z)
	z.Reset(w)
	_, _ = io.WriteString(z, page)
	_ = z.Close()
	return nil
}

// exact matches the parts of a page that forms send back and buttons copy. Text from elsewhere cannot look like one,
// because templates escape its angle brackets and quotation marks.
var exact = regexp.MustCompile(`(?s)<textarea.*?</textarea>|\s(?:value|name|data-text)="[^"]*"`)

// visible escapes invisible characters, and characters that reverse text, in a whole page: in its texts, its title and
// its attributes. Only the exact parts stay as they are.
func visible(page string) string {
	if format.Visible(page) == page {
		return page
	}
	var b strings.Builder
	last := 0
	for _, at := range exact.FindAllStringIndex(page, -1) {
		b.WriteString(format.Visible(page[last:at[0]]) + page[at[0]:at[1]])
		last = at[1]
	}
	b.WriteString(format.Visible(page[last:]))
	return b.String()
}

// ThemeCookie is the cookie of the chosen colours: light or dark.
const ThemeCookie = "dlq-theme"

// theme returns light, dark, or "" for the system's setting.
func theme(r *http.Request) string {
	cookie, err := r.Cookie(ThemeCookie)
	if err != nil || cookie.Value != "light" && cookie.Value != "dark" {
		return ""
	}
	return cookie.Value
}

// selfOf returns the address of the page. In the answer to a form it returns the address of the list that the page
// belongs to.
func selfOf(r *http.Request, p Page) string {
	if r.Method == http.MethodPost {
		return link.Local(p.Nav)
	}
	return r.URL.RequestURI()
}

// worthPacking is the size in bytes from which compression saves a network packet.
const worthPacking = 1400

var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
