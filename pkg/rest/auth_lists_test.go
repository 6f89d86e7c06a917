package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// ids returns the ids in an answer's list, in their order.
func ids(t *testing.T, w *httptest.ResponseRecorder, list string) []string {
	t.Helper()
	var body map[string]json.RawMessage
	var objects []struct{ ID string }
	if w.Code != 200 || json.Unmarshal(w.Body.Bytes(), &body) != nil || json.Unmarshal(body[list], &objects) != nil {
		t.Fatalf("got %d %s, want a list of %s", w.Code, w.Body, list)
	}
	found := []string{}
	for _, o := range objects {
		found = append(found, o.ID)
	}
	return found
}

// numbered is the nth message of a shared dead-letter topic.
func numbered(n int, original string) entity.Message {
	m := message(uuid.MustParse(fmt.Sprintf("550e8400-e29b-41d4-a716-%012d", n)), at(noon.Add(-time.Duration(n)*time.Second)))
	m.OriginalTopic, m.Source.Topic, m.Source.Offset = original, "shared.dlq.v1", int64(n)
	return m
}

// sharedFixture has ten messages of a dead-letter topic: every third is of
// payments, and of the last nobody knows the original.
func sharedFixture(people ...auth.Principal) *fixture {
	var list []entity.Message
	for n := range 10 {
		original := topicA
		if n%3 == 1 {
			original = topicB
		}
		if n == 9 {
			original = ""
		}
		list = append(list, numbered(n, original))
	}
	return newFixture(list...).guarded(people...)
}

