package rest

import (
	"net/http"
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
	_, _ = w.Write(openapi.Document) // the client may have left
	return nil
}

// serveReadable answers with the document as a web page, which is rendered once.
func serveReadable() handler {
	var policy string
	made := sync.OnceValues(func() (text []byte, err error) {
		text, policy, err = openapi.Page()
		return text, err
	})
	return func(w http.ResponseWriter, _ *http.Request) error {
		text, err := made()
		if err != nil {
			return err
		}
		header := w.Header()
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", policy)
		header.Set("Referrer-Policy", "no-referrer")
		_, _ = w.Write(text)
		return nil
	}
}
