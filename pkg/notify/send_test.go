package notify

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func aNotification(changes ...func(*repository.Event)) repository.Notification {
	e := repository.Event{
		Kind: repository.GroupNew, At: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC), Object: uuid.MustParse("0198c5b6-0000-8000-8000-000000000001"),
		Topics: []string{"orders"}, Class: "java.io.IOException", Title: "out of\nstock",
	}
	for _, change := range changes {
		change(&e)
	}
	return notificationOf(e)
}

func notificationOf(e repository.Event) repository.Notification {
	n := repository.NewNotification{
		ID: uuid.MustParse("0198c5b6-0000-7000-8000-000000000002"), Sink: "ops", Kind: e.Kind, Object: objectOf(e), First: e.At, Last: e.At,
	}
	add(&n, e)
	return repository.Notification{NewNotification: n, Attempts: 1}
}

func webhookTo(t *testing.T, r *receiver, secretFile string) *webhook {
	t.Helper()
	return &webhook{
		target: target{client: newClient(time.Minute), url: r.URL}, words: words{source: "/dlq-manager", console: "https://dlq.example.com"},
		secretFile: secretFile, now: func() time.Time { return time.Unix(1700000000, 0) },
	}
}

func TestWebhook_SendsACloudEvent(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	check.NoError(t, webhookTo(t, r, "").send(t.Context(), aNotification()))
	got := r.want(t, "one", 1)[0]
	kind, signature := got.header.Get("Content-Type"), got.header.Get(headerSignature)
	if kind != "application/cloudevents+json; charset=utf-8" || signature != "" {
		t.Errorf("Content-Type = %q, %s = %q, want none without a secret", kind, headerSignature, signature)
	}
	var event, want any
	check.NoError(t, json.Unmarshal([]byte(got.body), &event))
	_ = json.Unmarshal([]byte(`{
		"specversion": "1.0", "id": "0198c5b6-0000-7000-8000-000000000002", "source": "/dlq-manager",
		"type": "com.github.dlq-manager.group_new", "subject": "0198c5b6-0000-8000-8000-000000000001",
		"time": "2026-05-06T07:08:09Z", "datacontenttype": "application/json",
		"data": {
			"kind": "group_new", "summary": "New error group in orders: java.io.IOException: out of stock", "events": 1,
			"first_at": "2026-05-06T07:08:09Z", "last_at": "2026-05-06T07:08:09Z", "topics": ["orders"],
			"group": {"id": "0198c5b6-0000-8000-8000-000000000001", "class": "java.io.IOException", "title": "out of stock"},
			"url": "https://dlq.example.com/groups/0198c5b6-0000-8000-8000-000000000001"
		}
	}`), &want)
	if !reflect.DeepEqual(event, want) {
		t.Errorf("got %s", got.body)
	}
}

