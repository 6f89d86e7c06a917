package rest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

// nothingHeld checks that all reservations were given back.
func nothingHeld(t *testing.T, s *Server) {
	t.Helper()
	for name, b := range map[string]*budget{"pages": s.limits.pages, "exports": s.limits.exports, "bytes": s.limits.bytes, "large": s.limits.large} {
		if b.used != 0 || len(b.by) != 0 || len(b.waiting) != 0 {
			t.Errorf("%s: %d are held by %v, %d wait, want nothing", name, b.used, b.by, len(b.waiting))
		}
	}
}

// One client has half of a budget at most, all together have all of it, and who waits
// gets what is given back.
func TestBudgetIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, ctx := newBudget(10), t.Context()
		wait := func(who string, n int64, want error, after time.Duration) {
			t.Helper()
			began := time.Now()
			if err := b.wait(ctx, who, n); !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("%d for %s: %v, want %v", n, who, err, want)
			}
			if took := time.Since(began); took != after {
				t.Errorf("%d for %s took %s, want %s", n, who, took, after)
			}
		}
		wait("a", 5, nil, 0)
		wait("a", 1, errShare, patience)
		wait("b", 6, errFull, 0) // more than a share never comes
		wait("b", 3, nil, 0)
		wait("c", 3, errFull, patience)
		if b.try("c", 3) || !b.try("c", 2) {
			t.Error("try takes what is not there, or not what is")
		}

		granted := make(chan string)
		for _, who := range []string{"a", "c"} { // a's share is used up, and holds up nobody
			go func() {
				if err := b.wait(ctx, who, 2); err == nil {
					granted <- who
				}
			}()
			synctest.Wait()
		}
		b.release("b", 3)
		if who := <-granted; who != "c" {
			t.Errorf("%s got what b had, want c", who)
		}
		b.release("a", 5)
		if who := <-granted; who != "a" {
			t.Errorf("%s got its share, want a", who)
		}

		left, leave := context.WithCancel(ctx)
		gone := make(chan error)
		go func() { gone <- b.wait(left, "d", 5) }()
		synctest.Wait()
		leave()
		if err := <-gone; !errors.Is(err, context.Canceled) || len(b.waiting) != 0 {
			t.Errorf("who left: %v, %d wait, want the context's error and nobody", err, len(b.waiting))
		}
		b.release("a", 2)
		b.release("c", 4)
		if b.used != 0 || len(b.by) != 0 {
			t.Errorf("%d are used by %v, want none", b.used, b.by)
		}
	})
}

// stuck is a client that reads nothing until it is released.
type stuck struct {
	httptest.ResponseRecorder
	reading chan struct{}
}

func newStuck() *stuck {
	return &stuck{*httptest.NewRecorder(), make(chan struct{})}
}

func (w *stuck) Write(b []byte) (int, error) {
	<-w.reading
	return w.ResponseRecorder.Write(b)
}

// namedBy takes the token for the name.
type namedBy struct{}

func (namedBy) Authenticate(_ context.Context, r *http.Request) (auth.Principal, error) {
	name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	return auth.Principal{Name: name, Grants: []auth.Grant{{Role: auth.Admin, All: true}}}, nil
}

