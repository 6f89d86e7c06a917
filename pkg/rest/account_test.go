package rest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/budget"
)

// nothingHeld checks that all reservations were released.
func nothingHeld(t *testing.T, s *Server) {
	t.Helper()
	for name, b := range map[string]*budget.Budget{"pages": s.limits.pages, "exports": s.limits.exports, "bytes": s.limits.bytes, "large": s.limits.large} {
		if used, waiting := b.Held(); used != 0 || waiting != 0 {
			t.Errorf("%s: %d are held, %d wait, want nothing", name, used, waiting)
		}
	}
}

// stuck is a client that does not read its answer until the test calls reads.
type stuck struct {
	httptest.ResponseRecorder
	reading chan struct{}
	left    chan struct{} // closed when the answer is complete
}

// asks sends a request of a client that does not read its answer. It returns when the request waits: for the client or
// for a limit.
func (f *fixture) asks(r *http.Request) *stuck {
	w := &stuck{*httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	go func() {
		f.server.Handler().ServeHTTP(w, r)
		close(w.left)
	}()
	synctest.Wait()
	return w
}

// reads lets the client read its answer.
func (w *stuck) reads() {
	close(w.reading)
	<-w.left
}

func (w *stuck) Write(b []byte) (int, error) {
	<-w.reading
	return w.ResponseRecorder.Write(b)
}

// namedBy authenticates a principal whose name is the token.
type namedBy struct{}

func (namedBy) Authenticate(_ context.Context, r *http.Request) (auth.Principal, error) {
	name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	return auth.Principal{Name: name, Grants: []auth.Grant{{Role: auth.Admin, All: true}}}, nil
}

// A client that asks for many answers and reads none of them does not stop the answers to other clients. It gets an
// error that names the limit that it has reached.
func TestPages_ReadersThatReadNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []Option
		as      func(r *http.Request, who string)
	}{
		"by address": {nil, func(r *http.Request, who string) { r.RemoteAddr = who + ":1" }},
		"by principal": {
			[]Option{WithAuth(namedBy{}, "token")},
			func(r *http.Request, who string) { r.Header.Set("Authorization", "Bearer "+who) },
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(message(idA)).with(c.options...).open()
			page := func(who string) *http.Request {
				r := httptest.NewRequest(http.MethodGet, "/api/v1/messages?limit=1000", http.NoBody)
				c.as(r, who)
				return r
			}
			var held []*stuck
			for range 54 {
				held = append(held, f.asks(page("10.0.0.1")))
			}
			if n, _ := f.server.limits.pages.Held(); n != 32 {
				t.Errorf("%s: %d answers are under way, want half of 64", name, n)
			}
			for range 10 {
				wantStatus(t, f.send(page("10.0.0.2")), 200)
			}
			for _, w := range held {
				close(w.reading)
			}
			for _, w := range held {
				if <-w.left; w.Code != 200 {
					t.Errorf("%s: got %d, want 200: who waited is served in time", name, w.Code)
				}
			}
			nothingHeld(t, f.server)

			held = nil
			for range 32 {
				held = append(held, f.asks(page("10.0.0.1")))
			}
			w := f.send(page("10.0.0.1"))
			wantEnvelope(t, w, http.StatusTooManyRequests, "max_pages")
			wantHeader(t, w.Header(), "Retry-After", "5")
			for _, w := range held {
				w.reads()
			}
			nothingHeld(t, f.server)
		})
	}
}

// pageStore answers searches with a number of messages of a given size, reserves their bytes in the context's
// reservation as stores do, and counts the searches.
func pageStore(s *fake.Store, messages int, bytes int64) (store *hooked, reads *int) {
	store, reads = hook(s), new(int)
	store.search = func(ctx context.Context, _ repository.SearchQuery) (found repository.SearchPage, err error) {
		*reads++
		for range messages {
			if err := repository.ReserveMemory(ctx, bytes); err != nil {
				return repository.SearchPage{}, err
			}
			found.Messages = append(found.Messages, message(uuid.New()))
		}
		return found, nil
	}
	return store, reads
}

