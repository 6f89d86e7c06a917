package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

// lateStore has a search catalogue that is made until some moment, and notes what it
// is asked.
type lateStore struct {
	*fake.Store
	until time.Time
	asked *[]string
}

func (s lateStore) CataloguedUntil(context.Context) (time.Time, error) {
	*s.asked = append(*s.asked, "until")
	return s.until, nil
}

func (s lateStore) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	*s.asked = append(*s.asked, "search")
	return s.Store.Search(ctx, q)
}

func (s lateStore) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	*s.asked = append(*s.asked, "count")
	return s.Store.CountMatching(ctx, q)
}

func (s lateStore) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	*s.asked = append(*s.asked, "export")
	return s.Store.Export(ctx, q, yield)
}

// briefStore has a search whose time was over at some place.
type briefStore struct {
	*fake.Store
	next  repository.Place
	asked *[]repository.SearchQuery
}

func (s briefStore) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	*s.asked = append(*s.asked, q)
	page, err := s.Store.Search(ctx, q)
	page.Messages, page.Next = page.Messages[:min(1, len(page.Messages))], s.next
	return page, err
}

// A search whose time was over says to which time it searched, and its cursor goes on
// from there, also when the page is not full or empty.
func TestSearched_GoesOnWhereItsTimeWasOver(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	f.catalogue(t, nil)
	place := repository.Place{CreatedAt: noon.Add(-time.Hour), ID: idGone}
	var asked []repository.SearchQuery
	f.store = briefStore{f.memory, place, &asked}
	f.open()
	got := f.search(t, "/api/v1/messages?q=failed&limit=2")
	if got.SearchedBackTo == nil || *got.SearchedBackTo != *stamp(place.CreatedAt) || got.NextCursor == nil {
		t.Fatalf("got searched_back_to %s and cursor %s, want %s and one", encode(got.SearchedBackTo), encode(got.NextCursor), place.CreatedAt)
	}
	f.search(t, "/api/v1/messages?q=failed&limit=2&cursor="+*got.NextCursor)
	if after := asked[1].After; after != place {
		t.Errorf("the next page begins behind %v, want %v", after, place)
	}
}

// now is the time of servers of fixtures.
var now = noon.Add(4 * time.Second)

// Nothing is left out silently: what the catalogue does not have yet is told, and
// where too much may be missing nothing is done.
func TestSearched_WhatIsMissingIsTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		until    time.Time
		complete bool
		refused  string // of exports and redrives, why
	}{
		{"UpToDate", now, true, ""},
		{"WorkerOfALaterClock", now.Add(time.Second), true, ""},
		{"Idle", now.Add(-2 * time.Second), true, ""},
		{"JustComplete", now.Add(-10 * time.Second), true, ""},
		{"Behind", now.Add(-10*time.Second - time.Millisecond), false, ""},
		{"JustAllowed", now.Add(-time.Minute), false, ""},
		{"TooLate", now.Add(-time.Minute - time.Millisecond), false, "it has what came until 2026-02-20T10:29:03.999+00:00"},
		{"NeverMade", time.Time{}, false, "it has nothing yet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, asked := newFixture(message(idA)), []string{}
			f.catalogue(t, nil)
			f.store = lateStore{f.memory, c.until, &asked}
			f.open()
			until := "null"
			if at := stamp(c.until); at != nil {
				until = `"` + *at + `"`
			}
			got := f.search(t, "/api/v1/messages?q=failed&count=exact")
			if got.ids() != "0" || got.Count.Exact != c.complete || string(encode(got.SearchedUntil)) != until {
				t.Errorf("search: %s, count %+v, searched until %s, want exact %t and %s", got.ids(), got.Count, encode(got.SearchedUntil), c.complete, until)
			}
			if !slices.Equal(asked, []string{"until", "search", "count"}) {
				t.Errorf("asked %v, want the catalogue's state first", asked)
			}
			asked = nil
			w := f.do("GET", "/api/v1/export?q=failed", "")
			if c.refused == "" {
				wantHeader(t, w.Header(), exportSearched, strings.Trim(until, `"`))
				wantHeader(t, w.Result().Trailer, exportComplete, fmt.Sprint(c.complete))
				if !slices.Equal(asked, []string{"until", "export"}) {
					t.Errorf("asked %v, want the catalogue's state first", asked)
				}
			} else {
				wantBehind(t, wantEnvelope(t, w, 503, codeUnavailable), c.refused)
				wantHeader(t, w.Header(), "Retry-After", "5")
			}
			order := `{"filter":{"q":"failed"},"dry_run":%t}`
			if w := f.do("POST", redrives, fmt.Sprintf(order, true)); w.Code != 200 || !strings.Contains(w.Body.String(), `"searched_until":`+until) {
				t.Errorf("dry run = %d %s, want it to say %s", w.Code, w.Body, until)
			}
			w = f.do("POST", redrives, fmt.Sprintf(order, false))
			if c.refused == "" {
				if w.Code != 202 || !strings.Contains(w.Body.String(), `"searched_until":`+until) {
					t.Errorf("redrive = %d %s, want it to say %s", w.Code, w.Body, until)
				}
				return
			}
			wantBehind(t, wantEnvelope(t, w, 503, codeUnavailable), c.refused)
			wantHeader(t, w.Header(), "Retry-After", "5")
			if made, err := f.memory.Redrives(t.Context(), repository.RedriveQuery{Limit: 1}); err != nil || len(made) > 0 {
				t.Errorf("redrives made: %v, %v, want none", made, err)
			}
		})
	}
}