// However many answers a client does not read, others are served, and it is told what
// is in the way.
func TestPages_ReadersThatReadNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []Option
		as      func(r *http.Request, who string)
	}{
		"by address":   {nil, func(r *http.Request, who string) { r.RemoteAddr = who + ":1" }},
		"by principal": {[]Option{WithAuth(namedBy{}, "token")}, func(r *http.Request, who string) { r.Header.Set("Authorization", "Bearer "+who) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(message(idA))
			f.options = c.options
			f.open()
			ask := func(w http.ResponseWriter, who string) {
				r := httptest.NewRequest(http.MethodGet, "/api/v1/messages?limit=1000", http.NoBody)
				c.as(r, who)
				f.server.Handler().ServeHTTP(w, r)
			}
			held, done := make([]*stuck, 54), make(chan struct{})
			for i := range held {
				held[i] = newStuck()
				go func() { ask(held[i], "10.0.0.1"); done <- struct{}{} }()
			}
			synctest.Wait()
			if n := f.server.limits.pages.used; n != 32 {
				t.Errorf("%s: %d answers are under way, want half of 64", name, n)
			}
			for range 10 {
				w := httptest.NewRecorder()
				if ask(w, "10.0.0.2"); w.Code != 200 {
					t.Errorf("%s: another client gets %d %s", name, w.Code, w.Body)
				}
			}
			for _, w := range held {
				close(w.reading)
			}
			for range held {
				<-done
			}
			codes := map[int]int{}
			for _, w := range held {
				codes[w.Code]++
			}
			if codes[200] != 54 { // those that waited were served in time
				t.Errorf("%s: answers %v, want all 200", name, codes)
			}
			nothingHeld(t, f.server)

			blocked := make([]*stuck, 32)
			for i := range blocked {
				blocked[i] = newStuck()
				go func() { ask(blocked[i], "10.0.0.1"); done <- struct{}{} }()
			}
			synctest.Wait()
			w := httptest.NewRecorder()
			ask(w, "10.0.0.1")
			if e := wantEnvelope(t, w, http.StatusTooManyRequests, codeRateLimited); len(e.Details) != 1 || e.Details[0].Field != "max_pages" {
				t.Errorf("%s: details %+v, want max_pages", name, e.Details)
			}
			wantHeader(t, w.Header(), "Retry-After", "5")
			for _, w := range blocked {
				close(w.reading)
				<-done
			}
			nothingHeld(t, f.server)
		})
	}
}

// pageStore answers searches with so many messages of so many bytes, taken from the
// room of the context as stores do.
type pageStore struct {
	*fake.Store
	messages, bytes int
	reads           *int
}

func (s pageStore) Search(ctx context.Context, _ repository.SearchQuery) (repository.SearchPage, error) {
	*s.reads++
	var found []entity.Message
	for range s.messages {
		if err := repository.TakeRoom(ctx, int64(s.bytes)); err != nil {
			return repository.SearchPage{}, err
		}
		found = append(found, message(uuid.New()))
	}
	return repository.SearchPage{Messages: found}, nil
}

// A large page waits for room without holding the store meanwhile, reads again, and is
// refused when there is none for long.
func TestPages_LargeOnesWaitForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, reads := newFixture(), 0
		f.store = pageStore{f.memory, 16, 1 << 20, &reads}
		f.open()
		f.undescribed = true
		bytes := f.server.limits.bytes
		var held []*stuck
		done := make(chan struct{})
		hold := func() {
			w := newStuck()
			held = append(held, w)
			go func() {
				r := httptest.NewRequest(http.MethodGet, "/api/v1/messages", http.NoBody)
				r.RemoteAddr = "10.0.0.1:1"
				f.server.Handler().ServeHTTP(w, r)
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		for range 3 {
			hold()
		}
		if got := bytes.used; got != 48<<20 || reads != 3 {
			t.Errorf("%d bytes are held after %d reads, want those of three pages", got, reads)
		}
		w := f.from("10.0.0.1:2", "GET", "/api/v1/messages")
		if e := wantEnvelope(t, w, http.StatusTooManyRequests, codeRateLimited); len(e.Details) != 1 || e.Details[0].Field != "buffer_bytes" {
			t.Errorf("details %+v, want buffer_bytes", e.Details)
		}
		if reads != 4 {
			t.Errorf("%d reads, want one for what was refused", reads)
		}
		if w := f.from("10.0.0.2:2", "GET", "/api/v1/messages"); w.Code != 200 {
			t.Errorf("another client gets %d", w.Code)
		}
		reads = 0
		hold() // the fourth of the client waits
		if got := bytes.used; reads != 1 || got > 50<<20 {
			t.Errorf("%d reads and %d bytes while one waits, want one read and what was held before", reads, got)
		}
		close(held[0].reading)
		<-done
		synctest.Wait()
		if reads != 2 {
			t.Errorf("%d reads, want another once there is room", reads)
		}
		for _, w := range held[1:] {
			close(w.reading)
			<-done
		}
		if held[3].Code != 200 {
			t.Errorf("who waited gets %d %s, want 200", held[3].Code, held[3].Body)
		}
		nothingHeld(t, f.server)
	})
}

// An answer that is larger than any share is refused at once, and not for ever tried
// again.
func TestPages_LargerThanAllRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, reads := newFixture(), 0
		f.store = pageStore{f.memory, 1, 1 << 30, &reads}
		f.open()
		w := f.from("10.0.0.1:2", "GET", "/api/v1/messages")
		wantEnvelope(t, w, http.StatusServiceUnavailable, codeUnavailable)
		if reads != 1 {
			t.Errorf("%d reads, want one", reads)
		}
		nothingHeld(t, f.server)
	})
}

