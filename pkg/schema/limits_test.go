package schema

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// transport answers requests with a handler, without a network, so that a test may use the clock of synctest.
type transport struct{ handler http.Handler }

func (t transport) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	defer func() {
		if recover() != nil { // the handler ended the connection
			err = errors.New("the connection was closed")
		}
	}()
	w := httptest.NewRecorder()
	t.handler.ServeHTTP(w, r)
	return w.Result(), r.Context().Err()
}

// hour runs a test with a registry and with the clock of synctest. The registry's good ids are 1, 2 and 100 to 999.
func hour(t *testing.T, test func(t *testing.T, f *fixture), change ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Registries = []RegistryConfig{{Name: "main", URL: "http://registry"}}
		for _, c := range change {
			c(&cfg)
		}
		check.NoError(t, cfg.Validate())
		f := &fixture{fake: newFake(), metrics: prometheus.NewRegistry()}
		f.Decoder = check.Must(New(cfg, f.metrics))(t)
		client := &http.Client{Transport: limitedTransport{transport{f.fake}, 2*cfg.MaxBytes + 1<<20}}
		f.registries[0].client = check.Must(sr.NewClient(sr.URLs("http://registry"), sr.HTTPClient(client)))(t)
		for id := 100; id < 1000; id++ {
			f.fake.answers[fmt.Sprintf("/schemas/ids/%d", id)] = object{"schema": oldAvro}
		}
		test(t, f)
	})
}

// answers makes the registry answer with a status for ids that the function choose gives one for.
func (f *fixture) answer(choose func(id int) int) {
	f.fake.failing(func(w http.ResponseWriter, r *http.Request) bool {
		var id int
		if n, _ := fmt.Sscanf(r.URL.Path, "/schemas/ids/%d", &id); n == 0 {
			return false
		}
		status := choose(id)
		if status != 0 {
			w.WriteHeader(status)
		}
		return status != 0
	})
}

func always(status int) func(int) int { return func(int) int { return status } }

// hostile gives the status to the ids from 10,000 on.
func hostile(status int) func(int) int {
	return func(id int) int {
		if id >= 10_000 {
			return status
		}
		return 0
	}
}

// from decodes a value with the schema id in a record of a dead-letter topic.
func (f *fixture) from(t *testing.T, topic string, id int) entity.Decoded {
	t.Helper()
	m := message(framed(uint32(id), 2))
	m.Source.Topic = topic
	return f.decode(t, m)
}

func (f *fixture) wantDecoded(t *testing.T, topic string, id int, what string) {
	t.Helper()
	d := f.from(t, topic, id)
	check.Equal(t, string(d.JSON), `{"status":"PAYED"}`, "%s: JSON of id %d (%s)", what, id, d.Reason)
}

func (f *fixture) wantUnavailable(t *testing.T, topic string, id int, temporary bool, reason string) {
	t.Helper()
	d := f.from(t, topic, id)
	check.True(t, d.Omitted == entity.SchemaUnavailable && d.Temporary == temporary && strings.Contains(d.Reason, reason),
		"id %d: got %+v, want the reason %q", id, d, reason)
}

// asked returns the paths of the requests since the last call.
func (f *fixture) asked() []string {
	f.fake.mu.Lock()
	defer f.fake.mu.Unlock()
	paths := f.fake.requests
	f.fake.requests = nil
	return paths
}

func ids(list ...int) (paths []string) {
	for _, id := range list {
		paths = append(paths, fmt.Sprintf("/schemas/ids/%d", id))
	}
	return paths
}

// pass lets time go by.
func pass(d time.Duration) { <-time.After(d) }

func TestAnswerAboutOneIDBelongsToThatID(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 403, 404, 405, 406, 409, 410, 422, 431, 451, 499} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			hour(t, func(t *testing.T, f *fixture) {
				f.answer(hostile(status))
				reason := fmt.Sprintf("status %d", status)
				if status == 404 {
					reason = "does not have it"
				}
				for id := 10_000; id < 10_009; id++ {
					f.wantUnavailable(t, "alpha", id, false, reason)
				}
				f.wantDecoded(t, "beta", 1, "after nine such ids")
				f.asked()
				for range 100 { // not quite a minute
					f.wantUnavailable(t, "alpha", 10_000, false, reason)
					pass(500 * time.Millisecond)
				}
				check.Len(t, f.asked(), 0, "requests for an id that the registry refused")
				pass(20 * time.Second)
				f.wantUnavailable(t, "alpha", 10_000, false, reason)
				check.Equal(t, f.asked(), ids(10_000), "requests after a minute")
				check.Equal(t, testutil.ToFloat64(f.registries[0].lookups.WithLabelValues("main", "failed")), 0, "failed look-ups")
			})
		})
	}
}

