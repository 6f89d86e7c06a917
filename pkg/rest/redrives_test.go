package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// The redrives of documentFixture.
var (
	idRunning = uuid.MustParse("0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d90")
	idPaused  = uuid.MustParse("0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d91")
)

const redrives = "/api/v1/redrives"

// Each field that is wrong is named, and nothing is begun.
func TestRedrive_BadOrders(t *testing.T) {
	t.Parallel()
	ids := func(n int) string {
		return strings.TrimSuffix(strings.Repeat(`"`+idA.String()+`",`, n), ",")
	}
	one := `"ids":[` + ids(1) + `]`
	for _, c := range []struct{ name, body, field string }{
		{"Empty", ``, "ids"},
		{"Neither", `{}`, "ids"},
		{"Both", `{` + one + `,"filter":{"topic":"t"}}`, "ids"},
		{"UnknownField", `{` + one + `,"canry":1}`, "canry"},
		{"UnknownFieldOfTheFilter", `{"filter":{"topics":"t"}}`, "filter.topics"},
		{"FieldOfTheFilterTwice", `{"filter":{"topic":"t","topic":"u"}}`, "filter.topic"},
		{"Action", `{` + one + `,"action":"resend"}`, "action"},
		{"ActionOfAnotherCase", `{` + one + `,"action":"Retry"}`, "action"},
		{"ActionNumber", `{` + one + `,"action":1}`, "action"},
		{"DryRunText", `{` + one + `,"dry_run":"yes"}`, "dry_run"},

		{"IDsText", `{"ids":"` + idA.String() + `"}`, "ids"},
		{"IDsNull", `{"ids":null}`, "ids"},
		{"IDsEmpty", `{"ids":[]}`, "ids"},
		{"IDsTooMany", `{"ids":[` + ids(entity.MaxSelectedIDs+1) + `]}`, "ids"},
		{"IDsNumbers", `{"ids":[1]}`, "ids"},
		{"IDsNotCanonical", `{"ids":["` + idA.String() + `","` + strings.ReplaceAll(idA.String(), "-", "") + `"]}`, "ids"},
		{"IDsEmptyText", `{"ids":[""]}`, "ids"},
		{"IDsWithNull", `{"ids":[null]}`, "ids"},

		{"FilterEmpty", `{"filter":{}}`, "filter"},
		{"FilterStatusAlone", `{"filter":{"status":["PENDING"]}}`, "filter"},
		{"FilterCreatedBeforeAlone", `{"filter":{"created_before":"2026-02-20T10:30:00Z"}}`, "filter"},
		{"FilterList", `{"filter":[]}`, "filter"},
		{"FilterNull", `{"filter":null}`, "filter"},
		{"FilterText", `{"filter":"topic"}`, "filter"},
		{"TopicEmpty", `{"filter":{"topic":""}}`, "filter.topic"},
		{"TopicLong", `{"filter":{"topic":"` + strings.Repeat("x", 256) + `"}}`, "filter.topic"},
		{"TopicNUL", `{"filter":{"topic":"a\u0000"}}`, "filter.topic"},
		{"TopicNumber", `{"filter":{"topic":1}}`, "filter.topic"},
		{"StatusText", `{"filter":{"topic":"t","status":"PENDING"}}`, "filter.status"},
		{"StatusUnknown", `{"filter":{"topic":"t","status":["pending"]}}`, "filter.status"},
		{"StatusEmpty", `{"filter":{"topic":"t","status":[]}}`, "filter.status"},
		{"ErrorClassEmpty", `{"filter":{"error_class":""}}`, "filter.error_class"},
		{"ErrorClassLong", `{"filter":{"error_class":"` + strings.Repeat("x", 1001) + `"}}`, "filter.error_class"},
		{"ConsumerGroupNUL", `{"filter":{"consumer_group":"\u0000"}}`, "filter.consumer_group"},
		{"CreatedAfterDate", `{"filter":{"created_after":"2026-02-20"}}`, "filter.created_after"},
		{"CreatedAfterNumber", `{"filter":{"created_after":1771583400}}`, "filter.created_after"},
		{"CreatedAfterBeforeTime", `{"filter":{"created_after":"0001-01-01T00:00:00Z"}}`, "filter.created_after"},
		{"CreatedBefore", `{"filter":{"topic":"t","created_before":"noon"}}`, "filter.created_before"},
		{"CreatedBeforeTheAfter", `{"filter":{"created_after":"2026-02-20T10:30:00Z","created_before":"2026-02-20T10:30:00Z"}}`, "filter.created_before"},

		{"CanaryNegative", `{` + one + `,"canary":-1}`, "canary"},
		{"CanaryFraction", `{` + one + `,"canary":1.5}`, "canary"},
		{"CanaryHuge", `{` + one + `,"canary":1000001}`, "canary"},
		{"CanaryText", `{` + one + `,"canary":"1"}`, "canary"},
		{"CanaryWaitNumber", `{` + one + `,"canary":1,"canary_wait":60}`, "canary_wait"},
		{"CanaryWaitWord", `{` + one + `,"canary":1,"canary_wait":"soon"}`, "canary_wait"},
		{"CanaryWaitShort", `{` + one + `,"canary":1,"canary_wait":"999ms"}`, "canary_wait"},
		{"CanaryWaitLong", `{` + one + `,"canary":1,"canary_wait":"61m"}`, "canary_wait"},
		{"CanaryWaitWithoutCanary", `{` + one + `,"canary_wait":"60s"}`, "canary_wait"},
		{"RateZero", `{` + one + `,"rate":0}`, "rate"},
		{"RateNegative", `{` + one + `,"rate":-1}`, "rate"},
		{"RateTiny", `{` + one + `,"rate":1e-300}`, "rate"},
		{"RateHuge", `{` + one + `,"rate":1e300}`, "rate"},
		{"RateOverflows", `{` + one + `,"rate":1e400}`, "rate"},
		{"FailureShare", `{` + one + `,"max_failure_share":1.01}`, "max_failure_share"},
		{"FailureShareNegative", `{` + one + `,"max_failure_share":-0.1}`, "max_failure_share"},
		{"ReturnShare", `{` + one + `,"max_return_share":2}`, "max_return_share"},
		{"MinSampleZero", `{` + one + `,"max_return_share":0.5,"min_sample":0}`, "min_sample"},
		{"MinSampleWithoutShares", `{` + one + `,"min_sample":5}`, "min_sample"},
		{"KeepKeyOrderText", `{` + one + `,"keep_key_order":"true"}`, "keep_key_order"},
		{"RequeueNumber", `{` + one + `,"requeue":1}`, "requeue"},
		{"Reason", `{` + one + `,"reason":"a\nb"}`, "reason"},

		{"DeleteWithCanary", `{` + one + `,"action":"delete","canary":1}`, "canary"},
		{"DeadWithCanaryWait", `{` + one + `,"action":"dead","canary_wait":"60s"}`, "canary_wait"},
		{"RequeueWithFailureShare", `{` + one + `,"action":"requeue","max_failure_share":0.1}`, "max_failure_share"},
		{"RequeueWithReturnShare", `{` + one + `,"action":"requeue","max_return_share":0.1}`, "max_return_share"},
		{"DeadWithMinSample", `{` + one + `,"action":"dead","min_sample":1}`, "min_sample"},
		{"DeadWithKeepKeyOrder", `{` + one + `,"action":"dead","keep_key_order":true}`, "keep_key_order"},
		{"DeleteWithRequeue", `{` + one + `,"action":"delete","requeue":true}`, "requeue"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(message(idA)).open()
			e := wantEnvelope(t, f.do("POST", redrives, c.body), 400, codeValidation)
			if got := firstField(e.Details); got != c.field {
				t.Errorf("details = %v, want field %q", e.Details, c.field)
			}
			if begun, err := f.memory.Redrives(t.Context(), repository.RedriveQuery{Limit: 1}); err != nil || len(begun) > 0 {
				t.Errorf("redrives = %v, %v, want none", begun, err)
			}
		})
	}
}

