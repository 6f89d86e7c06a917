package rest

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// The redrives of documentFixture.
var (
	idRunning = uuid.MustParse("0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d90")
	idPaused  = uuid.MustParse("0198a4c2-7e10-7c3a-9d2f-3b1e5a6c7d91")
)

const redrivesPath = "/api/v1/redrives"

// The answer to an invalid redrive names each wrong field, and no redrive is started.
func TestRedrive_BadOrders(t *testing.T) {
	t.Parallel()
	ids := func(n int) string {
		return strings.TrimSuffix(strings.Repeat(`"`+idA.String()+`",`, n), ",")
	}
	f := newFixture(message(idA)).open()
	refused := func(body, field string) {
		if e := wantEnvelope(t, f.do("POST", redrivesPath, body), 400); firstField(e.Details) != field {
			t.Errorf("%s: details = %v, want %s first", body, e.Details, field)
		}
		if begun, err := f.memory.Redrives(t.Context(), repository.RedriveQuery{Limit: 1}); err != nil || len(begun) > 0 {
			t.Errorf("%s: redrives = %v, %v, want none", body, begun, err)
		}
	}
	for _, body := range []string{
		``, `{}`, `{"ids":[` + ids(1) + `],"filter":{"topic":"t"}}`, `{"ids":"` + idA.String() + `"}`, `{"ids":null}`, `{"ids":[]}`,
		`{"ids":[` + ids(entity.MaxSelectedIDs+1) + `]}`, `{"ids":[1]}`, `{"ids":[""]}`, `{"ids":[null]}`,
		`{"ids":[` + ids(1) + `,"` + strings.ReplaceAll(idA.String(), "-", "") + `"]}`,
	} {
		refused(body, "ids")
	}
	for _, filter := range []string{`{}`, `{"status":["PENDING"]}`, `{"created_before":"2026-02-20T10:30:00Z"}`, `[]`, `null`, `"topic"`} {
		refused(`{"filter":`+filter+`}`, "filter")
		refused(`{"action":"delete","filter":`+filter+`}`, "filter")
	}
	for field, values := range map[string][]string{
		"topics": {`"t"`}, "topic": {`""`, `"` + strings.Repeat("x", 256) + `"`, `"a\u0000"`, `1`, `"t","topic":"u"`},
		"status": {`"PENDING","topic":"t"`, `["pending"],"topic":"t"`, `[],"topic":"t"`}, "consumer_group": {`"\u0000"`},
		"error_class": {`""`, `"` + strings.Repeat("x", 1001) + `"`}, "created_after": {`"2026-02-20"`, `1771583400`, `"0001-01-01T00:00:00Z"`},
		"created_before": {`"noon","topic":"t"`, `"2026-02-20T10:30:00Z","created_after":"2026-02-20T10:30:00Z"`},
	} {
		for _, value := range values {
			refused(`{"filter":{"`+field+`":`+value+`}}`, "filter."+field)
		}
	}
	for field, values := range map[string][]string{
		"canry": {`1`}, "action": {`"resend"`, `"Retry"`, `1`}, "dry_run": {`"yes"`}, "rate": {`0`, `-1`, `1e-300`, `1e300`, `1e400`},
		"reason":            {`"a\nb"`},
		"canary":            {`-1`, `1.5`, `1000001`, `"1"`, `1,"action":"delete"`},
		"canary_wait":       {`"60s"`, `60,"canary":1`, `"soon","canary":1`, `"999ms","canary":1`, `"61m","canary":1`, `"60s","action":"dead"`},
		"max_failure_share": {`1.01`, `-0.1`, `0.1,"action":"requeue"`}, "max_return_share": {`2`, `0.1,"action":"requeue"`},
		"min_sample":     {`5`, `0,"max_return_share":0.5`, `1,"action":"dead"`},
		"keep_key_order": {`"true"`, `true,"action":"dead"`}, "requeue": {`1`, `true,"action":"delete"`, `true,"archived":true`},
		"accept_envelope": {`1`, `null`, `true,"action":"dead"`},
	} {
		for _, value := range values {
			refused(`{"ids":[`+ids(1)+`],"`+field+`":`+value+`}`, field)
		}
	}
	refused(`{"ids":[`+ids(1)+`],"action":"restore"}`, "archived")
	refused(`{"ids":[`+ids(1)+`],"archived":"yes"}`, "archived")
	refused(`{"ids":[`+ids(1)+`],"archived":true,"action":"requeue"}`, "action")
	refused(`{"ids":[`+ids(1)+`],"archived":true,"action":"map","original_topic":"t"}`, "action")
	refused(`{"ids":[`+ids(1)+`],"archived":true,"action":"delete"}`, "reason")
	wantEnvelope(t, f.do("POST", redrivesPath, `{"filter":{"topic":"","created_after":"x"},"rate":0,"canary":-1}`), 400,
		"filter.topic", "filter.created_after", "canary", "rate") // every problem is reported
}