func TestIDsThatCannotExistAreNotAsked(t *testing.T) {
	t.Parallel()
	hour(t, func(t *testing.T, f *fixture) {
		f.answer(hostile(422))
		for _, id := range []int{1 << 31, 1<<32 - 1} {
			f.wantUnavailable(t, "alpha", id, false, "at most 2147483647")
		}
		check.Len(t, f.asked(), 0, "requests")
		f.wantUnavailable(t, "alpha", 1<<31-1, false, "status 422")
		check.Equal(t, f.asked(), ids(1<<31-1), "requests for the largest id")
	})
}

// A registry counts as down only when three different questions failed within ten seconds, and none was answered.
func TestWhenARegistryIsDown(t *testing.T) {
	t.Parallel()
	failing := func(status int) func(*testing.T, *fixture) {
		return func(t *testing.T, f *fixture) {
			f.answer(always(status))
			for id := range 3 {
				f.from(t, "alpha", 10_000+id)
			}
		}
	}
	for name, tt := range map[string]struct {
		down bool
		do   func(t *testing.T, f *fixture)
	}{
		"500": {true, failing(500)},
		"502": {true, failing(502)},
		"503": {true, failing(503)},
		"401": {true, failing(401)},
		"407": {true, failing(407)},
		"302": {true, failing(302)},
		"403": {false, failing(403)},
		"422": {false, failing(422)},
		"408": {false, failing(408)},
		"429": {false, failing(429)},
		"Closed": {true, func(t *testing.T, f *fixture) {
			f.fake.failing(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
			for id := range 3 {
				f.from(t, "alpha", 10_000+id)
			}
		}},
		"Silent": {true, func(t *testing.T, f *fixture) {
			f.fake.failing(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
			for id := range 3 {
				f.from(t, "alpha", 10_000+id)
			}
			pass(time.Second)
		}},
		"Garbage": {true, func(t *testing.T, f *fixture) {
			f.fake.failing(func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write([]byte("<html>")); return true })
			for id := range 3 {
				f.from(t, "alpha", 10_000+id)
			}
		}},
		"TwoIDs": {false, func(t *testing.T, f *fixture) {
			f.answer(always(502))
			for i := range 100 {
				f.from(t, "alpha", 10_000+i%2)
				pass(100 * time.Millisecond)
			}
		}},
		"ThreeIDsInElevenSeconds": {false, func(t *testing.T, f *fixture) {
			f.answer(always(502))
			for id := range 10 {
				f.from(t, "alpha", 10_000+id)
				pass(5500 * time.Millisecond)
			}
		}},
		"OneAnswer": {false, func(t *testing.T, f *fixture) {
			f.wantDecoded(t, "beta", 1, "before")
			f.answer(always(502))
			for id := range 90 {
				f.from(t, "alpha", 10_000+id)
				pass(100 * time.Millisecond)
			}
		}},
		"OneAnswerLongAgo": {true, func(t *testing.T, f *fixture) {
			f.wantDecoded(t, "beta", 1, "before")
			f.answer(always(502))
			pass(11 * time.Second)
			for id := range 3 {
				f.from(t, "alpha", 10_000+id)
			}
		}},
		"UnknownIDIsAnAnswer": {false, func(t *testing.T, f *fixture) {
			f.answer(func(id int) int { return map[bool]int{true: 404, false: 502}[id%5 == 0] })
			for id := range 90 {
				f.from(t, "alpha", 10_000+id)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hour(t, func(t *testing.T, f *fixture) {
				tt.do(t, f)
				want := 0.0
				if tt.down {
					want = 1
				}
				check.Equal(t, f.registries[0].health.down(), want, "dlq_schema_registry_down")
				check.Equal(t, check.Must(testutil.GatherAndCount(f.metrics, "dlq_schema_registry_down"))(t), 1, "metrics")
				f.asked()
				f.answer(hostile(502))
				if tt.down {
					f.wantUnavailable(t, "alpha", 100, true, "registry main: the registry")
					check.Len(t, f.asked(), 0, "requests while the registry is down")
				} else {
					f.wantDecoded(t, "alpha", 100, "a registry that works")
				}
			})
		})
	}
}

// While a registry is down, one question every five seconds tries it, and all others get the fault at once.
func TestRegistryThatIsDownGetsOneQuestionEveryFiveSeconds(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"ThatWasAnsweredBefore": true, "ThatIsAskedNext": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hour(t, func(t *testing.T, f *fixture) {
				if known {
					f.wantDecoded(t, "beta", 1, "before")
					pass(time.Minute)
				}
				f.answer(always(503))
				for id := range 3 {
					f.from(t, "alpha", 10_000+id)
				}
				f.asked()
				for second := range 5 {
					var paths []string
					for i := range 500 { // five seconds
						began := time.Now()
						f.wantUnavailable(t, "alpha", 20_000+1000*second+i, true, "status 503")
						check.Equal(t, time.Since(began), 0, "time until the fault")
						paths = append(paths, f.asked()...)
						pass(10 * time.Millisecond)
					}
					switch {
					case second == 0:
						check.Len(t, paths, 0, "questions in the first five seconds")
					case known:
						check.Equal(t, paths, ids(1), "questions in five seconds")
					default:
						check.Equal(t, paths, ids(20_000+1000*second), "questions in five seconds")
					}
				}
				f.answer(always(0))
				pass(5 * time.Second)
				f.wantDecoded(t, "alpha", 100, "the registry works again")
				f.wantDecoded(t, "beta", 101, "the registry works again")
			})
		})
	}
}