func TestRedrive_EveryProblemIsReported(t *testing.T) {
	t.Parallel()
	w := newFixture().open().do("POST", redrives, `{"filter":{"topic":"","created_after":"x"},"rate":0,"canary":-1}`)
	var fields []string
	for _, d := range wantEnvelope(t, w, 400, codeValidation).Details {
		fields = append(fields, d.Field)
	}
	if want := []string{"filter.topic", "filter.created_after", "canary", "rate"}; !reflect.DeepEqual(fields, want) {
		t.Errorf("fields = %v, want %v", fields, want)
	}
}

// What was asked for is what is begun, defaults included.
func TestRedrive_Orders(t *testing.T) {
	t.Parallel()
	retry := func(o entity.RedriveOptions, s entity.Selection) repository.NewRedrive {
		return repository.NewRedrive{Action: entity.RedriveRetry, Options: o, Selection: s}
	}
	ids := entity.Selection{IDs: []uuid.UUID{idA, idB, idA}}
	idsText := `"ids":["` + idA.String() + `","` + strings.ToUpper(idB.String()) + `","` + idA.String() + `"]`
	for _, c := range []struct {
		name, body string
		want       repository.NewRedrive
	}{
		{"IDsWithRepeats", `{` + idsText + `}`, retry(entity.RedriveOptions{}, ids)},
		{
			"EveryFieldOfTheFilter", `{"filter":{"topic":"t","status":["DEAD","PENDING"],"error_class":"Boom","consumer_group":"g",` +
				`"created_after":"2026-02-20T10:30:00.000+00:00","created_before":"2026-02-20T19:30:00.0000015+08:00"}}`,
			retry(entity.RedriveOptions{}, entity.Selection{Filter: entity.Filter{
				Topic: "t", Statuses: []entity.Status{entity.Dead, entity.Pending}, ErrorClass: "Boom", ConsumerGroup: "g",
				CreatedAfter: noon, CreatedBefore: noon.Add(time.Hour + time.Microsecond),
			}}),
		},
		{"CanaryWaitsAsADefault", `{` + idsText + `,"canary":5}`, retry(entity.RedriveOptions{Canary: 5, CanaryWait: time.Minute}, ids)},
		{"SharesHaveADefaultSample", `{` + idsText + `,"max_return_share":0.1}`, retry(entity.RedriveOptions{MaxReturnShare: 0.1, MinSample: 20}, ids)},
		{
			"EveryOption", `{"action":"retry",` + idsText + `,"canary":2,"canary_wait":"1h","rate":0.5,"max_failure_share":1,` +
				`"max_return_share":0.25,"min_sample":3,"keep_key_order":true,"requeue":true}`,
			retry(entity.RedriveOptions{
				Canary: 2, CanaryWait: time.Hour, Rate: 0.5, MaxFailureShare: 1, MaxReturnShare: 0.25, MinSample: 3, KeepKeyOrder: true, Requeue: true,
			}, ids),
		},
		{
			"DeleteWithOptionsThatAskForNothing", `{"action":"delete",` + idsText + `,"canary":0,"max_failure_share":0,"max_return_share":0,"requeue":false,"rate":9}`,
			repository.NewRedrive{Action: entity.RedriveDelete, Selection: ids, Options: entity.RedriveOptions{Rate: 9}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, dryRun := range []bool{false, true} {
				f, spy := newFixture(), &orderSpy{}
				f.redriver = spy
				body := strings.TrimSuffix(c.body, "}") + fmt.Sprintf(`,"dry_run":%t}`, dryRun)
				if w := f.open().do("POST", redrives, body); w.Code != map[bool]int{false: 202, true: 200}[dryRun] {
					t.Fatalf("answer = %d %s, want it taken", w.Code, w.Body)
				}
				c.want.Cause = entity.Cause{Actor: "anonymous", RequestID: testID}
				if !reflect.DeepEqual(spy.order, c.want) || spy.dryRun != dryRun {
					t.Errorf("asked for %+v, dry run %t; want %+v, %t", spy.order, spy.dryRun, c.want, dryRun)
				}
			}
		})
	}
}

