package view

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
)

// stylesheet is the name under which all files of static/css are served, joined.
const stylesheet = "console.css"

// Assets are the stylesheets, scripts and pictures of the pages, compressed once.
type Assets struct {
	version string // hash of all files, which is part of their addresses
	files   map[string]asset
}

type asset struct {
	kind       string
	plain      []byte
	compressed []byte
}

var kinds = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// LoadAssets reads each file of a known type below the folder static. Stylesheets are joined in the order of their
// names, the stylesheets of libraries first.
func LoadAssets(files fs.FS) (*Assets, error) {
	contents := map[string][]byte{}
	var sheets []string
	err := fs.WalkDir(files, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || kinds[path.Ext(name)] == "" {
			return err
		}
		raw, err := fs.ReadFile(files, name)
		if path.Ext(name) == ".css" {
			sheets = append(sheets, name)
		} else if _, twice := contents[path.Base(name)]; twice {
			return errors.New("two files are named " + path.Base(name))
		}
		contents[path.Base(name)] = raw
		return err
	})
	if err != nil {
		return nil, err
	}
	contents[stylesheet] = joined(contents, sheets)
	return packed(contents), nil
}

func joined(contents map[string][]byte, sheets []string) []byte {
	slices.Sort(sheets)
	slices.SortStableFunc(sheets, func(a, b string) int { // files of libraries come first
		return strings.Count(b, "/vendor/") - strings.Count(a, "/vendor/")
	})
	var all bytes.Buffer
	for _, name := range sheets {
		all.Write(contents[path.Base(name)])
		all.WriteByte('\n')
		delete(contents, path.Base(name))
	}
	return all.Bytes()
}

func packed(contents map[string][]byte) *Assets {
	a := &Assets{files: map[string]asset{}}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		raw := contents[name]
		sum.Write([]byte(name))
		sum.Write(raw)
		a.files[name] = asset{kinds[path.Ext(name)], raw, compressed(raw)}
	}
	a.version = hex.EncodeToString(sum.Sum(nil)[:6])
	return a
}

func compressed(raw []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // cannot fail, because BestCompression is a valid level
	_, _ = z.Write(raw)                                   // a bytes.Buffer never fails
	_ = z.Close()
	return b.Bytes()
}

// URL returns the address of a file; "" for a file that does not exist, such as a library that was not downloaded.
func (a *Assets) URL(name string) string {
	if _, there := a.files[name]; !there {
		return ""
	}
	return "/static/" + a.version + "/" + name
}

// Serve answers with a file. The address changes with the content, so browsers may cache the file for a year. Below an
// address with another version, they must not use a cached file without a request.
func (a *Assets) Serve(w http.ResponseWriter, r *http.Request) {
	file, there := a.files[r.PathValue("file")]
	if !there {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", file.kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if r.PathValue("version") == a.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	body := file.plain
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = file.compressed
	}
	_, _ = w.Write(body) // an error means that the client has disconnected
}

func acceptsGzip(r *http.Request) bool {
	for _, part := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" && strings.ReplaceAll(weight, " ", "") != "q=0" {
			return true
		}
	}
	return false
}