// failingStore fails in one of the ways there are.
type failingStore struct {
	*fake.Store
	fail func(ctx context.Context) error
}

func (s failingStore) Search(ctx context.Context, _ repository.SearchQuery) (repository.SearchPage, error) {
	if err := repository.TakeRoom(ctx, 8<<20); err != nil {
		return repository.SearchPage{}, err
	}
	return repository.SearchPage{}, s.fail(ctx)
}

func (s failingStore) Export(ctx context.Context, _ repository.ExportQuery, _ func(*entity.Message) error) error {
	return s.fail(ctx)
}

// Whatever ends a request, all that it held is given back.
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
					f.store = failingStore{f.memory, fail}
					f.open()
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					if leaves {
						time.AfterFunc(time.Second, leave)
					}
					r := httptest.NewRequest(http.MethodGet, path, http.NoBody).WithContext(ctx)
					f.server.Handler().ServeHTTP(httptest.NewRecorder(), r)
					<-time.After(2 * time.Minute) // of the bubble: the store comes back
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

// A page of the console has one reservation, however often it calls the API, and none
// when it does not.
func TestMount_CallsOfOnePageAreOneAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	f.cfg.MaxPages = 1 // a second one would wait for the first
	f.open()
	f.server.Mount(http.MethodGet, "/page", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			inner := httptest.NewRequest(http.MethodGet, "/api/v1/messages", http.NoBody).WithContext(r.Context())
			answer := httptest.NewRecorder()
			if f.server.Handler().ServeHTTP(answer, inner); answer.Code != 200 {
				t.Errorf("a call within the page gets %d %s", answer.Code, answer.Body)
			}
		}
		if n := f.server.limits.pages.used; n != 1 {
			t.Errorf("the page has %d slots, want 1 until it is written", n)
		}
		w.WriteHeader(http.StatusOK)
	}))
	w := httptest.NewRecorder()
	f.server.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/page", http.NoBody))
	if w.Code != 200 {
		t.Errorf("the page gets %d", w.Code)
	}
	nothingHeld(t, f.server)
}

// fetcherFunc fetches values.
type fetcherFunc func(ctx context.Context, m entity.Message) (entity.Record, error)

func (f fetcherFunc) Fetch(ctx context.Context, m entity.Message) (entity.Record, error) {
	return f(ctx, m)
}

// Values that are larger than what one client may have are in memory one at a time,
// until they are written.
func TestPayload_LargeOnesOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(message(idA, func(m *entity.Message) {
			m.Record = entity.Record{State: entity.ValueOverLimit, Size: 300_000_000, SHA256: make([]byte, 32)}
		}))
		fetched := 0
		f.options = []Option{WithFetcher(fetcherFunc(func(context.Context, entity.Message) (entity.Record, error) {
			fetched++
			return entity.Record{Value: []byte("large")}, nil
		}))}
		f.open()
		ask := func(w http.ResponseWriter, from string) {
			r := httptest.NewRequest(http.MethodGet, "/api/v1/dlq/messages/"+idA.String()+"/payload", http.NoBody)
			r.RemoteAddr = from + ":1"
			f.server.Handler().ServeHTTP(w, r)
		}
		first, second, done := newStuck(), httptest.NewRecorder(), make(chan struct{})
		go func() { ask(first, "10.0.0.1"); done <- struct{}{} }()
		synctest.Wait()
		refused := httptest.NewRecorder()
		ask(refused, "10.0.0.2")
		wantEnvelope(t, refused, http.StatusServiceUnavailable, codeUnavailable)
		go func() { ask(second, "10.0.0.2"); done <- struct{}{} }()
		synctest.Wait()
		if fetched != 1 {
			t.Errorf("%d values were fetched while one is on its way, want 1", fetched)
		}
		if w := f.from("10.0.0.2:1", "GET", "/api/v1/messages"); w.Code != 200 {
			t.Errorf("beside a large value another read gets %d", w.Code)
		}
		close(first.reading)
		<-done
		<-done
		if second.Code != 200 || fetched != 2 {
			t.Errorf("who waited gets %d after %d fetches, want the value", second.Code, fetched)
		}
		nothingHeld(t, f.server)
	})
}
