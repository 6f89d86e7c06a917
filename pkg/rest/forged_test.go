package rest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
)

// cursored are all lists with cursors.
func cursored(f *fixture) []string {
	var all []string
	for _, rt := range f.server.apiRoutes() {
		switch rt.path {
		case "/api/v1/messages", "/api/v1/archive", "/api/v1/groups", "/api/v1/redrives", "/api/v1/audit", "/api/v1/topics":
			all = append(all, rt.path)
		case "/api/v1/redrives/{id}/items":
			all = append(all, "/api/v1/redrives/"+redrive.String()+"/items")
		}
	}
	return all
}

// unkeyed is a cursor as somebody makes it who knows everything but the key.
func unkeyed(path string, size int, place []byte) string {
	sum := sha256.Sum256(append([]byte(path+"?\n"), place...))
	return base64.RawURLEncoding.EncodeToString(append(sum[:size:size], place...))
}

func TestCursor_Forged(t *testing.T) {
	t.Parallel()
	f, _ := manyFixture(t)
	lists := cursored(f)
	if len(lists) < 6 {
		t.Fatalf("got the lists %q, want all", lists)
	}
	far := append(binary.BigEndian.AppendUint64(nil, 1<<63), make([]byte, 16)...)
	for _, path := range lists {
		for _, size := range []int{8, 16, 32} {
			for _, place := range [][]byte{far, far[:8], make([]byte, placeSize), []byte("a"), nil} {
				cursor := unkeyed(path, size, place)
				if e := wantEnvelope(t, f.do("GET", path+"?cursor="+cursor, ""), 400, codeValidation); firstField(e.Details) != "cursor" {
					t.Errorf("GET %s with %q: details %v, want the cursor named", path, cursor, e.Details)
				}
			}
		}
	}
}

// What one process gives, all others take that have the key, and so does the next one
// after a restart; one with another key refuses it.
func TestCursor_OfAnotherProcess(t *testing.T) {
	t.Parallel()
	keyed := func(key []byte) *fixture {
		f, _ := manyFixture(t)
		signer, err := auth.NewSigner(auth.Config{}, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		signer.Use([][]byte{key})
		WithSigner(signer)(f.server)
		return f
	}
	key := auth.NewKey()
	one, two, stranger := keyed(key), keyed(key), keyed(auth.NewKey())
	var page struct {
		Next *string `json:"next_cursor"`
	}
	w := one.do("GET", "/api/v1/audit?limit=1", "")
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page.Next == nil {
		t.Fatalf("got %s, %v, want a cursor", w.Body, err)
	}
	if w := two.do("GET", "/api/v1/audit?cursor="+*page.Next, ""); w.Code != 200 {
		t.Errorf("another process with the key: got %d %s, want 200", w.Code, w.Body)
	}
	wantEnvelope(t, stranger.do("GET", "/api/v1/audit?cursor="+*page.Next, ""), 400, codeValidation)
}

// No text is a cursor, and none makes the program fail.
func FuzzCursor(f *testing.F) {
	lists := cursored(newFixture().open())
	var one string
	fixture := newFixture(message(idA), message(idB)).open()
	w := fixture.do("GET", "/api/v1/messages?limit=1", "")
	var page struct {
		Next string `json:"next_cursor"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
		f.Fatal(err)
	}
	one = page.Next
	for _, text := range []string{"", "A", one + "A", strings.ToLower(one), one[1:], one[:len(one)-1] + "=", "\x00", strings.Repeat("A", 40)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, path := range lists {
			w := fixture.do("GET", path+"?cursor="+url.QueryEscape(text), "")
			if genuine := path == "/api/v1/messages" && text == one; w.Code != 400 && !genuine {
				t.Errorf("GET %s with %q = %d %s, want 400", path, text, w.Code, w.Body)
			}
		}
	})
}