func TestWebhook_Signs(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	first, second := []byte("sixteen or more b"), []byte("the old one")
	file := secretFile(t, "whsec_"+base64.StdEncoding.EncodeToString(first)+"\n\nthe old one\n")
	check.NoError(t, webhookTo(t, r, file).send(t.Context(), aNotification()))
	got := r.want(t, "one", 1)[0]
	id, at, signature := got.header.Get(headerID), got.header.Get(headerTimestamp), got.header.Get(headerSignature)
	if want := sign([][]byte{first, second}, id, "1700000000", []byte(got.body)); at != "1700000000" || signature != want {
		t.Errorf("got %s at %s, want %s with each secret, at the seconds", signature, at, want)
	}
	// The key, the id, the time, the body and the signature are the example in the specification of Standard Webhooks.
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	example := sign([][]byte{key, key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if err != nil || example != want+" "+want {
		t.Errorf("got %s, %v, want %s twice", example, err, want)
	}
	for _, file := range []string{"/does/not/exist", secretFile(t, "\n"), secretFile(t, "whsec_***\n")} {
		if err := webhookTo(t, r, file).send(t.Context(), aNotification()); err == nil {
			t.Errorf("send with %s: no error", file)
		}
	}
	r.want(t, "unsigned", 0)
}

func TestTarget_TrustsNoAnswer(t *testing.T) {
	t.Parallel()
	r, elsewhere := newReceiver(t), newReceiver(t)
	r.answers(http.StatusTemporaryRedirect, "", "Location", elsewhere.URL)
	err := webhookTo(t, r, "").send(t.Context(), aNotification())
	var refused *refusedError
	if !errors.As(err, &refused) || refused.status != http.StatusTemporaryRedirect {
		t.Errorf("got %v, want it refused", err)
	}
	elsewhere.want(t, "the other place", 0)
	r.answers(http.StatusBadRequest, "no\x1b[31m"+strings.Repeat("x", 10<<20))
	err = webhookTo(t, r, "").send(t.Context(), aNotification())
	if err == nil || len(err.Error()) > 400 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("got %.500v, want a short error", err)
	}
	if err == nil || !strings.Contains(err.Error(), "400, with a body of 4096 bytes or more") {
		t.Errorf("got %v, want the status and the length", err)
	}
	hang := make(chan struct{})
	defer close(hang)
	silent := newReceiver(t)
	silent.answer = func(http.ResponseWriter) { <-hang }
	hook := webhookTo(t, silent, "")
	hook.target.client = newClient(50 * time.Millisecond)
	if err := hook.send(t.Context(), aNotification()); err == nil || strings.Contains(err.Error(), silent.URL) {
		t.Errorf("got %v, want an error that does not show the URL", err)
	}
}

// A receiver may repeat the request's address, which is a secret, in any encoding, and anywhere in its answer.
func TestTarget_AnswersAreNotQuoted(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"Body":          "HTTP/1.1 500 Oops\r\nContent-Length: 9\r\n\r\n/s%65CRET",
		"Status":        "HTTP/1.1 /s%65CRET\r\n\r\n",
		"Reason":        "HTTP/1.1 503 /s%65CRET\r\n\r\n",
		"NoHTTP":        "/s%65CRET\r\n\r\n",
		"Header":        "HTTP/1.1 200 OK\r\n/s%65CRET\r\n\r\n",
		"ContentLength": "HTTP/1.1 200 OK\r\nContent-Length: /s%65CRET\r\n\r\n",
		"Encoding":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: /s%65CRET\r\n\r\n",
		"Location":      "HTTP/1.1 302 Found\r\nLocation: http://[/s%65CRET\r\n\r\n",
		"RetryAfter":    "HTTP/1.1 429 Wait\r\nRetry-After: /s%65CRET\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t)
			r.answer = func(w http.ResponseWriter) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					_, _ = io.WriteString(conn, answer)
					_ = conn.Close()
				}
			}
			err := webhookTo(t, r, "").send(t.Context(), aNotification())
			if err == nil || strings.Contains(err.Error(), "CRET") {
				t.Errorf("got %v, want an error that quotes nothing", err)
			}
		})
	}
}

// The HTTP library logs what it reads from an idle connection, so a connection must not be kept.
func TestTarget_NothingIsReadAfterTheAnswer(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	hook := webhookTo(t, r, "")
	for range 2 {
		check.NoError(t, hook.send(t.Context(), aNotification()))
	}
	for _, g := range r.want(t, "two", 2) {
		check.Equal(t, g.header.Get("Connection"), "close", "the header Connection")
	}
}

func TestTarget_ReadsTheURLsFileEveryTime(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	hook := webhookTo(t, r, "")
	hook.target.url, hook.target.urlFile = "", secretFile(t, "http://127.0.0.1:1\n")
	write := func(text string) {
		t.Helper()
		check.NoError(t, os.WriteFile(hook.target.urlFile, []byte(text), 0o600))
	}
	if err := hook.send(t.Context(), aNotification()); err == nil {
		t.Error("got it sent where nothing listens")
	}
	write(r.URL)
	if err := hook.send(t.Context(), aNotification()); err != nil {
		t.Error(err)
	}
	r.want(t, "the new place", 1)
	write("http://example.com/secret")
	if err := hook.send(t.Context(), aNotification()); err == nil || strings.Contains(err.Error(), "example.com") {
		t.Errorf("got %v, want it refused without showing the URL", err)
	}
}