// The redrive that the server begins is the one that the request describes, with defaults for missing options.
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
		{"IDsWithRepeats", idsText, retry(entity.RedriveOptions{}, ids)},
		{
			"EveryFieldOfTheFilter", `"filter":{"topic":"t","status":["DEAD","PENDING"],"error_class":"Boom","consumer_group":"g",` +
				`"created_after":"2026-02-20T10:30:00.000+00:00","created_before":"2026-02-20T19:30:00.0000015+08:00"}`,
			retry(entity.RedriveOptions{}, entity.Selection{Filter: entity.Filter{
				Topic: "t", Statuses: []entity.Status{entity.Dead, entity.Pending}, ErrorClass: "Boom", ConsumerGroup: "g",
				CreatedAfter: noon, CreatedBefore: noon.Add(time.Hour + time.Microsecond),
			}}),
		},
		{
			"Archived", `"archived":true,"action":"restore","filter":{"topic":"t","q":"never searched for"}`,
			repository.NewRedrive{Action: entity.RedriveRestore, Selection: entity.Selection{Archived: true, Filter: entity.Filter{
				Topic: "t", Words: []string{"never", "searched", "for"},
			}}},
		},
		{"CanaryWaitsAsADefault", idsText + `,"canary":5`, retry(entity.RedriveOptions{Canary: 5, CanaryWait: time.Minute}, ids)},
		{"SharesHaveADefaultSample", idsText + `,"max_return_share":0.1`, retry(entity.RedriveOptions{MaxReturnShare: 0.1, MinSample: 20}, ids)},
		{
			"EveryOption", `"action":"retry",` + idsText + `,"canary":2,"canary_wait":"1h","rate":0.5,"max_failure_share":1,` +
				`"max_return_share":0.25,"min_sample":3,"keep_key_order":true,"requeue":true,"accept_envelope":true`,
			retry(entity.RedriveOptions{
				Canary: 2, CanaryWait: time.Hour, Rate: 0.5, MaxFailureShare: 1, MaxReturnShare: 0.25, MinSample: 3, KeepKeyOrder: true, Requeue: true,
				AcceptEnvelope: true,
			}, ids),
		},
		{
			"DeleteWithOptionsThatAskForNothing", `"action":"delete",` + idsText +
				`,"canary":0,"max_failure_share":0,"max_return_share":0,"requeue":false,"rate":9`,
			repository.NewRedrive{Action: entity.RedriveDelete, Selection: ids, Options: entity.RedriveOptions{Rate: 9}},
		},
	} {
		f, orders := orderingFixture()
		f.open()
		wantStatus(t, f.do("POST", redrivesPath, `{`+c.body+`,"dry_run":false}`), 202)
		wantStatus(t, f.do("POST", redrivesPath, `{`+c.body+`,"dry_run":true}`), 200)
		for _, order := range []*repository.NewRedrive{&orders.begun[0], &orders.previewed[0]} {
			order.Cause.Call = uuid.Nil
		}
		c.want.Cause = entity.AuditInfo{Actor: "anonymous", RequestID: testID}
		if want := []repository.NewRedrive{c.want}; !reflect.DeepEqual(orders.begun, want) || !reflect.DeepEqual(orders.previewed, want) {
			t.Errorf("%s: begun %+v and previewed %+v, want %+v", c.name, orders.begun, orders.previewed, want)
		}
	}
}

const noOptions = `"options":{"canary":null,"canary_wait":null,"rate":null,"max_failure_share":null,"max_return_share":null,` +
	`"min_sample":null,"keep_key_order":false,"requeue":false,"accept_envelope":false,"original_topic":null,"patch":null,"schema":null}`