// orderSpy remembers what was to be begun.
type orderSpy struct {
	redriverFunc
	order  repository.NewRedrive
	dryRun bool
}

func (s *orderSpy) Begin(_ context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	s.order = n
	return begunRedrive(redrive, n.Action), nil
}

func (s *orderSpy) Preview(_ context.Context, n repository.NewRedrive) (entity.Preview, error) {
	s.order, s.dryRun = n, true
	return entity.Preview{}, nil
}

const noOptions = `"options":{"canary":null,"canary_wait":null,"rate":null,"max_failure_share":null,"max_return_share":null,` +
	`"min_sample":null,"keep_key_order":false,"requeue":false,"original_topic":null,"patch":null}`

func TestRedrive_Create(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA), message(idB, in(entity.Dead, 3))).open()
	w := f.do("POST", redrives, `{"ids":["`+idA.String()+`","`+idB.String()+`"],"reason":"fixed"}`)
	begun := `{"id":"` + redrive.String() + `","action":"retry","state":"running","note":null,"actor":"anonymous","reason":"fixed",` +
		`"request_id":"test-1","selection":{"by":"ids","filter":null},` + noOptions + `,"created_at":"2026-02-20T10:30:00.000+00:00",` +
		`"updated_at":"2026-02-20T10:30:00.000+00:00","ended_at":null,"selected":2,"succeeded":0,"failed":0,"dead":0,"in_doubt":0,` +
		`"skipped":1,"waiting":1,"under_way":0,"returned":0,"reasons":{"not_retryable":1},"progress":0.5,"rate":0,"seconds_left":null,"waiting_since":null`
	wantAnswer(t, w, 202, begun+`,"searched_until":null}`)
	wantHeader(t, w.Header(), "Location", redrives+"/"+redrive.String())
	outcomes := func(published int) string {
		return fmt.Sprintf(`,"outcomes":{"published":%d,"consumed":0,"returned":0}}`, published)
	}
	wantAnswer(t, f.do("GET", redrives+"/"+redrive.String(), ""), 200, begun+outcomes(0))
	if w := f.do("HEAD", redrives+"/"+redrive.String(), ""); w.Code != 200 {
		t.Errorf("HEAD = %d, want 200", w.Code)
	}

	if _, err := f.redriver.Wait(t.Context(), redrive); err != nil {
		t.Fatal(err)
	}
	ended := strings.NewReplacer(`"running"`, `"finished"`, `"ended_at":null`, `"ended_at":"2026-02-20T10:30:00.000+00:00"`,
		`"succeeded":0`, `"succeeded":1`, `"waiting":1`, `"waiting":0`, `"progress":0.5`, `"progress":1`, `"seconds_left":null`, `"seconds_left":0`)
	wantAnswer(t, f.do("GET", redrives+"/"+redrive.String(), ""), 200, ended.Replace(begun)+outcomes(1))
	wantAnswer(t, f.do("GET", redrives, ""), 200, `{"redrives":[`+ended.Replace(begun)+`}],"next_cursor":null}`)
	wantAnswer(t, f.do("GET", redrives+"/"+redrive.String()+"/items", ""), 200, `{"items":[{"number":0,"id":"`+idA.String()+
		`","result":"succeeded","reason":null,"topic":"orders.events.v1","partition":3,"offset":7,"outcome":"published"}],"next_cursor":null}`)
	wantAnswer(t, f.do("POST", redrives+"/"+redrive.String()+"/cancel", ""), 409,
		errorJSON(codeConflict, "redrive "+redrive.String()+" is finished and cannot become cancelled", "[]"))
}

