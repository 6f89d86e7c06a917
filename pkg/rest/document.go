package rest

import (
	"net/http"
	"sync"

	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi"
)

// documentRoutes describe the API.
func documentRoutes() []route {
	return []route{
		{http.MethodGet, "/openapi.yaml", probe, needs{"", open}, serveDocument, everyStore},
		{http.MethodGet, "/docs", probe, needs{"", open}, serveReadable(), everyStore},
	}
}

// serveDocument answers with the description of the API.
func serveDocument(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openapi.Document) // a client that left is nobody's fault
	return nil
}

// serveReadable answers with the same as a page, which is made once.
func serveReadable() handler {
	type page struct {
		text   []byte
		policy string
	}
	made := sync.OnceValues(func() (page, error) {
		text, policy, err := openapi.Page()
		return page{text, policy}, err
	})
	return func(w http.ResponseWriter, _ *http.Request) error {
		p, err := made()
		if err != nil {
			return err
		}
		header := w.Header()
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", p.policy)
		header.Set("Referrer-Policy", "no-referrer")
		_, _ = w.Write(p.text)
		return nil
	}
}
