package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func aNotice(changes ...func(*repository.Event)) repository.Notice {
	e := repository.Event{
		Kind: repository.GroupNew, At: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC), Object: uuid.MustParse("0198c5b6-0000-8000-8000-000000000001"),
		Topics: []string{"orders"}, Class: "java.io.IOException", Title: "out of\nstock",
	}
	for _, change := range changes {
		change(&e)
	}
	n := repository.NewNotice{
		ID: uuid.MustParse("0198c5b6-0000-7000-8000-000000000002"), Sink: "ops", Kind: e.Kind, Object: objectOf(e), First: e.At, Last: e.At,
	}
	add(&n, e)
	return repository.Notice{NewNotice: n, Attempts: 1}
}

func webhookTo(t *testing.T, r *receiver, secretFile string) *webhook {
	t.Helper()
	return &webhook{
		target: target{client: newClient(time.Second), url: r.URL}, words: words{source: "/dlq-manager", console: "https://dlq.example.com"},
		secretFile: secretFile, now: func() time.Time { return time.Unix(1700000000, 0) },
	}
}

func TestWebhook(t *testing.T) {
	t.Parallel()

	t.Run("SendsACloudEvent", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		if err := webhookTo(t, r, "").send(t.Context(), aNotice()); err != nil {
			t.Fatal(err)
		}
		got := r.taken()[0]
		if kind := got.header.Get("Content-Type"); kind != "application/cloudevents+json; charset=utf-8" {
			t.Errorf("Content-Type = %q", kind)
		}
		if signature := got.header.Get(headerSignature); signature != "" {
			t.Errorf("%s = %q without a secret", headerSignature, signature)
		}
		var event, want any
		if err := json.Unmarshal([]byte(got.body), &event); err != nil {
			t.Fatal(err)
		}
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
	})

	t.Run("SignsWithEachSecret", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		key := []byte("sixteen or more b")
		file := secretFile(t, "whsec_"+base64.StdEncoding.EncodeToString(key)+"\n\nthe old one\n")
		if err := webhookTo(t, r, file).send(t.Context(), aNotice()); err != nil {
			t.Fatal(err)
		}
		got := r.taken()[0]
		if at := got.header.Get(headerTimestamp); at != "1700000000" {
			t.Errorf("%s = %q, want the seconds", headerTimestamp, at)
		}
		signatures := strings.Fields(got.header.Get(headerSignature))
		if len(signatures) != 2 {
			t.Fatalf("got signatures %v, want 2", signatures)
		}
		for i, key := range [][]byte{key, []byte("the old one")} {
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(got.header.Get(headerID) + ".1700000000." + got.body))
			if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); signatures[i] != want {
				t.Errorf("signature %d = %s, want %s", i, signatures[i], want)
			}
		}
	})

	t.Run("SignsAsTheStandardsExample", func(t *testing.T) {
		t.Parallel()
		key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		if err != nil {
			t.Fatal(err)
		}
		got := sign([][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
		if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})

	t.Run("SendsNothingUnsignedWhenTheSecretIsMissing", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		for _, file := range []string{"/does/not/exist", secretFile(t, "\n"), secretFile(t, "whsec_***\n")} {
			if err := webhookTo(t, r, file).send(t.Context(), aNotice()); err == nil {
				t.Errorf("send with %s: no error", file)
			}
		}
		if got := r.taken(); len(got) > 0 {
			t.Errorf("sent %d, want none", len(got))
		}
	})
}

func TestTarget(t *testing.T) {
	t.Parallel()

	t.Run("FollowsNoRedirect", func(t *testing.T) {
		t.Parallel()
		r, elsewhere := newReceiver(t), newReceiver(t)
		r.answers(http.StatusTemporaryRedirect, "", "Location", elsewhere.URL)
		err := webhookTo(t, r, "").send(t.Context(), aNotice())
		var refused *refusedError
		if !errors.As(err, &refused) || refused.status != http.StatusTemporaryRedirect {
			t.Errorf("got %v, want it refused", err)
		}
		if got := elsewhere.taken(); len(got) > 0 {
			t.Errorf("went to the other place")
		}
	})

	t.Run("ReadsLittleOfAnAnswer", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		r.answers(http.StatusBadRequest, "no\x1b[31m"+strings.Repeat("x", 10<<20))
		err := webhookTo(t, r, "").send(t.Context(), aNotice())
		if err == nil || len(err.Error()) > 400 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("got %.500v, want a short error", err)
		}
	})

	t.Run("EndsInTime", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t)
		hang := make(chan struct{})
		defer close(hang)
		r.answer = func(http.ResponseWriter) { <-hang }
		hook := webhookTo(t, r, "")
		hook.target.client = newClient(50 * time.Millisecond)
		if err := hook.send(t.Context(), aNotice()); err == nil || strings.Contains(err.Error(), r.URL) {
			t.Errorf("got %v, want an error that does not show the URL", err)
		}
	})

	t.Run("ReadsTheURLsFileEveryTime", func(t *testing.T) {
		t.Parallel()
		first, second := newReceiver(t), newReceiver(t)
		file := secretFile(t, first.URL+"\n")
		hook := webhookTo(t, first, "")
		hook.target.url, hook.target.urlFile = "", file
		if err := hook.send(t.Context(), aNotice()); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(second.URL), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := hook.send(t.Context(), aNotice()); err != nil || len(second.taken()) != 1 {
			t.Errorf("got %v, want it at the new place", err)
		}
		if err := os.WriteFile(file, []byte("http://example.com/secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := hook.send(t.Context(), aNotice()); err == nil || strings.Contains(err.Error(), "example.com") {
			t.Errorf("got %v, want it refused without showing the URL", err)
		}
	})
}

