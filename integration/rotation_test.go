package integration_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestRotatedPassword: the password of the programs' database role changes repeatedly, while operators and the ingester
// need new connections all the time. For a short time, the password file contains an older or a newer password than the
// server knows, or only a part of it.
func TestRotatedPassword(t *testing.T) {
	t.Parallel()
	const secret = "cormorant" // no message of PostgreSQL contains this word; the log may contain such messages
	r := newRotation(t, "DLQ_DATABASE_USER=%s", "DLQ_DATABASE_PASSWORD_FILE=%s")
	role := r.role(secret + "0")
	r.begin(role, secret+"0\n")
	rounds := pick(6, 40)
	for n := range rounds {
		password := fmt.Sprintf("%s%d", secret, n+1)
		change := func() { r.admin(`ALTER ROLE ` + role + ` PASSWORD '` + password + `'`) }
		switch n % 3 {
		case 0: // PostgreSQL gets the new password before the file does
			change()
			r.lasting(500 * time.Millisecond)
		case 1: // the file gets the new password before PostgreSQL does
			r.write(password + "\n")
			r.lasting(500 * time.Millisecond)
			change()
		case 2: // the server's password changes while the file is half written
			r.write("")
			r.lasting(500 * time.Millisecond)
			r.write(password[:4])
			change()
			r.lasting(100 * time.Millisecond)
		}
		r.write(password + "\n")
		r.working()
	}
	r.end(rounds, secret)
}