// A request for a large page waits for memory after its read of the store has ended, and then reads the page again. The
// request is refused when no memory is free for a long time. A page that is larger than a client's share is refused
// after one read.
func TestPages_LargeOnesWaitForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		store, reads := pageStore(f.memory, 16, 1<<20)
		f.over(store).undocumented().open()
		bytes := f.server.limits.bytes
		page := func() *http.Request {
			r := httptest.NewRequest(http.MethodGet, "/api/v1/messages", http.NoBody)
			r.RemoteAddr = "10.0.0.1:1"
			return r
		}
		held := []*stuck{f.asks(page()), f.asks(page()), f.asks(page())}
		if got, _ := bytes.Held(); got != 48<<20 || *reads != 3 {
			t.Errorf("%d bytes are held after %d reads, want those of three pages", got, *reads)
		}
		wantEnvelope(t, f.from("10.0.0.1:2", "GET", "/api/v1/messages"), http.StatusTooManyRequests, "buffer_bytes")
		check.True(t, *reads == 4, "%d reads, want one for what was refused", *reads)
		wantStatus(t, f.from("10.0.0.2:2", "GET", "/api/v1/messages"), 200)
		*reads = 0
		fourth := f.asks(page()) // this request waits for memory
		if got, _ := bytes.Held(); *reads != 1 || got > 50<<20 {
			t.Errorf("%d reads and %d bytes while one waits, want one read and what was held before", *reads, got)
		}
		held[0].reads()
		synctest.Wait()
		check.True(t, *reads == 2, "%d reads, want another once there is room", *reads)
		for _, w := range append(held[1:], fourth) {
			w.reads()
		}
		check.True(t, fourth.Code == 200, "who waited gets %d %s, want 200", fourth.Code, fourth.Body)
		nothingHeld(t, f.server)

		store, reads = pageStore(f.memory, 1, 1<<30)
		f.over(store).open()
		if wantEnvelope(t, f.from("10.0.0.1:2", "GET", "/api/v1/messages"), http.StatusServiceUnavailable); *reads != 1 {
			t.Errorf("%d reads, want one", *reads)
		}
		nothingHeld(t, f.server)
	})
}

// However a request ends, all its reservations are released.
func TestAccount_IsClosedHoweverARequestEnds(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(context.Context) error{
		"error":   func(context.Context) error { return errBroken },
		"panic":   func(context.Context) error { panic("at the store") },
		"timeout": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"hung": func(ctx context.Context) error {
			<-ctx.Done()
			<-time.After(time.Minute)
			return ctx.Err()
		},
	} {
		for _, path := range []string{"/api/v1/messages", "/api/v1/export"} {
			for _, leaves := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture()
					store := hook(f.memory)
					store.search = func(ctx context.Context, _ repository.SearchQuery) (repository.SearchPage, error) {
						if err := repository.ReserveMemory(ctx, 8<<20); err != nil {
							return repository.SearchPage{}, err
						}
						return repository.SearchPage{}, fail(ctx)
					}
					store.export = func(ctx context.Context, _ repository.ExportQuery, _ func(*entity.Message) error) error {
						return fail(ctx)
					}
					f.over(store).open()
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					if leaves {
						time.AfterFunc(time.Second, leave)
					}
					f.server.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, http.NoBody).WithContext(ctx))
					<-time.After(2 * time.Minute) // two minutes of fake time, in which the store that hangs returns
					synctest.Wait()
					if t.Failed() {
						t.Log(name, path, leaves)
					}
					nothingHeld(t, f.server)
				})
			}
		}
	}
}

// A page of the console has one slot, however often it calls the API.
func TestMount_CallsOfOnePageAreOneAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).undocumented()
	f.cfg.MaxPages = 1 // with one slot, a request that takes a second slot for itself would wait for ever
	f.open().server.Mount(http.MethodGet, "/page", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			wantStatus(t, f.send(httptest.NewRequest(http.MethodGet, "/api/v1/messages", http.NoBody).WithContext(r.Context())), 200)
		}
		if n, _ := f.server.limits.pages.Held(); n != 1 {
			t.Errorf("the page has %d slots, want 1 until it is written", n)
		}
		w.WriteHeader(http.StatusOK)
	}))
	wantStatus(t, f.do("GET", "/page", ""), 200)
	nothingHeld(t, f.server)
}

// When several values are larger than half of one client's share, only one of them is in memory at a time, until it is
// written.
func TestPayload_LargeOnesOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, fetched := newFixture(message(idA, func(m *entity.Message) {
			m.Record = entity.Record{State: entity.ValueOverLimit, Size: 300_000_000, SHA256: make([]byte, 32)}
		})), 0
		f.with(WithFetcher(fetching{value: []byte("large"), fetched: &fetched})).open()
		value := func(from string) *http.Request {
			r := httptest.NewRequest(http.MethodGet, oneA+"/payload", http.NoBody)
			r.RemoteAddr = from + ":1"
			return r
		}
		first := f.asks(value("10.0.0.1"))
		wantEnvelope(t, f.send(value("10.0.0.2")), http.StatusServiceUnavailable)
		second := f.asks(value("10.0.0.2"))
		check.True(t, fetched == 1, "%d values were fetched while one is on its way, want 1", fetched)
		wantStatus(t, f.from("10.0.0.2:1", "GET", "/api/v1/messages"), 200) // other reads are answered while the second value waits
		first.reads()
		second.reads()
		if second.Code != 200 || fetched != 2 {
			t.Errorf("who waited gets %d after %d fetches, want the value", second.Code, fetched)
		}
		nothingHeld(t, f.server)
	})
}