func TestRedrive_Create(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA), message(idB, in(entity.Dead, 3))).open()
	one := redrivesPath + "/" + redrive.String()
	w := f.do("POST", redrivesPath, `{"ids":["`+idA.String()+`","`+idB.String()+`"],"reason":"fixed"}`)
	begun := `{"id":"` + redrive.String() + `","action":"retry","state":"running","note":null,"actor":"anonymous","reason":"fixed",` +
		`"request_id":"test-1","selection":{"by":"ids","archived":false,"filter":null},` + noOptions + `,"created_at":"2026-02-20T10:30:00.000+00:00",` +
		`"updated_at":"2026-02-20T10:30:00.000+00:00","ended_at":null,"selected":2,"succeeded":0,"failed":0,"dead":0,"in_doubt":0,` +
		`"skipped":1,"waiting":1,"under_way":0,"returned":0,"reasons":{"not_retryable":1},"progress":0.5,"rate":0,"seconds_left":null,"waiting_since":null,"bounds":null`
	wantAnswer(t, w, 202, begun+`,"searched_until":null}`)
	wantHeader(t, w.Header(), "Location", one)
	wantAnswer(t, f.do("GET", one, ""), 200, begun+`,"outcomes":{"published":0,"consumed":0,"returned":0}}`)
	wantStatus(t, f.do("HEAD", one, ""), 200)

	if _, err := f.redriver.Wait(t.Context(), redrive); err != nil {
		t.Fatal(err)
	}
	ended := strings.NewReplacer(`"running"`, `"finished"`, `"ended_at":null`, `"ended_at":"2026-02-20T10:30:00.000+00:00"`, `"succeeded":0`,
		`"succeeded":1`,
		`"waiting":1`, `"waiting":0`, `"progress":0.5`, `"progress":1`, `"seconds_left":null`, `"seconds_left":0`).Replace(begun)
	wantAnswer(t, f.do("GET", one, ""), 200, ended+`,"outcomes":{"published":1,"consumed":0,"returned":0}}`)
	wantAnswer(t, f.do("GET", redrivesPath, ""), 200, `{"redrives":[`+ended+`}],"next_cursor":null}`)
	wantAnswer(t, f.do("GET", one+"/items", ""), 200, `{"items":[{"number":0,"id":"`+idA.String()+
		`","result":"succeeded","reason":null,"topic":"orders.events.v1","partition":3,"offset":7,"outcome":"published"}],"next_cursor":null}`)
	wantAnswer(t, f.do("POST", one+"/cancel", ""), 409,
		errorJSON(respond.CodeConflict, "redrive "+redrive.String()+" is finished and cannot become cancelled", "[]"))
}

func TestRedrive_DryRun(t *testing.T) {
	t.Parallel()
	f, found := orderingFixture()
	f.open()
	wantAnswer(t, f.do("POST", redrivesPath, `{"filter":{"topic":"orders"},"dry_run":true,"action":"dead"}`), 200,
		`{"action":"dead","selected":0,"sendable":0,"reasons":{},"groups":[],"messages":[],"samples":[],"patch_checked":0,"patch_failed":0,"patch_complete":false,"patch_failures":[],"overlaps":null,"searched_until":null}`)
	found.preview = entity.Preview{
		Overlaps: []entity.Overlap{},
		Selected: 9, Sendable: 7, Reasons: map[string]int{"UNKNOWN_TOPIC": 2},
		Groups:   []entity.PreviewGroup{{Topic: "orders", Target: "orders.v2", Messages: 7}, {Messages: 2, Class: "UNKNOWN_TOPIC", Reason: "its topic does not exist", Missing: true}},
		Messages: []entity.PreviewMessage{{Message: message(idA), Target: "orders.v2"}},
	}
	w := f.do("POST", redrivesPath, `{"filter":{"topic":"orders"},"dry_run":true}`)
	wantAnswer(t, w, 200, `{"action":"retry","selected":9,"sendable":7,"reasons":{"UNKNOWN_TOPIC":2},"groups":[`+
		`{"topic":"orders","target":"orders.v2","messages":7,"class":null,"reason":null,"target_missing":false,"replay_removes":[]},`+
		`{"topic":null,"target":null,"messages":2,"class":"UNKNOWN_TOPIC","reason":"its topic does not exist","target_missing":true,"replay_removes":[]}],"messages":[{"id":"`+idA.String()+`","original_topic":"orders.events.v1","target":"orders.v2",`+
		`"error_message":"processing failed","error_class":null,"cause":"processing failed","created_at":"2026-02-20T10:30:00.000+00:00"}],"samples":[],"patch_checked":0,"patch_failed":0,"patch_complete":false,"patch_failures":[],"overlaps":[],"searched_until":null}`)
	wantHeader(t, w.Header(), "Location", "")
	// The answer says on how many messages the patch was tried, and to how many of these it could not be applied.
	fits := entity.PatchSample{MessageID: idA, Before: []byte(`{}`), After: []byte(`{"a":1}`)}
	found.preview = entity.Preview{Sendable: 900, Check: entity.PatchCheck{Checked: 3, Failed: 1}, Samples: []entity.PatchSample{
		fits,
		{MessageID: idB, Before: []byte(`[]`), Reason: "does not fit"},
		fits,
	}}
	w = f.do("POST", redrivesPath, `{"filter":{"topic":"orders"},"dry_run":true,"patch":[{"op":"add","path":"/a","value":1}]}`)
	wantStatus(t, w, 200, `"sendable":900,`, `"patch_checked":3,"patch_failed":1,`)
}

