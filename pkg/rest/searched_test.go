package rest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
	"github.com/dlq-manager/dlq-manager/pkg/rest/handlers/search"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// lateStore returns a store whose search index is complete up to a given time, and the list of the calls of its
// methods.
func lateStore(s *fake.Store, until *time.Time) (*hooked, *[]string) {
	store, asked := hook(s), new([]string)
	store.until = func(context.Context) (time.Time, error) {
		*asked = append(*asked, "until")
		return *until, nil
	}
	store.search = func(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
		*asked = append(*asked, "search")
		return s.Search(ctx, q)
	}
	store.count = func(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
		*asked = append(*asked, "count")
		return s.CountMatching(ctx, q)
	}
	store.export = func(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
		*asked = append(*asked, "export")
		return s.Export(ctx, q, yield)
	}
	return store, asked
}

// When a search runs out of time, its answer says back to which time it has searched. Its cursor continues from there,
// even when the page is empty or not full.
func TestSearched_GoesOnWhereItsTimeWasOver(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	f.index(nil)
	place := repository.Cursor{CreatedAt: noon.Add(-time.Hour), ID: idGone}
	store, after := hook(f.memory), repository.Cursor{}
	store.search = func(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
		after = q.After
		page, err := f.memory.Search(ctx, q)
		page.Messages, page.Next = page.Messages[:min(1, len(page.Messages))], place
		return page, err
	}
	f.over(store).open()
	got := f.search(t, "/api/v1/messages?q=failed&limit=2")
	if got.SearchedBackTo == nil || *got.SearchedBackTo != *wire.Stamp(place.CreatedAt) || got.NextCursor == nil {
		t.Fatalf("got searched_back_to %s and cursor %s, want %s and one", wire.Encode(got.SearchedBackTo), wire.Encode(got.NextCursor), place.CreatedAt)
	}
	if f.search(t, "/api/v1/messages?q=failed&limit=2&cursor="+*got.NextCursor); after != place {
		t.Errorf("the next page begins after %v, want %v", after, place)
	}
}

// now is the time of the fixtures' servers.
var now = noon.Add(4 * time.Second)

// When the search index is late, matches may be missing, and answers must say so. Every answer contains the time up to
// which the index is complete. Exports and redrives are refused when too many messages may be missing.
func TestSearched_WhatIsMissingIsSaid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		until    time.Time
		complete bool
		refused  string // reason for which exports and redrives are refused; "" when they are not
	}{
		{"UpToDate", now, true, ""},
		{"WorkerOfALaterClock", now.Add(time.Second), true, ""},
		{"Idle", now.Add(-2 * time.Second), true, ""},
		{"JustComplete", now.Add(-10 * time.Second), true, ""},
		{"Behind", now.Add(-10*time.Second - time.Millisecond), false, ""},
		{"JustAllowed", now.Add(-time.Minute), false, ""},
		{"TooLate", now.Add(-time.Minute - time.Millisecond), false, "it is complete until 2026-02-20T10:29:03.999+00:00"},
		{"NeverMade", time.Time{}, false, "it is still empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(message(idA))
			f.index(nil)
			store, asked := lateStore(f.memory, &c.until)
			f.over(store).open()
			until := string(wire.Encode(wire.Stamp(c.until)))
			got := f.search(t, "/api/v1/messages?q=failed&count=exact")
			if got.ids() != "0" || got.Count.Exact != c.complete || string(wire.Encode(got.SearchedUntil)) != until {
				t.Errorf("search: %s, count %+v, searched until %s, want exact %t and %s", got.ids(), got.Count, wire.Encode(got.SearchedUntil),
					c.complete, until)
			}
			export := f.do("GET", "/api/v1/export?q=failed", "")
			order := `{"filter":{"q":"failed"},"dry_run":%t}`
			wantStatus(t, f.do("POST", redrivesPath, fmt.Sprintf(order, true)), 200, `"searched_until":`+until)
			redrive := f.do("POST", redrivesPath, fmt.Sprintf(order, false))
			// want lists the expected calls of the store: "until" reads the state of the index, which happens before
			// each query.
			want := "until search count until export until until"
			if c.refused == "" {
				wantHeader(t, export.Header(), search.ExportSearched, strings.Trim(until, `"`))
				wantHeader(t, export.Result().Trailer, search.ExportComplete, fmt.Sprint(c.complete))
				wantStatus(t, redrive, 202, `"searched_until":`+until)
			} else {
				want = "until search count until until until"
				wantBehind(t, export, c.refused)
				wantBehind(t, redrive, c.refused)
			}
			if got := strings.Join(*asked, " "); got != want {
				t.Errorf("asked %s, want %s", got, want)
			}
			if made, err := f.memory.Redrives(t.Context(), repository.RedriveQuery{Limit: 1}); err != nil || (len(made) == 0) != (c.refused != "") {
				t.Errorf("redrives made: %v, %v, want none where they are refused", made, err)
			}
		})
	}
}