// Ids for which the registry fails switch it off for nobody, however many they are: before it counts as down it is asked
// what it has answered before, and without that another topic's question.
func TestManyHostileIDsSwitchNothingOff(t *testing.T) {
	t.Parallel()
	for name, cached := range map[string]bool{"WithACache": true, "WithAnEmptyCache": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hour(t, func(t *testing.T, f *fixture) {
				if cached {
					f.wantDecoded(t, "beta", 1, "before")
					pass(time.Minute)
				}
				f.answer(hostile(502))
				for id := range 1000 {
					f.from(t, "alpha", 10_000+id)
					if id%10 == 9 {
						if cached {
							f.wantDecoded(t, "alpha", 300+id/10, "in the topic that is attacked")
						}
						f.wantDecoded(t, "beta", 100+id/10, "under attack")
						pass(downWindow + time.Second) // the last answer is too old to count
					}
				}
			})
		})
	}
}

// A question that was answered once and fails now does not keep the registry down for the others.
func TestQuestionThatWasAnsweredOnceDoesNotDecide(t *testing.T) {
	t.Parallel()
	hour(t, func(t *testing.T, f *fixture) {
		f.wantDecoded(t, "alpha", 100, "before")
		pass(time.Minute)
		f.answer(func(id int) int { return map[bool]int{true: 502}[id == 100 || id >= 10_000] })
		for tick := range 200 {
			f.from(t, "alpha", 10_000+tick)
			if tick >= 30 { // after 7.5 seconds
				f.wantDecoded(t, "beta", 101+tick, "under attack")
			}
			pass(250 * time.Millisecond)
		}
	})
}