func TestSlack(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	s := slack{target: target{client: newClient(time.Minute), url: r.URL}, words: words{console: "https://dlq.example.com"}}
	err := s.send(t.Context(), aNotification(func(e *repository.Event) {
		e.Title = "<!channel> & <https://evil.example|click> @here \u202efdp\n*bold*"
	}))
	check.NoError(t, err)
	var got map[string]any
	check.NoError(t, json.Unmarshal([]byte(r.taken()[0].body), &got))
	want := "New error group in orders: java.io.IOException: &lt;!channel&gt; &amp; &lt;https://evil.example|click&gt; @\u200bhere fdp *bold*" +
		"\nhttps://dlq.example.com/groups/0198c5b6-0000-8000-8000-000000000001"
	if got["text"] != want || got["mrkdwn"] != false || got["unfurl_links"] != false {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	finished := repository.RedriveEnd{Action: "retry", Selected: 9, Succeeded: 5, Failed: 1, InDoubt: 2, Skipped: 1}
	stopped := repository.RedriveEnd{Action: "retry", Note: "too much failed", Selected: 9, Failed: 9}
	for want, e := range map[string]repository.Event{
		"New error group: out of stock": {Kind: repository.GroupNew, Title: "out of stock"},
		"Error group failed again in a, b, c and 1 more topics after all its messages were resolved: E": {
			Kind: repository.GroupRegressed, Class: "E", Topics: []string{"a", "b", "c", "d"},
		},
		"Spike in orders: 900 dead letters in about a quarter of an hour, usually 2.5": {
			Kind: repository.Spike, Topics: []string{"orders"}, Arrived: 900, Usual: 2.5,
		},
		"Loop stopped in orders: 1 message failed again too often and will not be sent again": {
			Kind:   repository.LoopStopped,
			Topics: []string{"orders"},
		},
		"1 message became DEAD in orders": {
			Kind:   repository.MessageDead,
			Topics: []string{"orders"},
		},
		"Redrive (retry) finished: of 9 selected 5 succeeded, 1 failed, 2 in doubt, 1 skipped": {
			Kind:    repository.RedriveFinished,
			Redrive: finished,
		},
		"Redrive (retry) stopped itself in orders: of 9 selected 0 succeeded, 9 failed, 0 in doubt, 0 skipped (too much failed)": {
			Kind: repository.RedriveStopped, Topics: []string{"orders"}, Redrive: stopped,
		},
	} {
		n := notificationOf(e)
		d, err := words{}.unpack(n)
		if got := summary(n, d); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

// The texts of error groups may come from masked headers. Therefore no receiver gets these texts, even in notifications
// that were stored before the headers were masked.
func TestGroupsAreMasked(t *testing.T) {
	t.Parallel()
	notification := notificationOf(repository.Event{
		Kind: repository.GroupNew, Class: "com.acme.Secret", Title: "a secret failure",
		Topics: []string{"orders"},
	})
	d, err := words{masked: true}.unpack(notification)
	if got := summary(notification, d); err != nil || got != "New error group in orders: ***" {
		t.Errorf("the summary is %q, %v, want it masked", got, err)
	}
	body, err := words{masked: true}.cloudEvent(notification)
	if err != nil || strings.Contains(strings.ToLower(string(body)), "secret") {
		t.Errorf("the event is %s, %v, want it masked", body, err)
	}
}

func TestLink(t *testing.T) {
	t.Parallel()
	w := words{console: "https://dlq.example.com/"}
	for want, e := range map[string]repository.Event{
		"https://dlq.example.com/messages?status=DEAD&topic=a":  {Kind: repository.MessageDead, Topics: []string{"a"}},
		"https://dlq.example.com/messages?topic=a":              {Kind: repository.Spike, Topics: []string{"a"}},
		"https://dlq.example.com/":                              {Kind: repository.LoopStopped},
		"https://dlq.example.com/redrives/" + uuid.Nil.String(): {Kind: repository.RedriveStopped},
	} {
		if got := w.link(notificationOf(e)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