func TestSlack(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	s := slack{target: target{client: newClient(time.Second), url: r.URL}, words: words{console: "https://dlq.example.com"}}
	err := s.send(t.Context(), aNotice(func(e *repository.Event) {
		e.Title = "<!channel> & <https://evil.example|click> @here \u202efdp\n*bold*"
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(r.taken()[0].body), &got); err != nil {
		t.Fatal(err)
	}
	want := "New error group in orders: java.io.IOException: &lt;!channel&gt; &amp; &lt;https://evil.example|click&gt; @\u200bhere fdp *bold*" +
		"\nhttps://dlq.example.com/groups/0198c5b6-0000-8000-8000-000000000001"
	if got["text"] != want || got["mrkdwn"] != false || got["unfurl_links"] != false {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want string
		e    repository.Event
	}{
		{"New error group: out of stock", repository.Event{Kind: repository.GroupNew, Title: "out of stock"}},
		{
			"Error group came back in a, b, c and 1 more topics after all of it were resolved: E",
			repository.Event{Kind: repository.GroupRegressed, Class: "E", Topics: []string{"a", "b", "c", "d"}},
		},
		{
			"Spike in orders: 900 dead letters in about a quarter of an hour, usually 2.5",
			repository.Event{Kind: repository.Spike, Topics: []string{"orders"}, Arrived: 900, Usual: 2.5},
		},
		{"Loop stopped in orders: 1 message came back too often and will not be sent again", repository.Event{Kind: repository.LoopStopped, Topics: []string{"orders"}}},
		{"1 message became DEAD in orders", repository.Event{Kind: repository.MessageDead, Topics: []string{"orders"}}},
		{
			"Redrive (retry) finished: of 9 selected 5 succeeded, 1 failed, 2 in doubt, 1 skipped",
			repository.Event{Kind: repository.RedriveFinished, Redrive: repository.RedriveEnd{
				Action: "retry", Selected: 9, Succeeded: 5, Failed: 1, InDoubt: 2, Skipped: 1,
			}},
		},
		{
			"Redrive (retry) stopped itself in orders: of 9 selected 0 succeeded, 9 failed, 0 in doubt, 0 skipped (too much failed)",
			repository.Event{Kind: repository.RedriveStopped, Topics: []string{"orders"}, Redrive: repository.RedriveEnd{
				Action: "retry", Note: "too much failed", Selected: 9, Failed: 9,
			}},
		},
	} {
		t.Run(string(c.e.Kind), func(t *testing.T) {
			t.Parallel()
			n := repository.NewNotice{Kind: c.e.Kind, Object: objectOf(c.e)}
			add(&n, c.e)
			notice := repository.Notice{NewNotice: n}
			d, err := words{}.unpack(notice)
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(notice, d); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// What groups say may come from masked headers: no receiver is told, not even of
// notices that were kept before there was a mask.
func TestGroupsAreMasked(t *testing.T) {
	t.Parallel()
	n := repository.NewNotice{Kind: repository.GroupNew}
	add(&n, repository.Event{Kind: repository.GroupNew, Class: "com.acme.Secret", Title: "a secret failure", Topics: []string{"orders"}})
	notice := repository.Notice{NewNotice: n}
	d, err := words{masked: true}.unpack(notice)
	if got := summary(notice, d); err != nil || got != "New error group in orders: ***" {
		t.Errorf("the summary is %q, %v, want it masked", got, err)
	}
	body, err := words{masked: true}.cloudEvent(notice)
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
		if got := w.link(repository.Notice{NewNotice: repository.NewNotice{Kind: e.Kind, Object: objectOf(e)}}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