// The pages of a dead-letter topic that teams share are everybody's own: without
// gaps, with numbers of what one sees, and in the same order.
func TestSharedTopicIsListedByWhatOneSees(t *testing.T) {
	t.Parallel()
	f := sharedFixture(person("ana", "orders.*", auth.Viewer), person("shared", "shared.*", auth.Viewer), person("root", "*", auth.Viewer))
	for _, c := range []struct {
		name string
		want []int
	}{
		{"ana", []int{0, 2, 3, 5, 6, 8}}, {"shared", []int{9}}, {"root", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
	} {
		var want []string
		for _, n := range c.want {
			want = append(want, numbered(n, "").ID.String())
		}
		for _, size := range []int{1, 2, 4, 100} {
			var got []string
			for page := 1; page <= 11; page++ {
				w := f.by(c.name, "GET", fmt.Sprintf("/api/v1/dlq/shared.dlq.v1?page=%d&page_size=%d", page, size), "")
				got = append(got, ids(t, w, "messages")...)
				total := fmt.Sprintf(`"total_count":%d,"page":%d,"page_size":%d,"has_next":%t`, len(want), page, size, page*size < len(want))
				if !strings.Contains(w.Body.String(), total) {
					t.Errorf("%s, page %d of %d: got %s, want %s", c.name, page, size, w.Body, total)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, pages of %d: got %v, want %v", c.name, size, got, want)
			}
		}
	}
	far := "/api/v1/dlq/shared.dlq.v1?page=1000000&page_size=1000"
	if e := wantEnvelope(t, f.by("ana", "GET", far, ""), 400, codeValidation); len(e.Details) != 1 || e.Details[0].Field != "page" {
		t.Errorf("a page far away: details %+v, want page", e.Details)
	}
	if got := ids(t, f.by("root", "GET", far, ""), "messages"); len(got) != 0 {
		t.Errorf("a page far away, for those without limits: got %v, want an empty one", got)
	}
}

// Whoever retries a topic, or a selection, takes along nothing that is not theirs.
func TestRedrivesTakeOnlyWhatOneMay(t *testing.T) {
	t.Parallel()
	all, _ := json.Marshal([]string{numbered(0, "").ID.String(), numbered(1, "").ID.String(), numbered(9, "").ID.String()})
	for _, c := range []struct {
		name, target, body string
		want               int // selected that are not skipped
	}{
		{"RetryAll", "/api/v1/dlq/shared.dlq.v1/retry-all", "", 6},
		{"Filter", "/api/v1/redrives", `{"filter":{"topic":"shared.dlq.v1"}}`, 6},
		{"IDs", "/api/v1/redrives", `{"ids":` + string(all) + `}`, 1},
		{"Dead", "/api/v1/redrives", `{"action":"dead","filter":{"topic":"shared.dlq.v1"}}`, 6},
		{"Others", "/api/v1/redrives", `{"filter":{"topic":"payments.events.v1"}}`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := sharedFixture(person("ana", "orders.*", auth.Operator))
			if w := f.by("ana", "POST", c.target, c.body); w.Code >= 300 {
				t.Fatalf("got %d %s, want it made", w.Code, w.Body)
			}
			redrives, err := f.memory.Redrives(t.Context(), repository.RedriveQuery{Limit: 2})
			if err != nil || len(redrives) != 1 || redrives[0].Cause.Actor != "ana" {
				t.Fatalf("got %+v, %v, want one redrive, of ana", redrives, err)
			}
			items, err := f.memory.RedriveItems(t.Context(), redrives[0].ID, repository.ItemQuery{Limit: 100})
			if err != nil || len(items) != c.want {
				t.Errorf("got %d items, %v, want %d", len(items), err, c.want)
			}
			for _, item := range items {
				if m, err := f.memory.Get(t.Context(), item.MessageID, 0); err != nil || m.OriginalTopic != topicA {
					t.Errorf("got a message of %q, %v, want those of %s alone", m.OriginalTopic, err, topicA)
				}
			}
		})
	}
}

// What a redrive does must be allowed to whoever makes it, where it does it.
func TestNarrowOrder(t *testing.T) {
	t.Parallel()
	deletes := repository.NewRedrive{Action: entity.RedriveDelete}
	patches := repository.NewRedrive{Action: entity.RedriveRetry, Options: entity.RedriveOptions{Patch: []byte("[]")}}
	maps := repository.NewRedrive{Action: entity.RedriveMap, Options: entity.RedriveOptions{OriginalTopic: topicB}}
	both := func(a, b auth.Principal) auth.Principal {
		return auth.Principal{Grants: append(slices.Clone(a.Grants), b.Grants...)}
	}
	for _, c := range []struct {
		name  string
		p     auth.Principal
		order repository.NewRedrive
		want  string // the scope; "all", or "refused"
	}{
		{"OperatorDeletes", person("", "*", auth.Operator), deletes, "refused"},
		{"AdminDeletes", person("", "orders.*", auth.Admin), deletes, "orders.*"},
		{"AdminOfOneOperatorOfAll", both(person("", "orders.*", auth.Admin), person("", "*", auth.Operator)), deletes, "orders.*"},
		{"EverywhereDeletes", person("", "*", auth.Admin), deletes, "all"},
		{"OperatorPatches", person("", "*", auth.Operator), patches, "refused"},
		{"EditorPatches", person("", "*", auth.Edit), patches, "refused"},
		{"AdminPatches", person("", "*", auth.Admin), patches, "all"},
		{"OperatorWithEdit", person("", "orders.*", auth.Operator, auth.Edit), patches, "orders.*"},
		{"OperatorWithEditElsewhere", both(person("", "orders.*", auth.Operator), person("", "payments.*", auth.Edit)), patches, "orders.* & payments.*"},
		{"OperatorWithEditOnSomeOfThem", both(person("", "orders,orders-*", auth.Operator), person("", "orders-eu", auth.Edit)), patches, "orders, orders-* & orders-eu"},
		{"OperatorOfAllWithEditOfOne", both(person("", "*", auth.Operator), person("", "orders.*", auth.Edit)), patches, "orders.*"},
		{"OperatorOfOneWithEditOfAll", both(person("", "orders.*", auth.Operator), person("", "*", auth.Edit)), patches, "orders.*"},
		{"MapsToOwnTopic", person("", "shared.*,payments.*", auth.Operator), maps, "shared.*, payments.*"},
		{"MapsToOtherTopic", person("", "shared.*", auth.Operator), maps, "refused"},
		{"ViewerRetries", person("", "*", auth.Viewer), repository.NewRedrive{Action: entity.RedriveRetry}, "refused"},
	} {
		order := c.order
		err := narrowOrder(c.p, &order)
		switch scope := order.Selection.Visible; {
		case c.want == "refused":
			if !errors.Is(err, errForbidden) {
				t.Errorf("%s: got %v, %v, want it refused", c.name, scope, err)
			}
		case err != nil, (scope == nil) != (c.want == "all"), scope != nil && scope.String() != c.want:
			t.Errorf("%s: got %v, %v, want %s", c.name, scope, err, c.want)
		}
	}
}

func TestRedrivesAreSeenByTheirMakersAndThoseWhoSeeEverything(t *testing.T) {
	t.Parallel()
	ana := person("ana", "*", auth.Operator)
	limited := person("ana", "orders.*", auth.Operator)
	for _, c := range []struct {
		p    auth.Principal
		want []string
	}{{limited, []string{redriveA.String()}}, {ana, []string{redriveA.String(), redriveB.String()}}} {
		got := ids(t, matrixFixture(t, c.p).by("ana", "GET", "/api/v1/redrives", ""), "redrives")
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %v, want %v", c.p.Grants, got, c.want)
		}
	}
}

