package rest

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi/openapitest"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// The document describes every route, and the server has every route of the document.
func TestOpenAPI_RoutesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	doc, err := openapitest.Document()
	check.NoError(t, err)
	described := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			described[method+" "+path] = true
		}
	}
	served := map[string]bool{}
	f := newFixture().open()
	for _, rt := range slices.Concat(f.server.probeRoutes(), documentRoutes(), f.server.apiRoutes()) {
		served[rt.method+" "+rt.path] = true
	}
	for _, route := range slices.Sorted(maps.Keys(served)) {
		if !described[route] {
			t.Errorf("%s is served and not described", route)
		}
	}
	for _, route := range slices.Sorted(maps.Keys(described)) {
		if !served[route] {
			t.Errorf("%s is described and not served", route)
		}
	}
}

// Whatever a parameter or a body contains, the answer is never a 5xx and matches the document, and a 400 names a part
// of the request.
func TestOpenAPI_AttacksAreRefused(t *testing.T) {
	t.Parallel()
	attacks, err := openapitest.Attacks()
	check.NoError(t, err)
	f, failures := attacked(t), 0
	for _, a := range attacks {
		if err := f.attack(a); err != nil {
			t.Error(err)
			if failures++; failures == 20 {
				t.Fatal("and more")
			}
		}
	}
}

// The API's document and its web page need no authentication, and are served before the API is ready.
func TestOpenAPI_IsServed(t *testing.T) {
	t.Parallel()
	f := newFixture().starting()
	for path, kind := range map[string]string{"/openapi.yaml": "application/yaml", "/docs": "text/html; charset=utf-8"} {
		w := f.do("GET", path, "")
		if w.Code != 200 || w.Header().Get("Content-Type") != kind || w.Body.Len() < 10_000 {
			t.Errorf("%s = %d %s, %d bytes", path, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
	}
}

// The web page of the API's document is compressed, links to the console, and has the console's colours.
func TestOpenAPI_PageBelongsToTheConsole(t *testing.T) {
	t.Parallel()
	f := newFixture().starting()
	plain := f.do("GET", "/docs", "")
	w := f.do("GET", "/docs", "", "Accept-Encoding", "br, gzip", "Cookie", "dlq-theme=dark")
	if w.Header().Get("Content-Encoding") != "gzip" || plain.Header().Get("Content-Encoding") != "" || 4*w.Body.Len() > plain.Body.Len() {
		t.Errorf("%d bytes as %q, want a quarter of %d at most, in gzip", w.Body.Len(), w.Header().Get("Content-Encoding"), plain.Body.Len())
	}
	z, err := gzip.NewReader(w.Body)
	check.NoError(t, err)
	dark, err := io.ReadAll(z)
	check.NoError(t, err)
	for page, want := range map[string]string{string(dark): `<html lang="en" data-theme="dark">`, plain.Body.String(): `<html lang="en">`} {
		if !strings.Contains(page, want) || !strings.Contains(page, `<a href="/">`) {
			t.Errorf("a page begins with %.200s, want %s and a way back", page, want)
		}
	}
}

// The answers listed here have exactly the fields that the document has for them.
func TestOpenAPI_FieldsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	doc, err := openapitest.Document()
	check.NoError(t, err)
	check := func(name string, fields, always []string) {
		schema := doc.Components.Schemas[name].Value
		if got, want := slices.Sorted(maps.Keys(schema.Properties)), slices.Sorted(slices.Values(fields)); !slices.Equal(got, want) {
			t.Errorf("%s: the document has the fields\n%v, want\n%v", name, got, want)
		}
		if got, want := slices.Sorted(slices.Values(schema.Required)), slices.Sorted(slices.Values(always)); !slices.Equal(got, want) {
			t.Errorf("%s: the document requires\n%v, want\n%v", name, got, want)
		}
	}
	for name, answer := range map[string]any{
		"Activity": wire.Activity{}, "Attempt": wire.Attempt{}, "Change": wire.Change{}, "Facet": wire.Facet{}, "Facets": wire.Facets{}, "FacetSum": wire.FacetSum{}, "FacetValue": wire.FacetValue{}, "Group": wire.ErrorGroup{}, "History": wire.History{},
		"Item": wire.RedriveItem{}, "MappingRule": wire.MappingRule{}, "Mappings": wire.Mapping{}, "Pagination": wire.Pagination{}, "Preview": wire.Preview{},
		"PreviewGroup": wire.PreviewGroup{}, "Redirect": wire.Redirect{}, "RedirectAnswer": wire.RedirectAnswer{}, "RedirectPreview": wire.RedirectPreview{},
		"Readiness": readinessJSON{}, "Redrive": wire.Redrive{}, "RetryAllResult": wire.RetryAllResult{}, "RetryResult": wire.RetryResult{},
		"SentEdit": wire.Edit{}, "Session": wire.Session{}, "ShareGroup": wire.ShareGroup{}, "ShareGroups": wire.ShareGroups{}, "ShareProblem": wire.ShareProblem{},
		"ShownFilter": wire.Filter{}, "ShownOptions": wire.RedriveOptions{}, "Topic": wire.Topic{}, "View": wire.SavedView{},
	} {
		fields, always := jsonFields(reflect.TypeOf(answer))
		check(name, fields, always)
	}
	var shown, derivation map[string]json.RawMessage
	f := newFixture(message(idA)).open()
	if err := errors.Join(json.Unmarshal(f.do("GET", oneA, "").Body.Bytes(), &shown),
		json.Unmarshal([]byte(notDerived), &derivation)); err != nil {
		t.Fatal(err)
	}
	fields := slices.Collect(maps.Keys(derivation))
	check("Derivation", fields, fields)
	want := append(slices.Collect(maps.Keys(doc.Components.Schemas["Message"].Value.Properties)), "target", "replay_removes", "replay_keeps", "derived", "hops", "envelope")
	if got := slices.Sorted(maps.Keys(shown)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("a message has %v, want %v", got, want)
	}
}

// jsonFields returns the JSON names of a struct's fields, and the names of the fields that are never left out.
func jsonFields(of reflect.Type) (all, always []string) {
	for _, field := range reflect.VisibleFields(of) {
		if field.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		all = append(all, name)
		if options != "omitempty" {
			always = append(always, name)
		}
	}
	return all, always
}