func TestRedrive_Moves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id          uuid.UUID
		move, state string
	}{
		{idRunning, "pause", "paused"}, {idPaused, "resume", "running"}, {idPaused, "cancel", "cancelled"}, {idRunning, "cancel", "cancelled"},
	} {
		f, one := documentFixture(), redrivesPath+"/"+c.id.String()
		wantStatus(t, f.do("POST", one+"/"+c.move, "{}"), 200)
		wantStatus(t, f.do("GET", one, ""), 200, `"state":"`+c.state+`"`)
	}
	wantAnswer(t, documentFixture().do("POST", redrivesPath+"/"+idPaused.String()+"/pause", "{}"), 409,
		errorJSON(respond.CodeConflict, "redrive "+idPaused.String()+" is paused and cannot become paused", "[]"))
	f, one := newFixture().open(), redrivesPath+"/"+redrive.String()
	missing := errorJSON(respond.CodeNotFound, "redrive not found: "+redrive.String(), "[]")
	for _, move := range []string{"pause", "resume", "cancel"} {
		wantAnswer(t, f.do("POST", one+"/"+move, ""), 404, missing)
		wantAnswer(t, f.do("POST", redrivesPath+"/x/"+move, ""), 400, errorJSON(respond.CodeValidation, "invalid redrive id: x", badID))
		wantEnvelope(t, f.do("POST", one+"/"+move, `{"x":1}`), 400, "x")
	}
	wantAnswer(t, f.do("GET", one, ""), 404, missing)
	wantAnswer(t, f.do("GET", one+"/items", ""), 404, missing)
}

// The messages that a cancelled redrive had not taken are counted in not_sent, and in waiting as before.
func TestRedrive_CancelledHasNotSent(t *testing.T) {
	t.Parallel()
	f, one := newFixture(message(idA), message(idB, in(entity.Dead, 3))).open(), redrivesPath+"/"+redrive.String()
	w := f.do("POST", redrivesPath, `{"ids":["`+idA.String()+`","`+idB.String()+`"]}`)
	wantStatus(t, w, 202, `"waiting":1`)
	wantWithout(t, w, "not_sent")
	wantStatus(t, f.do("POST", one+"/cancel", "{}"), 200, `"state":"cancelled"`, `"waiting":1,"under_way":0,"not_sent":1`)
	wantStatus(t, f.do("GET", one, ""), 200, `"waiting":1,"under_way":0,"not_sent":1`)
	wantStatus(t, f.do("GET", one+"/items?result=waiting", ""), 200, `"result":"waiting"`)
}