// A question that fails is put off: for a second, then for twice as long, up to five minutes. Lists, pages, edits and
// the search index share that memory.
func TestQuestionThatFailsIsPutOff(t *testing.T) {
	t.Parallel()
	for _, status := range []int{408, 429, 500, 502} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			hour(t, func(t *testing.T, f *fixture) {
				f.answer(hostile(status))
				m := message(framed(10_000, 2))
				var times []time.Duration
				for began, left := time.Now(), time.Hour; left > 0; left -= 100 * time.Millisecond {
					d := f.decode(t, m)
					f.Reader(t.Context()).Complete(m, entity.ValuePart, &d)
					_, _, err := f.Compare(t.Context(), m, entity.ValuePart, nil)
					_, _, err2 := f.Encode(t.Context(), m, entity.ValuePart, []byte(`{}`), entity.EncodeTarget{}, "payload")
					check.True(t, d.Temporary && errors.Is(err, entity.ErrUnavailable) && errors.Is(err2, entity.ErrUnavailable), "got %+v, %v, %v", d, err, err2)
					for range f.asked() {
						times = append(times, time.Since(began).Round(time.Second))
					}
					pass(100 * time.Millisecond)
				}
				var want []time.Duration
				at := time.Duration(0)
				for pause := time.Second; at < time.Hour; pause = min(2*pause, 5*time.Minute) {
					want = append(want, at)
					at += pause
				}
				check.Equal(t, len(times), len(want), "questions in an hour")
				for i := range min(len(times), len(want)) {
					late := times[i] - want[i]
					check.True(t, late >= 0 && late <= time.Duration(i+1)*200*time.Millisecond+time.Second, "question %d came after %s, not %s", i, times[i], want[i])
				}
				f.answer(always(0))
				f.fake.answers["/schemas/ids/10000"] = object{"schema": oldAvro}
				pass(5 * time.Minute)
				f.wantDecoded(t, "alpha", 10_000, "after five minutes")
			})
		})
	}
}

// A reference that fails puts off the schema that refers to it.
func TestReferenceThatFailsIsPutOffWithItsSchema(t *testing.T) {
	t.Parallel()
	hour(t, func(t *testing.T, f *fixture) {
		f.fake.failing(func(w http.ResponseWriter, r *http.Request) bool {
			fails := strings.HasPrefix(r.URL.Path, "/subjects/b/")
			if fails {
				w.WriteHeader(502)
			}
			return fails
		})
		for range 600 { // a minute
			f.wantUnavailable(t, "alpha", 7, true, "502")
			pass(100 * time.Millisecond)
		}
		check.True(t, f.fake.count() <= 14, "%d requests in a minute", f.fake.count())
		f.wantDecoded(t, "beta", 1, "another schema")
	})
}

// Retry-After slows the questions to one a second for its time; none is given up.
func TestRetryAfterSlowsTheRegistryDown(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]func() string{
		"Seconds": func() string { return "20" },
		"Date":    func() string { return time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hour(t, func(t *testing.T, f *fixture) {
				f.fake.failing(func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path != "/schemas/ids/10000" {
						return false
					}
					w.Header().Set("Retry-After", header())
					w.WriteHeader(http.StatusTooManyRequests)
					return true
				})
				f.wantUnavailable(t, "alpha", 10_000, true, "429")
				f.asked()
				next := 100
				rate := func() float64 {
					for began := time.Now(); time.Since(began) < 15*time.Second; next++ {
						f.from(t, "beta", next)
					}
					return float64(len(f.asked())) / 15
				}
				slow := rate()
				check.True(t, slow > 0.9 && slow < 1.2, "%.2f questions a second in the time of Retry-After", slow)
				pass(5 * time.Second)
				fast := rate()
				check.True(t, fast > 9 && fast < 11, "%.2f questions a second after it", fast)
			})
		})
	}
}

// A topic whose records name very many schemas delays the look-ups of another topic by one turn, also of the same
// schemas.
func TestTopicsShareTheLookups(t *testing.T) {
	t.Parallel()
	hour(t, func(t *testing.T, f *fixture) {
		ctx, cancel := context.WithCancel(t.Context())
		var attackers sync.WaitGroup
		for worker := range 50 {
			attackers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					id := 10_000 + worker*1000 + i
					if worker == 0 {
						id = 100 + i%100 // the ids of the other topic
					}
					m := message(framed(uint32(id), 2))
					m.Source.Topic = "alpha"
					f.Reader(ctx).Decode(m, entity.ValuePart, 99)
					pass(10 * time.Millisecond)
				}
			})
		}
		pass(10 * time.Second)
		f.asked()
		began := time.Now()
		for id := 190; id < 240; id++ {
			one := time.Now()
			f.wantDecoded(t, "beta", id, "under attack")
			check.True(t, time.Since(one) <= 300*time.Millisecond, "the look-up of id %d took %s", id, time.Since(one))
		}
		perSecond := float64(len(f.asked())) / time.Since(began).Seconds()
		check.True(t, perSecond < 10.5, "%.1f questions a second", perSecond)
		cancel()
		attackers.Wait()
		pass(time.Minute) // until the look-ups in the background have ended
	})
}