// A late search index is complete for a period that ends before the index does.
func TestSearched_AnEarlierPeriodIsComplete(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	f.index(nil)
	until := now.Add(-time.Hour)
	store, _ := lateStore(f.memory, &until)
	f.over(store).open()
	for end, complete := range map[time.Time]bool{until: true, until.Add(-time.Minute): true, until.Add(time.Second): false} {
		got := f.search(t, "/api/v1/messages?q=failed&count=exact&created_before="+end.Format(time.RFC3339))
		if got.Count.Exact != complete {
			t.Errorf("until %s: exact %t, want %t", end, got.Count.Exact, complete)
		}
	}
	order := `{"filter":{"q":"failed","created_before":"%s"}}`
	wantBehind(t, f.do("POST", redrivesPath, fmt.Sprintf(order, until.Add(time.Second).Format(time.RFC3339))), "it is complete until "+*wire.Stamp(until))
	wantStatus(t, f.do("POST", redrivesPath, fmt.Sprintf(order, until.Format(time.RFC3339))), 202)
	wantStatus(t, f.do("GET", facetsPath+"by=$.a", ""), 503)
	wantStatus(t, f.do("GET", facetsPath+"by=$.a&created_before="+until.Format(time.RFC3339), ""), 200)
}

func wantBehind(t *testing.T, w *reply, why string) {
	t.Helper()
	e, want := wantEnvelope(t, w, 503), respond.Detail{Field: "filter", Reason: "the search index is late: " + why}
	wantHeader(t, w.Header(), "Retry-After", "5")
	if e.Message != respond.UnavailableText || len(e.Details) != 1 || e.Details[0] != want {
		t.Errorf("refused with %+v, want %+v", e, want)
	}
}

// Requests that do not need the search index do not ask how complete it is.
func TestSearched_OnlyWhereItIsNeeded(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	store, asked := lateStore(f.memory, new(time.Time))
	f.over(store).open()
	if got := f.search(t, "/api/v1/messages?topic=orders.dlq.v1&count=exact"); got.SearchedUntil != nil || !got.Count.Exact {
		t.Errorf("search %+v, want an exact count and no searched_until", got)
	}
	w := f.do("GET", "/api/v1/export?topic=orders.dlq.v1", "")
	wantHeader(t, w.Header(), search.ExportSearched, "")
	wantHeader(t, w.Result().Trailer, search.ExportComplete, "true")
	wantStatus(t, f.do("POST", redrivesPath, `{"filter":{"topic":"orders.dlq.v1"}}`), 202, `"searched_until":null`)
	if slices.Contains(*asked, "until") {
		t.Errorf("calls %v, want none of the search index", *asked)
	}
}

// A redrive that was refused can be created with the same Idempotency-Key once the index is complete, and a redrive
// that was created is not refused when its request is repeated later.
func TestSearched_RefusedRedriveLeavesItsKey(t *testing.T) {
	t.Parallel()
	f, until := newFixture(message(idA)), time.Time{}
	f.index(nil)
	store, _ := lateStore(f.memory, &until)
	f.over(store).open()
	order := `{"filter":{"q":"failed"}}`
	wantEnvelope(t, f.do("POST", redrivesPath, order, keyHeader, "k"), 503)
	until = now
	made := wantStatus(t, f.do("POST", redrivesPath, order, keyHeader, "k"), 202, `"selected":1`)
	until = time.Time{}
	wantAnswer(t, f.do("POST", redrivesPath, order, keyHeader, "k"), 202, made)
}

// A word of two characters is too short for an index. Redrives and exports need another condition besides it, because
// they would otherwise read every message.
func TestSearched_WordsOfTwoCharactersNeedAnotherCondition(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	f.index(nil)
	f.open()
	for filter, refused := range map[string]bool{
		`{"q":"注文"}`: true,
		`{"q":"注文 주문","status":["DEAD"]}`:                    true,
		`{"q":"注文 failed"}`:                                  false,
		`{"q":"注文","topic":"orders"}`:                        false,
		`{"q":"注文","topic":"orders*"}`:                       true,
		`{"q":"注文","header":["a=b"]}`:                        false,
		`{"q":"注文","created_after":"2026-02-20T10:30:00Z"}`:  false,
		`{"q":"注文","created_before":"2026-02-20T10:30:00Z"}`: true,
	} {
		w := f.do("POST", redrivesPath, `{"dry_run":true,"filter":`+filter+`}`)
		if refused {
			wantEnvelope(t, w, 400, "filter.q")
		} else {
			wantStatus(t, w, 200)
		}
	}
	wantEnvelope(t, f.do("GET", "/api/v1/export?q=%E6%B3%A8%E6%96%87", ""), 400, "q")
	wantStatus(t, f.do("GET", "/api/v1/export?q=%E6%B3%A8%E6%96%87&topic=orders", ""), 200)
	wantStatus(t, f.do("GET", "/api/v1/messages?q=%E6%B3%A8%E6%96%87", ""), 200)
}
