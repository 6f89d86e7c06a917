package rest

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"sync"

	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi"
)

func documentRoutes() []route {
	return []route{
		{http.MethodGet, "/openapi.yaml", probe, permission{"", open}, serveDocument, everyStore},
		{http.MethodGet, "/docs", probe, permission{"", open}, serveReadable(), everyStore},
	}
}

func serveDocument(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openapi.Document) // an error means that the client has left
	return nil
}

// colours is the cookie in which the console keeps the colours that its user has chosen.
const colours = "dlq-theme"

// readable is the document as a web page, plain and compressed.
type readable struct {
	plain, compressed []byte
	policy            string
}

// serveReadable answers with the API's document as a web page, in the colours that the console uses. It renders the
// page once for each choice of colours.
func serveReadable() handler {
	pages := map[string]func() (readable, error){}
	for _, theme := range []string{"", "light", "dark"} {
		pages[theme] = sync.OnceValues(func() (readable, error) { return makeReadable(theme) })
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		made := pages[""]
		if chosen, err := r.Cookie(colours); err == nil && pages[chosen.Value] != nil {
			made = pages[chosen.Value]
		}
		page, err := made()
		if err != nil {
			return err
		}
		header := w.Header()
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", page.policy)
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Vary", "Accept-Encoding, Cookie")
		text := page.plain
		if acceptsGzip(r) {
			header.Set("Content-Encoding", "gzip")
			text = page.compressed
		}
		_, _ = w.Write(text) // an error means that the client has left
		return nil
	}
}

func makeReadable(theme string) (page readable, err error) {
	if page.plain, page.policy, err = openapi.Page(theme); err != nil {
		return page, err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(page.plain) // a bytes.Buffer never fails
	_ = z.Close()
	page.compressed = packed.Bytes()
	return page, nil
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" && strings.ReplaceAll(weight, " ", "") != "q=0" {
			return true
		}
	}
	return false
}