// A topic that asks for the schema of another topic, behind many others, does not make it wait, and the schema is
// requested once.
func TestSchemaOfTwoTopicsIsNotLateForOne(t *testing.T) {
	t.Parallel()
	hour(t, func(t *testing.T, f *fixture) {
		var attackers sync.WaitGroup
		for i := range maxWaiting + 10 {
			attackers.Go(func() { f.from(t, "alpha", 10_000+i) })
			synctest.Wait() // so that the order is that of i
		}
		attackers.Wait() // the first ones used what a second allows
		for i := range maxWaiting - 8 {
			attackers.Go(func() { f.from(t, "alpha", 20_000+i) })
			synctest.Wait()
		}
		attackers.Go(func() { f.wantDecoded(t, "alpha", 500, "behind others") })
		synctest.Wait()
		began := time.Now()
		f.wantDecoded(t, "beta", 500, "under attack")
		check.True(t, time.Since(began) <= 200*time.Millisecond, "the look-up took %s", time.Since(began))
		attackers.Wait()
		requests := 0
		for _, path := range f.asked() {
			if path == "/schemas/ids/500" {
				requests++
			}
		}
		check.Equal(t, requests, 1, "requests for the schema")
	})
}

// Of very many look-ups of a topic at once, most fail at once, so that they use no memory.
func TestFewLookupsOfATopicWait(t *testing.T) {
	t.Parallel()
	hour(t, func(t *testing.T, f *fixture) {
		var all sync.WaitGroup
		var refused atomic.Int64
		for i := range 1000 {
			all.Go(func() {
				began := time.Now()
				if d := f.from(t, "alpha", 10_000+i); strings.Contains(d.Reason, "too many look-ups") && time.Since(began) == 0 {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		check.True(t, refused.Load() >= 900, "%d of 1000 look-ups failed at once", refused.Load())
	})
}

// What a page has no time left for is looked up in the background, and shown by the next page.
func TestPageWithoutTimeLooksUpForTheNextOne(t *testing.T) {
	t.Parallel()
	hour(t, func(t *testing.T, f *fixture) {
		f.fake.failing(func(_ http.ResponseWriter, r *http.Request) bool {
			silent := r.URL.Path == "/schemas/ids/10000"
			if silent {
				<-r.Context().Done()
			}
			return silent
		})
		page := f.Reader(t.Context())
		page.Decode(message(framed(10_000)), entity.ValuePart, 99)
		for id := range uint32(10) {
			d := page.Decode(message(framed(100+id, 2)), entity.ValuePart, 99)
			check.True(t, d.Temporary, "got %+v", d)
		}
		synctest.Wait()
		check.Len(t, f.asked(), 11, "requests of the page, and in the background")
		for id := range 10 {
			f.wantDecoded(t, "orders", 100+id, "the next page")
		}
		check.Len(t, f.asked(), 0, "requests of the next page")
	})
}

// The runs of an attack on a registry that has ids which it refuses. Nobody else notices it.
func TestRecordsWithRefusedIDsHarmNobody(t *testing.T) {
	t.Parallel()
	for _, status := range []int{403, 404, 422, 429, 502} {
		for name, attack := range map[string]func(t *testing.T, f *fixture, tick int){
			// a viewer polls one message, four times a second
			"OneViewer": func(t *testing.T, f *fixture, _ int) { f.from(t, "alpha", 10_000) },
			// one record every 2.5 s, each of which is read again and again
			"OneRecordEach2.5s": func(t *testing.T, f *fixture, tick int) {
				for i := range tick/10 + 1 {
					f.from(t, "alpha", 10_000+i)
				}
			},
			"100Records": func(t *testing.T, f *fixture, tick int) {
				for i := range 10 {
					f.from(t, "alpha", 10_000+(10*tick+i)%100)
				}
			},
		} {
			t.Run(fmt.Sprint(name, status), func(t *testing.T) {
				t.Parallel()
				hour(t, func(t *testing.T, f *fixture) {
					f.answer(hostile(status))
					for tick := range 400 {
						attack(t, f, tick)
						if tick%4 == 0 {
							f.wantDecoded(t, "beta", 100+tick/4, name)
						}
						pass(250 * time.Millisecond)
					}
				})
			})
		}
	}
}

func TestTopicPushesOutOnlyItsOwnSchemas(t *testing.T) {
	t.Parallel()
	c := newCache(1000)
	now := time.Now()
	has := func(topic string, keys ...string) (found []string) {
		for _, key := range keys {
			if _, ok := c.get(key, topic, now); ok {
				found = append(found, key)
			}
		}
		return found
	}
	for i := range 3 {
		c.put(cached{key: fmt.Sprint("b", i), topic: "beta", value: i, size: 100})
	}
	c.put(cached{key: "shared", topic: "alpha", value: 1, size: 50})
	check.Len(t, has("beta", "shared"), 1, "values that another topic looked up")
	for i := range 100 {
		c.put(cached{key: fmt.Sprint("a", i), topic: "alpha", value: i, size: 90 + i})
		if i == 4 {
			check.Len(t, has("beta", "shared"), 1, "values that another topic looked up")
		}
	}
	check.Equal(t, has("beta", "b0", "b1", "b2", "shared"), []string{"b0", "b1", "b2", "shared"}, "values of beta")
	check.Equal(t, has("alpha", "a98", "a99", "a1"), []string{"a98", "a99"}, "values of alpha")

	c.put(cached{key: "large", topic: "alpha", value: 1, size: 251})
	check.Len(t, has("alpha", "large"), 0, "values above a quarter of the cache")
	check.Equal(t, has("beta", "b0", "b1", "b2", "shared"), []string{"b0", "b1", "b2", "shared"}, "values of beta")
	check.Equal(t, has("alpha", "a98", "a99", "a1"), []string{"a98", "a99"}, "values of alpha")
	later := now.Add(time.Hour)
	c.put(cached{key: "old", topic: "gamma", value: 1, size: 100, expires: later})
	_, ok := c.get("old", "gamma", later)
	check.True(t, !ok && c.size <= 1000 && c.sizes["gamma"] == 0, "an expired value stays")
}

// A schema that is too large with all that it imports, or that would be too large when it is compiled, has a fault. The
// fault is remembered and names the limit.
func TestSchemasThatAreTooLarge(t *testing.T) {
	t.Parallel()
	fields := func(n int) string {
		return `{"type":"record","name":"R","fields":[` + each(n, ",", `{"name":"f%d","type":["null","int"]}`) + `]}`
	}
	text := func(bytes int) string {
		return `{"type":"record","name":"R","fields":[],"doc":"` + strings.Repeat("x", bytes) + `"}`
	}
	for name, tt := range map[string]struct {
		schema  string
		imports int // bytes of each of four imported schemas
		reason  string
	}{
		"Long":              {text(1_500_000), 0, "schemas.max_bytes: 1048576 bytes"},
		"JustRight":         {text(1_000_000), 0, ""},
		"LongImports":       {text(10), 300_000, "schemas.max_bytes: 1048576 bytes"},
		"ImportsInTheLimit": {text(10), 200_000, ""},
		"ManyFields":        {fields(25_000), 0, "memory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hour(t, func(t *testing.T, f *fixture) {
				refs := []object{}
				for i := range 4 * min(1, tt.imports) {
					path := fmt.Sprintf("/subjects/import%d/versions/1", i)
					refs = append(refs, object{"name": fmt.Sprint("I", i), "subject": fmt.Sprint("import", i), "version": 1})
					f.fake.answers[path] = object{"version": 1, "schema": strings.Replace(text(tt.imports), `"R"`, fmt.Sprintf(`"I%d"`, i), 1)}
				}
				f.fake.answers["/schemas/ids/9"] = object{"schema": tt.schema, "references": refs}
				m := message(framed(9))
				for range 3 {
					d := f.decode(t, m)
					if tt.reason == "" {
						check.Equal(t, string(d.JSON), "{}", "JSON (%s)", d.Reason)
					} else {
						check.True(t, d.Omitted == entity.SchemaError && strings.Contains(d.Reason, tt.reason), "got %+v", d)
					}
				}
				check.Len(t, f.asked(), 1+len(refs), "questions")
			})
		})
	}
}

// slowly makes the compilation of the schemas with these ids last until the channel is closed.
func (f *fixture) slowly(ids ...int) (end chan struct{}) {
	end = make(chan struct{})
	f.registries[0].compiler.build = func(id int, guid string, s source) *compiled {
		if slices.Contains(ids, id) {
			<-end
		}
		return compile(id, guid, s)
	}
	return end
}

// A schema that takes too long to compile has a fault, which is remembered. It delays only large schemas of others, and
// those for two seconds.
func TestSchemaThatTakesTooLongToCompile(t *testing.T) {
	t.Parallel()
	hour(t, func(t *testing.T, f *fixture) {
		end := f.slowly(100, 101, 102)
		began := time.Now()
		d := f.from(t, "alpha", 100)
		check.True(t, d.JSON == nil && time.Since(began) == 2*time.Second, "after %s: got %+v", time.Since(began), d)
		f.from(t, "alpha", 101) // waits for the end of the other
		began = time.Now()
		f.wantDecoded(t, "beta", 103, "beside a slow compilation")
		check.Equal(t, time.Since(began), 0, "time of another topic")
		pass(time.Minute)
		for range 100 {
			d := f.from(t, "alpha", 100)
			check.True(t, d.Omitted == entity.SchemaError && strings.Contains(d.Reason, "2s to compile"), "got %+v", d)
			pass(time.Second)
		}
		check.Len(t, f.asked(), 3, "questions")
		close(end)
		synctest.Wait()
		f.wantDecoded(t, "alpha", 101, "after the slow compilation")
		check.Equal(t, f.from(t, "alpha", 100).Omitted, entity.SchemaError, "the slow schema")
		pass(time.Hour)
		f.wantDecoded(t, "alpha", 100, "after an hour")
	})
}

// A large schema is compiled beside the small ones of other topics. Other large ones wait two seconds for it.
func TestLargeSchemaDoesNotDelaySmallOnes(t *testing.T) {
	t.Parallel()
	hour(t, func(t *testing.T, f *fixture) {
		large := `{"type":"record","name":"R","fields":[` + each(1000, ",", `{"name":"f%d","type":["null","int"]}`) + `]}`
		f.fake.answers["/schemas/ids/10000"] = object{"schema": large}
		f.fake.answers["/schemas/ids/10001"] = object{"schema": large}
		end := f.slowly(10_000)
		defer close(end)
		go f.from(t, "alpha", 10_000)
		pass(10 * time.Millisecond)
		began := time.Now()
		f.wantDecoded(t, "beta", 100, "beside a large one")
		check.Equal(t, time.Since(began), 0, "time of a small schema")
		d := f.from(t, "beta", 10_001)
		check.True(t, d.Omitted == entity.SchemaError && time.Since(began) == 1990*time.Millisecond, "a large one after %s: %+v", time.Since(began), d)
	})
}

// A topic with very many schemas that take long to compile does not keep others from compiling theirs.
func TestTopicsShareTheCompiler(t *testing.T) {
	t.Parallel()
	hour(t, func(t *testing.T, f *fixture) {
		f.registries[0].compiler.build = func(id int, guid string, s source) *compiled {
			pass(100 * time.Millisecond)
			return compile(id, guid, s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var attackers sync.WaitGroup
		for worker := range 50 {
			attackers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					m := message(framed(uint32(100+(worker*50+i)%500), 2))
					m.Source.Topic = "alpha"
					f.Reader(ctx).Decode(m, entity.ValuePart, 99)
					pass(10 * time.Millisecond)
				}
			})
		}
		pass(10 * time.Second)
		for id := 700; id < 720; id++ {
			began := time.Now()
			f.wantDecoded(t, "beta", id, "under attack")
			check.True(t, time.Since(began) <= 500*time.Millisecond, "id %d took %s", id, time.Since(began))
		}
		cancel()
		attackers.Wait()
		pass(time.Minute)
	})
}