func TestRedrive_DryRun(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.redriver = previewing{preview: entity.Preview{
		Selected: 9, Sendable: 7, Reasons: map[string]int{"UNKNOWN_TOPIC": 2},
		Groups: []entity.PreviewGroup{
			{Topic: "orders", Messages: 7}, {Messages: 2, Class: "UNKNOWN_TOPIC", Reason: "its topic does not exist"},
		},
	}}
	w := f.open().do("POST", redrives, `{"filter":{"topic":"orders"},"dry_run":true}`)
	wantAnswer(t, w, 200, `{"action":"retry","selected":9,"sendable":7,"reasons":{"UNKNOWN_TOPIC":2},"groups":[`+
		`{"topic":"orders","messages":7,"class":null,"reason":null},`+
		`{"topic":null,"messages":2,"class":"UNKNOWN_TOPIC","reason":"its topic does not exist"}],"samples":[],"patch_checked":0,"patch_failed":0,"searched_until":null}`)
	wantHeader(t, w.Header(), "Location", "")
	f.redriver = previewing{}
	f.registry = newFixture().registry
	wantAnswer(t, f.open().do("POST", redrives, `{"filter":{"topic":"orders"},"dry_run":true,"action":"dead"}`), 200,
		`{"action":"dead","selected":0,"sendable":0,"reasons":{},"groups":[],"samples":[],"patch_checked":0,"patch_failed":0,"searched_until":null}`)
}