// TestRotatedRole: the credentials file names one database role after another. While programs still use the old role,
// its connections are terminated or left open, and the role is dropped.
func TestRotatedRole(t *testing.T) {
	t.Parallel()
	r := newRotation(t, "DLQ_DATABASE_USER=%.0s", "DLQ_DATABASE_CREDENTIALS_FILE=%s")
	both := func(role string) string { return "username: " + role + "\npassword: secret" + role + "\n" }
	old := r.role("")
	r.begin(old, both(old))
	rounds := pick(6, 40)
	for n := range rounds {
		next := r.role("")
		if n%3 == 2 {
			r.write(both(next)[:20])
			r.lasting(200 * time.Millisecond)
		}
		r.write(both(next))
		if n%3 == 1 { // in every third round, programs first have time to connect as the new role
			r.lasting(500 * time.Millisecond)
		}
		if n%2 == 0 {
			r.admin(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '` + old + `'`)
		}
		r.admin(`REASSIGN OWNED BY ` + old + ` TO CURRENT_USER`)
		r.admin(`DROP OWNED BY ` + old)
		r.admin(`DROP ROLE ` + old)
		old = next
		r.working()
	}
	r.end(rounds, "secret")
}

// rotation is a system under load whose programs read their database credentials from a file.
type rotation struct {
	*letters
	file, env string // path of the credentials file, and the format of the setting that names it
	user      string // format of the setting that names the role
	api       *process
	programs  []*process
	roles     int

	stop        chan struct{}
	load        sync.WaitGroup
	answered    atomic.Int64
	again, lost atomic.Int64
	// first: answers of the API to requests that failed; final: answers to their repetitions, if these failed too
	first, final sync.Map
}

func newRotation(t *testing.T, user, env string) *rotation {
	t.Helper()
	r := &rotation{letters: newLetters(newSystem(t)), user: user, env: env, stop: make(chan struct{})}
	r.file = filepath.Join(t.TempDir(), "credentials")
	return r
}

// role creates a database role for the programs. If password is "", the password is "secret" followed by the role's
// name.
func (r *rotation) role(password string) string {
	r.t.Helper()
	r.roles++
	name := strings.ReplaceAll(fmt.Sprintf("%s_%d", r.prefix, r.roles), "-", "_")
	if password == "" {
		password = "secret" + name
	}
	r.admin(`CREATE ROLE ` + name + ` LOGIN PASSWORD '` + password + `' IN ROLE dlq_rw`)
	r.t.Cleanup(func() { r.admin(`DROP ROLE IF EXISTS ` + name) })
	return name
}

func (r *rotation) admin(statement string) {
	r.t.Helper()
	if _, err := r.db.Exec(statement); err != nil {
		r.t.Errorf("%.20s: %v", statement, err)
	}
}

func (r *rotation) write(content string) {
	r.t.Helper()
	check.NoError(r.t, os.WriteFile(r.file, []byte(content), 0o600))
}

// lasting waits for a random time, at most the parameter most.
func (r *rotation) lasting(most time.Duration) { lasting(time.Duration(r.random.Int64N(int64(most)))) }

// begin starts the programs and the load.
func (r *rotation) begin(role, content string) {
	r.t.Helper()
	r.write(content)
	env := []string{
		fmt.Sprintf(r.user, role), fmt.Sprintf(r.env, r.file),
		"DLQ_DATABASE_CONN_MAX_LIFETIME=400ms", "DLQ_DATABASE_MAX_IDLE_CONNS=2",
	}
	r.stored(600) // these 600 messages are for the operators; the programs that stored them used another role
	r.forgetPassword()
	r.api = r.startReady("api", impatient(env...)...)
	r.programs = []*process{r.api, r.startReady("ingester", env...)}
	ids := r.somePending(600)
	for n := range 4 {
		r.load.Go(func() { r.operator(rand.New(rand.NewPCG(uint64(n), 0)), ids) })
	}
}

// forgetPassword removes the password from the configuration, which must not have both a password
// and a file.
func (r *rotation) forgetPassword() {
	r.t.Helper()
	text := readFile(r.t, r.config)
	without := regexp.MustCompile(`, password: "[^"]*"`).ReplaceAllString(text, "")
	if without == text {
		r.t.Fatal("the configuration has no password")
	}
	check.NoError(r.t, os.WriteFile(r.config, []byte(without), 0o600))
}

// operator is a client that reads and retries the messages with these ids through the API until the test ends the load.
func (r *rotation) operator(random *rand.Rand, ids []string) {
	for n := 0; ; n++ {
		select {
		case <-r.stop:
			return
		default:
		}
		id := ids[random.IntN(len(ids))]
		key := fmt.Sprintf("%s-%d-%d", r.prefix, random.Uint64(), n)
		switch n % 5 {
		case 0:
			r.ask(http.MethodGet, "/api/v1/dlq/"+r.source)
		case 1:
			r.ask(http.MethodGet, "/api/v1/dlq/messages/"+id)
		case 2:
			r.ask(http.MethodGet, "/api/v1/messages?status=PENDING&topic="+url.QueryEscape(r.source))
		case 3:
			r.ask(http.MethodGet, "/api/v1/messages?count=exact")
		case 4:
			r.ask(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", "Idempotency-Key", key)
		}
	}
}

// ask sends a request to the API, and repeats the request once after a failure.
func (r *rotation) ask(method, path string, header ...string) {
	status, body := r.api.try(method, path, nil, header...)
	if !broken(status) {
		r.answered.Add(1)
		return
	}
	r.again.Add(1)
	r.first.Store(fmt.Sprintf("%s %s = %d %.200s", method, path, status, body), true)
	status, body = r.api.try(method, path, nil, header...)
	if broken(status) {
		r.lost.Add(1)
		r.final.Store(fmt.Sprintf("%s %s = %d %.200s", method, path, status, body), true)
	}
}

func broken(status int) bool { return status == 0 || status >= 500 }

// working checks that both programs work with the current credentials: the API must answer further requests, and the
// ingester must store further dead letters.
func (r *rotation) working() {
	r.t.Helper()
	r.produce(60, nil)
	before := r.answered.Load()
	eventually(r.t, "the API answers", func() bool { return r.answered.Load() >= before+20 })
	r.waitStored()
}

// end stops the load and checks the results. A request that failed again when it was repeated fails the test, and so do
// more repetitions than rounds.
func (r *rotation) end(rounds int, secret string) {
	r.t.Helper()
	close(r.stop)
	r.load.Wait()
	r.t.Logf("%d rotations: %d requests were answered, %d asked again, %d lost", rounds, r.answered.Load(), r.again.Load(), r.lost.Load())
	r.first.Range(func(what, _ any) bool { r.t.Logf("asked again: %s", what); return true })
	r.final.Range(func(what, _ any) bool { r.t.Errorf("lost: %s", what); return true })
	if n, most := r.again.Load(), int64(rounds); n > most {
		r.t.Errorf("%d requests were sent twice, want at most one a rotation", n)
	}
	if least := int64(20 * rounds); r.answered.Load() < least {
		r.t.Errorf("%d requests were answered, want at least %d", r.answered.Load(), least)
	}
	r.retryTheRest(r.api)
	r.wantStoredOnce()
	r.wantResolvedOnce()
	for _, p := range r.programs {
		p.wantRunning()
		p.stop()
		if log := readFile(r.t, p.log); strings.Contains(log, secret) {
			r.t.Errorf("a password is in the log of %s", p.name)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	check.NoError(t, err)
	return string(text)
}
