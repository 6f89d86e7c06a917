package view_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/consoletest"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

func TestAssets(t *testing.T) {
	t.Parallel()
	files, err := view.LoadAssets(os.DirFS("../.."))
	check.NoError(t, err)
	s := consoletest.Site(t, consoletest.NewAPI(t))
	for path, want := range map[string]string{
		files.URL("console.css"): "public, max-age=31536000, immutable", files.URL("main.js"): "public, max-age=31536000, immutable",
		files.URL("icon.svg"): "public, max-age=31536000, immutable", "/static/of-before/console.css": "no-cache",
	} {
		w := consoletest.Get(t, s, path, "Accept-Encoding", "br, gzip")
		consoletest.WantSays(t, path, w, http.StatusOK)
		if h := w.Header(); h.Get("Cache-Control") != want || h.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: got %v, want it packed, and kept: %s", path, h, want)
		}
	}
	consoletest.WantSays(t, "what is no asset", consoletest.Get(t, s, "/static/x/console.go"), http.StatusNotFound)
	total := 0
	for name, size := range files.Sizes() {
		if name != "htmx.min.js" && name != "codemirror.js" {
			total += size
		}
	}
	if size := files.Sizes()["codemirror.js"]; size > 200_000 {
		t.Errorf("got %d bytes of the editor over the wire, want at most 200,000", size)
	}
	if total == 0 || total > 60<<10 {
		t.Errorf("got %d bytes of our assets over the wire, want some and at most 60 KiB", total)
	}
}