type previewing struct {
	redriverFunc
	preview entity.Preview
}

func (p previewing) Preview(context.Context, repository.NewRedrive) (entity.Preview, error) {
	return p.preview, nil
}

func TestRedrive_Moves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id       uuid.UUID
		move     string
		status   int
		state    string
		conflict string
	}{
		{idRunning, "pause", 200, "paused", ""},
		{idPaused, "resume", 200, "running", ""},
		{idPaused, "cancel", 200, "cancelled", ""},
		{idRunning, "cancel", 200, "cancelled", ""},
		{idPaused, "pause", 409, "paused", "redrive " + idPaused.String() + " is paused and cannot become paused"},
	} {
		f := documentFixture()
		target := redrives + "/" + c.id.String()
		w := f.do("POST", target+"/"+c.move, "{}")
		if w.Code != c.status {
			t.Errorf("%s = %d %s, want %d", c.move, w.Code, w.Body, c.status)
		}
		if c.conflict != "" {
			wantAnswer(t, w, 409, errorJSON(codeConflict, c.conflict, "[]"))
		}
		var got struct{ State string }
		if err := json.Unmarshal(f.do("GET", target, "").Body.Bytes(), &got); err != nil || got.State != c.state {
			t.Errorf("after %s: %v, %v, want %s", c.move, got.State, err, c.state)
		}
	}
	for _, move := range []string{"pause", "resume", "cancel"} {
		f := newFixture().open()
		wantAnswer(t, f.do("POST", redrives+"/"+redrive.String()+"/"+move, ""), 404,
			errorJSON(codeNotFound, "redrive not found: "+redrive.String(), "[]"))
		wantAnswer(t, f.do("POST", redrives+"/x/"+move, ""), 400, errorJSON(codeValidation, "invalid redrive id: x", badID))
		if e := wantEnvelope(t, f.do("POST", redrives+"/"+redrive.String()+"/"+move, `{"x":1}`), 400, codeValidation); firstField(e.Details) != "x" {
			t.Errorf("%s: details %v, want the unknown field", move, e.Details)
		}
	}
	for _, target := range []string{redrives + "/" + redrive.String(), redrives + "/" + redrive.String() + "/items"} {
		wantAnswer(t, newFixture().open().do("GET", target, ""), 404, errorJSON(codeNotFound, "redrive not found: "+redrive.String(), "[]"))
	}
}

// Progress and speed, where they can be told.
func TestRedrive_Progress(t *testing.T) {
	t.Parallel()
	left := func(n int64) *int64 { return &n }
	base := entity.Redrive{State: entity.RedriveRunning, CreatedAt: noon, Selected: 10, Counts: entity.RedriveCounts{Waiting: 4}}
	change := func(f func(*entity.Redrive)) entity.Redrive { r := base; f(&r); return r }
	for _, c := range []struct {
		name     string
		redrive  entity.Redrive
		after    time.Duration
		progress float64
		rate     float64
		left     *int64
	}{
		{"Running", base, 4 * time.Second, 0.6, 1.5, left(3)},
		{"AtOnce", base, 0, 0.6, 0, nil},
		{"ClockBehind", base, -time.Hour, 0.6, 0, nil},
		{"LeftOutTakesNoTime", change(func(r *entity.Redrive) { r.LeftOut = 6 }), 4 * time.Second, 0.6, 0, nil},
		{"Paused", change(func(r *entity.Redrive) { r.State = entity.RedrivePaused }), 4 * time.Second, 0.6, 1.5, nil},
		{"Canary", change(func(r *entity.Redrive) { r.State = entity.RedriveCanary }), 4 * time.Second, 0.6, 1.5, nil},
		{"Waiting", change(func(r *entity.Redrive) { r.WaitingSince = noon }), 4 * time.Second, 0.6, 1.5, nil},
		{"Cancelled", change(func(r *entity.Redrive) {
			r.State, r.EndedAt = entity.RedriveCancelled, noon.Add(2*time.Second)
		}), time.Hour, 0.6, 3, left(0)},
		{"Finished", change(func(r *entity.Redrive) {
			r.State, r.EndedAt, r.Counts.Waiting = entity.RedriveFinished, noon.Add(3*time.Second), 0
		}), time.Hour, 1, 3.333, left(0)},
		{"Nothing", entity.Redrive{State: entity.RedriveFinished, CreatedAt: noon, EndedAt: noon}, time.Hour, 1, 0, left(0)},
		{"NearlyAll", change(func(r *entity.Redrive) { r.Selected, r.Counts.Waiting = 1_000_000, 1 }), 1000 * time.Second, 0.9999, 999.999, left(1)},
	} {
		f := newFixture().open()
		f.server.now = func() time.Time { return noon.Add(c.after) }
		got := f.server.showRedrive(c.redrive)
		if got.Progress != c.progress || got.Rate != c.rate || !reflect.DeepEqual(got.SecondsLeft, c.left) {
			t.Errorf("%s: progress %v, rate %v, left %v; want %v, %v, %v", c.name, got.Progress, got.Rate, show(got.SecondsLeft), c.progress, c.rate, show(c.left))
		}
	}
}

