package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// allocated returns the number of bytes that a call allocates, freed or not. It counts those of the whole program, so
// tests that use it must not run in parallel.
func allocated(do func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// nested returns JSON that is small, and large when it is formatted.
func nested(depth, values int) string {
	return strings.Repeat("[", depth) + strings.Repeat("1,", values) + "1" + strings.Repeat("]", depth)
}

func TestPrettyPayloadTakesNoMoreMemoryThanItShows(t *testing.T) {
	payload := nested(200, 150_000)
	s := site(t, withMessage(t, fmt.Sprintf(`"payload":%s,"payload_size":%d`, payload, len(payload))))
	var body string
	took := allocated(func() { body = get(t, s, messagePath+"?view=pretty").Body.String() })
	if most := int64(24 << 20); took > most {
		t.Errorf("got %d bytes allocated for %d of payload, want at most %d", took, len(payload), most)
	}
	mustHave(t, readable(t, body), "shown unformatted", "The first 64.0 KiB", strings.Repeat("[", 200)+"1,1,1")
}

func TestCheckOfAnEditTakesNoMoreMemoryThanItCompares(t *testing.T) {
	for name, typed := range map[string]string{
		"Deep":      nested(5000, 20_000),
		"ManyLines": strings.Repeat("x\n", 200_000),
		"ManyPairs": strings.Repeat("x\ny\n", 1020),
		"LongLine":  strings.Repeat("x", 1<<20),
	} {
		written := strconv.Quote(strings.Repeat("1,\n", 2039))
		e := editOf(t, fmt.Sprintf(`"payload":%s,"payload_size":%d`, written, len(written)), []byte(written))
		e.form.Set("payload", typed)
		var w string
		took := allocated(func() { w = e.post().Body.String() })
		if most := int64(48 << 20); took > most {
			t.Errorf("%s: got %d bytes allocated for %d typed, want at most %d", name, took, len(typed), most)
		}
		mustHave(t, w, `id="difference"`)
	}
}

func TestDifferenceTakesTwoBytesForAPair(t *testing.T) {
	a, b := make([]string, 1000), make([]string, 1000)
	for i := range a {
		a[i], b[i] = fmt.Sprint("a", i), fmt.Sprint("b", i)
	}
	if took := allocated(func() { difference(a, b) }); took > 3<<20 {
		t.Errorf("got %d bytes allocated, want at most %d", took, 3<<20)
	}
}

func TestLayoutIsThatOfTheLibrary(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, ` [ ] `, `{"a":{},"b":[ ],"c":[{"d":[1,2.5e3,-0,true,null]}]}`, `"a\"b\\"`, `12`, " {\n\"a b\" :\t\"{[,:]}\\u00e4\" , \"\" : [ [ ] , 1 ] }\r\n", `[1 ,true ]`,
	} {
		var want bytes.Buffer
		check.NoError(t, json.Indent(&want, []byte(strings.TrimSpace(text)), "", "  "))
		got, used, ok := laidOut([]byte(text), 1000)
		if got != want.String() || used != len(text) || !ok {
			t.Errorf("%q: got %q of %d bytes, %t, want %q", text, got, used, ok, want.String())
		}
		for most := range len(got) {
			if part, _, _ := laidOut([]byte(text), most); part != got[:most] {
				t.Errorf("%q: got %q for %d bytes, want %q", text, part, most, got[:most])
			}
		}
	}
	for _, bad := range []string{"", "{", "[1,]", "nul"} {
		if got, _, ok := laidOut([]byte(bad), 1000); ok {
			t.Errorf("%q: got %q, want none", bad, got)
		}
	}
}

func TestPatchIsLaidOutAsFarAsItIsShown(t *testing.T) {
	t.Parallel()
	for patch, want := range map[string]string{"": "", "null": "", "[": "", `[{"op":"x"}]`: "[\n  {\n    \"op\": \"x\"\n  }\n]"} {
		if got := (redriveOptions{Patch: json.RawMessage(patch)}).Patched(); got != want {
			t.Errorf("%s: got %q, want %q", patch, got, want)
		}
	}
	got := redriveOptions{Patch: json.RawMessage(nested(200, 10_000))}.Patched()
	if len(got) > maxPatch+10 || !strings.HasSuffix(got, "…") {
		t.Errorf("got %d bytes, want at most %d and that there is more", len(got), maxPatch)
	}
}

