package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed templates
var templates embed.FS

const layoutFile = "templates/layout.html"

type page struct {
	Title   string
	Nav     string   // path of the navigation entry that the page belongs to
	Modules []string // scripts that it uses, without .js
	Problem *failure // failure of the last action; nil: none
	Data    any
}

type view struct {
	page
	Viewer      *viewer
	Name        string
	Environment string
	Theme       string
	Self        string // path and query of the page
	Path        string
	Done        string // the sentence about the last change
	Offers      offers // how to sign in
}

type offers struct{ Needed, Issuer bool }

func (c *Console) parseTemplates() (map[string]*template.Template, error) {
	names, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		return nil, err
	}
	pages := map[string]*template.Template{}
	for _, name := range names {
		if name == layoutFile || strings.HasPrefix(path.Base(name), "parts") {
			continue
		}
		t, err := template.New("layout.html").Funcs(c.functions()).Option("missingkey=error").
			ParseFS(templates, layoutFile, "templates/parts*.html", name)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		pages[strings.TrimSuffix(path.Base(name), ".html")] = t
	}
	return pages, nil
}

// render answers with a page. It writes nothing when the page cannot be rendered.
func (c *Console) render(w http.ResponseWriter, r *http.Request, status int, name string, p page) error {
	t, ok := c.pages[name]
	if !ok {
		return fmt.Errorf("there is no page %q", name)
	}
	v := view{
		page: p, Viewer: viewerOf(r), Name: c.cfg.Name, Environment: c.cfg.Environment, Theme: themeOf(r),
		Self: selfOf(r, p), Path: r.URL.Path, Done: takeDone(w, r),
		Offers: offers{Needed: c.needAuth, Issuer: c.signIn != nil},
	}
	var b bytes.Buffer
	if err := t.Execute(&b, v); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Add("Vary", "Accept-Encoding")
	if b.Len() < worthPacking || !acceptsGzip(r) {
		w.WriteHeader(status)
		_, _ = w.Write(b.Bytes()) // the client has disconnected
		return nil
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z := packers.Get().(*gzip.Writer) //nolint:forcetypeassert // it holds only these
	defer packers.Put(z)
	z.Reset(w)
	_, _ = z.Write(b.Bytes())
	_ = z.Close()
	return nil
}

// selfOf returns the address of the page; for the answer to a form, the address of the list that it belongs to.
func selfOf(r *http.Request, p page) string {
	if r.Method == http.MethodPost {
		return ownPath(p.Nav)
	}
	return r.URL.RequestURI()
}

// worthPacking is the size in bytes from which compression saves a network packet.
const worthPacking = 1400

var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
