package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// ids returns the ids in an answer's list, in their order.
func ids(t *testing.T, w *reply, list string) []string {
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

// numbered returns the nth message of a shared dead-letter topic.
func numbered(n int, original string) entity.Message {
	m := message(uuid.MustParse(fmt.Sprintf("550e8400-e29b-41d4-a716-%012d", n)), at(noon.Add(-time.Duration(n)*time.Second)))
	m.OriginalTopic, m.Source.Topic, m.Source.Offset = original, "shared.dlq.v1", int64(n)
	return m
}

func numberedIDs(numbers ...int) (list []string) {
	for _, n := range numbers {
		list = append(list, numbered(n, "").ID.String())
	}
	return list
}

// sharedFixture has ten messages of a dead-letter topic. Three of them have the original topic topicB, and the original
// topic of the last one is unknown.
func sharedFixture(people ...auth.Principal) *fixture {
	var list []entity.Message
	for n, original := range []string{topicA, topicB, topicA, topicA, topicB, topicA, topicA, topicB, topicA, ""} {
		list = append(list, numbered(n, original))
	}
	return newFixture(list...).guarded(people...)
}

// In a dead-letter topic that teams share, each caller gets pages of only those messages that the caller may see. The
// pages have no gaps and the order of the whole list, and the total counts only these messages.
func TestSharedTopicIsListedByWhatOneSees(t *testing.T) {
	t.Parallel()
	f := sharedFixture(person("ana", "orders.*", auth.Viewer), person("shared", "shared.*", auth.Viewer), person("root", "*", auth.Viewer))
	for name, want := range map[string][]string{
		"ana": numberedIDs(0, 2, 3, 5, 6, 8), "shared": numberedIDs(9), "root": numberedIDs(0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
	} {
		for _, size := range []int{1, 2, 4, 100} {
			var got []string
			for page := 1; page <= 11; page++ {
				w := f.by(name, "GET", fmt.Sprintf("/api/v1/dlq/shared.dlq.v1?page=%d&page_size=%d", page, size), "")
				got = append(got, ids(t, w, "messages")...)
				wantStatus(t, w, 200, fmt.Sprintf(`"total_count":%d,"page":%d,"page_size":%d,"has_next":%t`, len(want), page, size,
					page*size < len(want)))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, pages of %d: got %v, want %v", name, size, got, want)
			}
		}
	}
	far := "/api/v1/dlq/shared.dlq.v1?page=1000000&page_size=1000"
	wantEnvelope(t, f.by("ana", "GET", far, ""), 400, "page")
	if got := ids(t, f.by("root", "GET", far, ""), "messages"); len(got) != 0 {
		t.Errorf("a page far away, for those without limits: got %v, want an empty one", got)
	}
}

// A retry of a topic, or of a selection, includes no message of topics on which its creator has no role.
func TestRedrivesTakeOnlyWhatOneMay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, target, body string
		want               int // selected messages that are not skipped
	}{
		{"RetryAll", "/api/v1/dlq/shared.dlq.v1/retry-all", "", 6},
		{"Filter", redrivesPath, `{"filter":{"topic":"shared.dlq.v1"}}`, 6},
		{"IDs", redrivesPath, `{"ids":["` + strings.Join(numberedIDs(0, 1, 9), `","`) + `"]}`, 1},
		{"Dead", redrivesPath, `{"action":"dead","filter":{"topic":"shared.dlq.v1"}}`, 6},
		{"Others", redrivesPath, `{"filter":{"topic":"payments.events.v1"}}`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := sharedFixture(person("ana", "orders.*", auth.Operator))
			if w := f.by("ana", "POST", c.target, c.body); w.Code >= 300 {
				t.Fatalf("got %d %s, want it made", w.Code, w.Body)
			}
			begun, err := f.memory.Redrives(t.Context(), repository.RedriveQuery{Limit: 2})
			if err != nil || len(begun) != 1 || begun[0].Cause.Actor != "ana" {
				t.Fatalf("got %+v, %v, want one redrive, of ana", begun, err)
			}
			items, err := f.memory.RedriveItems(t.Context(), begun[0].ID, repository.ItemQuery{Limit: 100})
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

// A redrive is limited to the topics on which its creator has all needed roles. It is refused if its creator has one of
// the roles on no topic, or not on the original topic that it sets.
func TestNarrowOrder(t *testing.T) {
	t.Parallel()
	deletes := repository.NewRedrive{Action: entity.RedriveDelete}
	patches := repository.NewRedrive{Action: entity.RedriveRetry, Options: entity.RedriveOptions{Patch: []byte("[]")}}
	maps := repository.NewRedrive{Action: entity.RedriveMap, Options: entity.RedriveOptions{OriginalTopic: topicB}}
	for _, c := range []struct {
		name  string
		p     auth.Principal
		order repository.NewRedrive
		want  string // the scope; "all", or "refused"
	}{
		{"OperatorDeletes", person("", "*", auth.Operator), deletes, "refused"},
		{"AdminDeletes", person("", "orders.*", auth.Admin), deletes, "orders.*"},
		{"AdminOfOneOperatorOfAll", grants("", person("", "orders.*", auth.Admin), person("", "*", auth.Operator)), deletes, "orders.*"},
		{"EverywhereDeletes", person("", "*", auth.Admin), deletes, "all"},
		{"OperatorPatches", person("", "*", auth.Operator), patches, "refused"},
		{"EditorPatches", person("", "*", auth.Edit), patches, "refused"},
		{"AdminPatches", person("", "*", auth.Admin), patches, "all"},
		{"OperatorWithEdit", person("", "orders.*", auth.Operator, auth.Edit), patches, "orders.*"},
		{
			"OperatorWithEditElsewhere", grants("", person("", "orders.*", auth.Operator), person("", "payments.*", auth.Edit)), patches,
			"orders.* & payments.*",
		},
		{
			"OperatorWithEditOnSomeOfThem", grants("", person("", "orders,orders-*", auth.Operator), person("", "orders-eu", auth.Edit)), patches,
			"orders, orders-* & orders-eu",
		},
		{"OperatorOfAllWithEditOfOne", grants("", person("", "*", auth.Operator), person("", "orders.*", auth.Edit)), patches, "orders.*"},
		{"OperatorOfOneWithEditOfAll", grants("", person("", "orders.*", auth.Operator), person("", "*", auth.Edit)), patches, "orders.*"},
		{"MapsToOwnTopic", person("", "shared.*,payments.*", auth.Operator), maps, "shared.*, payments.*"},
		{"MapsToOtherTopic", person("", "shared.*", auth.Operator), maps, "refused"},
		{"ViewerRetries", person("", "*", auth.Viewer), repository.NewRedrive{Action: entity.RedriveRetry}, "refused"},
	} {
		order := c.order
		err := access.NarrowRedrive(c.p, &order)
		switch scope := order.Selection.Visible; {
		case c.want == "refused":
			if !errors.Is(err, respond.ErrForbidden) {
				t.Errorf("%s: got %v, %v, want it refused", c.name, scope, err)
			}
		case err != nil, (scope == nil) != (c.want == "all"), scope != nil && scope.String() != c.want:
			t.Errorf("%s: got %v, %v, want %s", c.name, scope, err, c.want)
		}
	}
}

func TestRedrivesAreSeenByTheirMakersAndThoseWhoSeeEverything(t *testing.T) {
	t.Parallel()
	for topics, want := range map[string][]string{"orders.*": {redriveA.String()}, "*": {redriveA.String(), redriveB.String()}} {
		got := ids(t, matrixFixture(t, person("ana", topics, auth.Operator)).by("ana", "GET", redrivesPath, ""), "redrives")
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", topics, got, want)
		}
	}
}

// A redrive remains when its creator loses the grants for its topics. The creator can then no longer see it, or no
// longer change it.
func TestRedriveIsHeldAgainstTodaysGrants(t *testing.T) {
	t.Parallel()
	then := person("ana", "orders.*,payments.*", auth.Operator, auth.Edit)
	for _, c := range []struct {
		name          string
		now           auth.Principal
		view, operate int
	}{
		{"Same", then, 200, 200},
		{"MoreAndInAnotherOrder", person("ana", "x,payments.*,orders.*", auth.Admin), 200, 200},
		{"Everything", person("ana", "*", auth.Operator, auth.Edit), 200, 200},
		{"OneTopicTaken", person("ana", "orders.*", auth.Operator, auth.Edit), 404, 404},
		{
			"OneTopicOnlyToLookAt", grants("ana", person("", "orders.*", auth.Operator), person("", "orders.*,payments.*", auth.Viewer, auth.Edit)),
			200, 403,
		},
		{"EditTaken", person("ana", "orders.*,payments.*", auth.Operator), 200, 403},
		{"AllTaken", person("ana", "orders.*,payments.*", auth.Unmask), 403, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(message(idA)).guarded(c.now)
			order := repository.NewRedrive{
				ID: redriveA, Action: entity.RedriveRetry, BatchSize: 10, Cause: entity.By("ana"),
				Selection: entity.Selection{IDs: []uuid.UUID{idA}}, Options: entity.RedriveOptions{Patch: []byte("[]")},
			}
			check.NoError(t, access.NarrowRedrive(then, &order))
			if _, err := f.memory.CreateRedrive(t.Context(), order); err != nil {
				t.Fatal(err)
			}
			target := redrivesPath + "/" + redriveA.String()
			for _, ask := range []string{target, target + "/items"} {
				wantStatus(t, f.by("ana", "GET", ask, ""), c.view)
			}
			for _, step := range []string{"/pause", "/resume", "/cancel"} {
				wantStatus(t, f.by("ana", "POST", target+step, ""), c.operate)
			}
			if c.view == 403 {
				return
			}
			if got := ids(t, f.by("ana", "GET", redrivesPath, ""), "redrives"); (len(got) == 1) != (c.view == 200) {
				t.Errorf("the list has %v, want it there: %t", got, c.view == 200)
			}
			trail := wantStatus(t, f.by("ana", "GET", "/api/v1/audit?object_id="+redriveA.String(), ""), 200)
			if got := strings.Contains(trail, `"object_id":"`+redriveA.String()); got != (c.view == 200) {
				t.Errorf("the trail = %s, want entries: %t", trail, c.view == 200)
			}
		})
	}
}

func TestTrailShowsWhatOneMaySee(t *testing.T) {
	t.Parallel()
	f := matrixFixture(t, person("ana", "orders.*", auth.Operator))
	for _, id := range []uuid.UUID{idA, idB} {
		if _, err := f.memory.MarkDead(t.Context(), id, entity.By("somebody")); err != nil {
			t.Fatal(err)
		}
	}
	for object, want := range map[uuid.UUID]bool{idA: true, idB: false, redriveA: true, redriveB: false, idGone: false} {
		trail := wantStatus(t, f.by("ana", "GET", "/api/v1/audit?object_id="+object.String(), ""), 200)
		if got := strings.Contains(trail, `"object_id":"`+object.String()); got != want {
			t.Errorf("%s: got %s, want entries: %t", object, trail, want)
		}
	}
	wantEnvelope(t, f.by("ana", "GET", "/api/v1/audit", ""), 403, "role", "object_id")
}

// A lineage ends at the first message that the caller may not see.
func TestLineageEndsWhereOneSeesNoFurther(t *testing.T) {
	t.Parallel()
	child, parent := message(idA), message(idB)
	child.Parent, child.Source.Offset = idB, 99
	parent.OriginalTopic = topicB
	f := newFixture(child, parent).guarded(person("ana", "orders.*", auth.Viewer), person("root", "*", auth.Viewer))
	for name, want := range map[string][]string{"ana": {}, "root": {idB.String()}} {
		if got := ids(t, f.by(name, "GET", oneA+"/history", ""), "lineage"); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