func TestPrettyPayloadThatIsLargeShowsItsBeginning(t *testing.T) {
	t.Parallel()
	payload := `["` + strings.Repeat("ä", 100_000) + `"]`
	a := withMessage(t, fmt.Sprintf(`"payload":%s,"payload_size":%d`, payload, len(payload)))
	body := get(t, site(t, a), messagePath+"?view=pretty").Body.String()
	mustHave(t, body, "[\n  &#34;ää", "The first 64.0 KiB")
	mustNotHave(t, body, "\ufffd", "shown unformatted")
}

// The common beginning and end of both sides are not compared; the result must be the same as if they were.
func TestDifferenceOfPartsIsThatOfTheWhole(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	some := func() string {
		lines := make([]string, random.IntN(14))
		for i := range lines {
			lines[i] = string("abc"[random.IntN(3)])
		}
		return strings.Join(lines, "\n")
	}
	for range 3000 {
		both, end := some(), some()
		a, b := both+some()+end, both+some()+end
		count := func(lines []diffLine) (marks string) {
			n := map[string]int{}
			for _, l := range lines {
				n[l.Mark]++
			}
			return fmt.Sprint(n["-"], n["+"])
		}
		whole := difference(strings.Split(a, "\n"), strings.Split(b, "\n"))
		got := textDifference(a, b)
		check.Require(t, count(got) == count(whole), "%q, %q: got %v, want as many lines marked as in %v", a, b, got, whole)
		at, lines := 0, strings.Split(a, "\n")
		for _, l := range got {
			switch l.Mark {
			case "…":
				var n int
				if _, err := fmt.Sscan(l.Text, &n); err != nil {
					t.Fatal(err)
				}
				at += n
			case "", "-":
				if at >= len(lines) || lines[at] != l.Text {
					t.Fatalf("%q, %q: got %v, want line %d to be one of the first", a, b, got, at)
				}
				at++
			}
		}
		if at != len(lines) {
			t.Fatalf("%q, %q: got %v, of %d lines, want all %d shown or counted", a, b, got, at, len(lines))
		}
	}
}

func TestAnswersAreNotReadWithoutEnd(t *testing.T) {
	t.Parallel()
	taken := 0
	chunk := strings.Repeat(" ", 1<<20)
	a := newAPI(t).says("GET /api/v1/audit", sends(chunk, 100, &taken))
	w := get(t, site(t, a), "/audit")
	if taken > maxAnswer || w.Code < http.StatusBadRequest {
		t.Errorf("got status %d after %d bytes, want an error after %d", w.Code, taken, maxAnswer)
	}
	taken = 0
	a.says("GET /api/v1/audit", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		sends(chunk, 100, &taken)(w, r)
	}))
	if get(t, site(t, a), "/audit"); taken > maxProblem {
		t.Errorf("got %d bytes of an error read, want at most %d", taken, maxProblem)
	}
}

func TestFormThatCannotBeReadDoesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, body string
		status     int
	}{
		"TooLarge":      {"application/x-www-form-urlencoded", "do=send&payload=" + strings.Repeat("x", maxForm), http.StatusRequestEntityTooLarge},
		"NotAForm":      {"application/json", `{"reason":"x"}`, http.StatusBadRequest},
		"NoKind":        {"", "reason=x", http.StatusBadRequest},
		"InParts":       {"multipart/form-data; boundary=x", "--x--", http.StatusBadRequest},
		"BadlyEncoded":  {"application/x-www-form-urlencoded", "reason=%zz", http.StatusBadRequest},
		"WithACharset":  {"application/x-www-form-urlencoded; charset=utf-8", "reason=x", http.StatusSeeOther},
		"NothingInside": {"", "", http.StatusSeeOther},
	} {
		a := withMessage(t, "").says("POST "+messageAPI+"/retry", raw(`{}`))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, messagePath+"/retry", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.kind)
		w := httptest.NewRecorder()
		site(t, a).ServeHTTP(w, r)
		sent, _ := a.wasAsked("POST " + messageAPI + "/retry")
		if w.Code != c.status || (len(sent) > 0) != (c.status == http.StatusSeeOther) {
			t.Errorf("%s: got status %d and %d orders, want %d", name, w.Code, len(sent), c.status)
		}
	}
}