// The answer shows a redrive with every option and every part of the filter that its request had.
func TestRedrive_ShowsWhatWasAsked(t *testing.T) {
	t.Parallel()
	order := `{"filter":{"topic":"t","status":["DEAD"],"error_class":"Boom","consumer_group":"g","created_after":"2026-02-20T10:30:00Z",` +
		`"created_before":"2026-02-20T10:31:00Z"},"canary":2,"canary_wait":"90s","rate":0.5,"max_failure_share":1,"max_return_share":0.25,` +
		`"min_sample":3,"keep_key_order":true,"requeue":true}`
	wantStatus(t, newFixture().open().do("POST", redrivesPath, order), 202,
		`"selection":{"by":"filter","archived":false,"filter":{"topic":"t","status":["DEAD"],"error_class":"Boom","consumer_group":"g",`+
			`"dialect":null,"group_id":null,"id":null,"origin":null,"created_after":"2026-02-20T10:30:00.000+00:00","created_before":"2026-02-20T10:31:00.000+00:00",`+
			`"retried_after":null,"retried_before":null,"key":null,"key_base64":null,"header":null,"payload":null,"q":null}}`,
		`"options":{"canary":2,"canary_wait":"1m30s","rate":0.5,"max_failure_share":1,"max_return_share":0.25,"min_sample":3,`+
			`"keep_key_order":true,"requeue":true,"accept_envelope":false,"original_topic":null,"patch":null,"schema":null}`)
}

func TestRetryAll_Async(t *testing.T) {
	t.Parallel()
	target := "/api/v1/dlq/orders.dlq.v1/retry-all"
	for _, prefer := range []string{"respond-async", "Respond-Async", "wait=10, respond-async; x=y", "respond-async,wait=100"} {
		f := newFixture(message(idA)).open()
		w := f.do("POST", target, `{"reason":"r"}`, "Prefer", prefer)
		wantHeader(t, w.Header(), "Location", redrivesPath+"/"+redrive.String())
		wantHeader(t, w.Header(), "Preference-Applied", "respond-async")
		wantStatus(t, f.do("GET", redrivesPath, ""), 200, wantStatus(t, w, http.StatusAccepted, `"waiting":1`))
	}
	for _, prefer := range []string{"", "wait=10", "respond-asynchronously", "return=minimal"} {
		w := newFixture(message(idA)).open().do("POST", target, `{"reason":"r"}`, "Prefer", prefer)
		wantStatus(t, w, 200) // status 200 means that the server waited for the end of the redrive
		wantHeader(t, w.Header(), "Preference-Applied", "")
	}
	// No topic can have a name with NUL, so nothing is retried.
	w := newFixture().open().do("POST", "/api/v1/dlq/%00/retry-all", "", "Prefer", "respond-async")
	wantStatus(t, w, 200, `{"retried":0,`)
}

// A retry-all takes the options that bound the harm of a redrive, by the rules of a redrive.
func TestRetryAll_Options(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).open()
	wantStatus(t, f.do("POST", "/api/v1/dlq/orders.dlq.v1/retry-all", `{"canary":2,"max_return_share":0.1}`, "Prefer", "respond-async"), 202,
		`"options":{"canary":2,"canary_wait":"1m0s","rate":null,"max_failure_share":null,"max_return_share":0.1,"min_sample":20,`, `"bounds":[]`)
	for body, field := range map[string]string{
		`{"max_return_share":1.5}`: "max_return_share", `{"min_sample":5}`: "min_sample", `{"canary":-1}`: "canary", `{"rate":5}`: "rate",
	} {
		wantStatus(t, f.do("POST", "/api/v1/dlq/orders.dlq.v1/retry-all", body), 400, `"field":"`+field+`"`)
	}
}

// Only a redrive that waits for outcomes can be continued.
func TestRedrive_Continue(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).open()
	wantStatus(t, f.do("POST", redrivesPath, `{"ids":["`+idA.String()+`"],"max_return_share":0.1,"min_sample":1,"canary_wait":"30s"}`), 202, `"canary_wait":"30s"`)
	one := redrivesPath + "/" + redrive.String()
	wantStatus(t, f.do("POST", one+"/continue", ""), 409, "is running and does not wait for outcomes")
	b, err := f.memory.LeaseBatch(t.Context(), redrive, idB, time.Minute)
	check.NoError(t, err)
	check.Must(f.memory.Admit(t.Context(), repository.Lease{RedriveID: redrive, Number: b.Number, Owner: idB}, "orders", 1, 1))(t)
	wantStatus(t, f.do("GET", one, ""), 200, `"bounds":[{"topic":"orders","bound":1,"unknown":1,"known":0,"waiting":true,"lifted":null}]`)
	wantStatus(t, f.do("POST", one+"/continue", `{"reason":"it starts tomorrow"}`), 200,
		`"bounds":[{"topic":"orders","bound":null,"unknown":1,"known":0,"waiting":false,"lifted":"continued"}]`)
}