func wantBehind(t *testing.T, e errorBody, why string) {
	t.Helper()
	want := detail{"filter", "the search catalogue is behind: " + why}
	if e.Message != unavailableText || len(e.Details) != 1 || e.Details[0] != want {
		t.Errorf("refused with %+v, want %+v", e, want)
	}
}

// What does not need the catalogue does not care for it.
func TestSearched_OnlyWhereItIsNeeded(t *testing.T) {
	t.Parallel()
	f, asked := newFixture(message(idA)), []string{}
	f.store = lateStore{f.memory, time.Time{}, &asked}
	f.open()
	if got := f.search(t, "/api/v1/messages?topic=orders.dlq.v1&count=exact"); got.SearchedUntil != nil || !got.Count.Exact {
		t.Errorf("search %+v, want an exact count and no searched_until", got)
	}
	w := f.do("GET", "/api/v1/export?topic=orders.dlq.v1", "")
	wantHeader(t, w.Header(), exportSearched, "")
	wantHeader(t, w.Result().Trailer, exportComplete, "true")
	if w := f.do("POST", redrives, `{"filter":{"topic":"orders.dlq.v1"}}`); w.Code != 202 || !strings.Contains(w.Body.String(), `"searched_until":null`) {
		t.Errorf("redrive = %d %s", w.Code, w.Body)
	}
	if slices.Contains(asked, "until") {
		t.Errorf("asked %v, want nothing of the catalogue", asked)
	}
}

// A redrive that was refused can be made with the same key once the catalogue is
// there, and one that was made is not refused afterwards.
func TestSearched_RefusedRedriveLeavesItsKey(t *testing.T) {
	t.Parallel()
	f, asked := newFixture(message(idA)), []string{}
	f.catalogue(t, nil)
	late := lateStore{f.memory, time.Time{}, &asked}
	f.store = &late
	f.open()
	order := `{"filter":{"q":"failed"}}`
	wantEnvelope(t, f.do("POST", redrives, order, keyHeader, "k"), 503, codeUnavailable)
	late.until = now
	w := f.do("POST", redrives, order, keyHeader, "k")
	if w.Code != 202 || !strings.Contains(w.Body.String(), `"selected":1`) {
		t.Fatalf("redrive = %d %s, want it made", w.Code, w.Body)
	}
	late.until = time.Time{}
	if again := f.do("POST", redrives, order, keyHeader, "k"); again.Code != 202 || again.Body.String() != w.Body.String() {
		t.Errorf("again = %d %s, want the answer of before", again.Code, again.Body)
	}
}

// A count beside a list of retried messages counts these alone.
func TestSearch_CountOfRetried(t *testing.T) {
	t.Parallel()
	f := searchFixture(t)
	for query, want := range map[string]int64{
		"sort=last_retry_at": 2, "sort=-last_retry_at": 2, "sort=created_at": 6,
		"sort=last_retry_at&retried_after=2026-02-20T12:00:00Z": 1,
	} {
		got := f.search(t, "/api/v1/messages?count=exact&"+query)
		if got.Count.Messages != want || int64(len(got.Messages)) != want {
			t.Errorf("%s: %d messages, count %d, want %d", query, len(got.Messages), got.Count.Messages, want)
		}
	}
}

// A dry run says on how many messages a patch was tried, and on how many in vain.
func TestRedrive_DryRunTellsWhatWasChecked(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.redriver = previewing{preview: entity.Preview{Selected: 900, Sendable: 900, Samples: []entity.PatchSample{
		{MessageID: idA, Before: []byte(`{}`), After: []byte(`{"a":1}`)},
		{MessageID: idB, Before: []byte(`[]`), Reason: "does not fit"},
		{MessageID: idGone, Before: []byte(`{}`), After: []byte(`{"a":1}`)},
	}}}
	body := `{"filter":{"topic":"orders"},"dry_run":true,"patch":[{"op":"add","path":"/a","value":1}]}`
	var got struct {
		Sendable     int
		PatchChecked int `json:"patch_checked"`
		PatchFailed  int `json:"patch_failed"`
	}
	w := f.open().do("POST", redrives, body)
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Sendable != 900 || got.PatchChecked != 3 || got.PatchFailed != 1 {
		t.Errorf("dry run = %d %s, want 1 of 3 checked ones failed", w.Code, w.Body)
	}
}