func show(n *int64) any {
	if n == nil {
		return nil
	}
	return *n
}

// Every option and every part of a filter is shown as it was asked for.
func TestRedrive_ShowsWhatWasAsked(t *testing.T) {
	t.Parallel()
	order := `{"filter":{"topic":"t","status":["DEAD"],"error_class":"Boom","consumer_group":"g","created_after":"2026-02-20T10:30:00Z",` +
		`"created_before":"2026-02-20T10:31:00Z"},"canary":2,"canary_wait":"90s","rate":0.5,"max_failure_share":1,"max_return_share":0.25,` +
		`"min_sample":3,"keep_key_order":true,"requeue":true}`
	body := newFixture().open().do("POST", redrives, order).Body.String()
	for _, want := range []string{
		`"selection":{"by":"filter","filter":{"topic":"t","status":["DEAD"],"error_class":"Boom","consumer_group":"g",` +
			`"dialect":null,"group_id":null,"origin":null,"created_after":"2026-02-20T10:30:00.000+00:00","created_before":"2026-02-20T10:31:00.000+00:00",` +
			`"retried_after":null,"retried_before":null,"key":null,"key_base64":null,"header":null,"payload":null,"q":null}}`,
		`"options":{"canary":2,"canary_wait":"1m30s","rate":0.5,"max_failure_share":1,"max_return_share":0.25,"min_sample":3,` +
			`"keep_key_order":true,"requeue":true,"original_topic":null,"patch":null}`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("got %s, want %s in it", body, want)
		}
	}
}

func TestRetryAll_Async(t *testing.T) {
	t.Parallel()
	target := "/api/v1/dlq/orders.dlq.v1/retry-all"
	for prefer, async := range map[string]bool{
		"respond-async": true, "Respond-Async": true, "wait=10, respond-async; x=y": true, "respond-async,wait=100": true,
		"": false, "wait=10": false, "respond-asynchronously": false, "return=minimal": false,
	} {
		f := newFixture(message(idA)).open()
		w := f.do("POST", target, `{"reason":"r"}`, "Prefer", prefer)
		if !async {
			if w.Code != 200 {
				t.Errorf("Prefer %q = %d, want the end waited for", prefer, w.Code)
			}
			wantHeader(t, w.Header(), "Preference-Applied", "")
			continue
		}
		wantHeader(t, w.Header(), "Location", redrives+"/"+redrive.String())
		wantHeader(t, w.Header(), "Preference-Applied", "respond-async")
		shown := f.do("GET", redrives, "").Body.String()
		if w.Code != http.StatusAccepted || !strings.Contains(shown, w.Body.String()) || !strings.Contains(shown, `"waiting":1`) {
			t.Errorf("Prefer %q = %d %s, want 202 and the redrive as it begins: %s", prefer, w.Code, w.Body, shown)
		}
	}
	w := newFixture().open().do("POST", "/api/v1/dlq/%00/retry-all", "", "Prefer", "respond-async")
	if w.Code != 200 || !strings.HasPrefix(w.Body.String(), `{"retried":0,`) {
		t.Errorf("async retry-all of an impossible topic = %d %s, want 200 and nothing retried", w.Code, w.Body)
	}
}