// A redrive outlives the grants of whoever made it: without them it is not theirs
// any more, to look at or to go on with.
func TestRedriveIsHeldAgainstTodaysGrants(t *testing.T) {
	t.Parallel()
	grants := func(list ...auth.Principal) auth.Principal {
		p := auth.Principal{Name: "ana"}
		for _, one := range list {
			p.Grants = append(p.Grants, one.Grants...)
		}
		return p
	}
	then := grants(person("", "orders.*,payments.*", auth.Operator, auth.Edit))
	for _, c := range []struct {
		name          string
		now           auth.Principal
		view, operate int
	}{
		{"Same", then, 200, 200},
		{"MoreAndInAnotherOrder", grants(person("", "x,payments.*,orders.*", auth.Admin)), 200, 200},
		{"Everything", grants(person("", "*", auth.Operator, auth.Edit)), 200, 200},
		{"OneTopicTaken", grants(person("", "orders.*", auth.Operator, auth.Edit)), 404, 404},
		{"OneTopicOnlyToLookAt", grants(person("", "orders.*", auth.Operator), person("", "orders.*,payments.*", auth.Viewer, auth.Edit)), 200, 403},
		{"EditTaken", grants(person("", "orders.*,payments.*", auth.Operator)), 200, 403},
		{"AllTaken", grants(person("", "orders.*,payments.*", auth.Unmask)), 403, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(message(idA)).guarded(c.now)
			order := repository.NewRedrive{
				ID: redriveA, Action: entity.RedriveRetry, BatchSize: 10, Cause: entity.By("ana"),
				Selection: entity.Selection{IDs: []uuid.UUID{idA}}, Options: entity.RedriveOptions{Patch: []byte("[]")},
			}
			if err := narrowOrder(then, &order); err != nil {
				t.Fatal(err)
			}
			if _, err := f.memory.CreateRedrive(t.Context(), order); err != nil {
				t.Fatal(err)
			}
			target := "/api/v1/redrives/" + redriveA.String()
			for _, ask := range []string{target, target + "/items"} {
				if w := f.by("ana", "GET", ask, ""); w.Code != c.view {
					t.Errorf("GET %s = %d %s, want %d", ask, w.Code, w.Body, c.view)
				}
			}
			for _, step := range []string{"/pause", "/resume", "/cancel"} {
				if w := f.by("ana", "POST", target+step, ""); w.Code != c.operate {
					t.Errorf("POST %s = %d %s, want %d", step, w.Code, w.Body, c.operate)
				}
			}
			if c.view == 403 {
				return
			}
			if got := ids(t, f.by("ana", "GET", "/api/v1/redrives", ""), "redrives"); (len(got) == 1) != (c.view == 200) {
				t.Errorf("the list has %v, want it there: %t", got, c.view == 200)
			}
			w := f.by("ana", "GET", "/api/v1/audit?object_id="+redriveA.String(), "")
			if got := strings.Contains(w.Body.String(), `"object_id":"`+redriveA.String()); w.Code != 200 || got != (c.view == 200) {
				t.Errorf("the trail = %d %s, want entries: %t", w.Code, w.Body, c.view == 200)
			}
		})
	}
}

func TestTrailShowsWhatOneMaySee(t *testing.T) {
	t.Parallel()
	f := matrixFixture(t, person("ana", "orders.*", auth.Operator))
	for _, id := range []uuid.UUID{idA, idB} {
		if _, err := f.memory.GiveUp(t.Context(), id, entity.By("somebody")); err != nil {
			t.Fatal(err)
		}
	}
	for object, want := range map[uuid.UUID]int{idA: 1, idB: 0, redriveA: 1, redriveB: 0, idGone: 0} {
		w := f.by("ana", "GET", "/api/v1/audit?object_id="+object.String(), "")
		if got := strings.Count(w.Body.String(), `"object_id":"`+object.String()); w.Code != 200 || (got > 0) != (want > 0) {
			t.Errorf("%s: got %d %s, want entries: %t", object, w.Code, w.Body, want > 0)
		}
	}
	e := wantEnvelope(t, f.by("ana", "GET", "/api/v1/audit", ""), 403, codeForbidden)
	if len(e.Details) != 2 || e.Details[1].Field != "object_id" {
		t.Errorf("without an object: details %+v, want object_id named", e.Details)
	}
}

// A line of messages ends where it leaves what one may see.
func TestLineageEndsWhereOneSeesNoFurther(t *testing.T) {
	t.Parallel()
	child, parent := message(idA), message(idB)
	child.Parent, child.Source.Offset = idB, 99
	parent.OriginalTopic = topicB
	f := newFixture(child, parent).guarded(person("ana", "orders.*", auth.Viewer), person("root", "*", auth.Viewer))
	for name, want := range map[string]bool{"ana": false, "root": true} {
		w := f.by(name, "GET", "/api/v1/dlq/messages/"+idA.String()+"/history", "")
		var shown struct{ Lineage []struct{ ID string } }
		if err := json.Unmarshal(w.Body.Bytes(), &shown); err != nil || (len(shown.Lineage) == 1) != want {
			t.Errorf("%s: got %s, %v, want the parent: %t", name, w.Body, err, want)
		}
	}
}
