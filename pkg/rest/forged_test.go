package rest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
)

// cursored returns the paths of seven lists with cursors.
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

// signerOf returns a signer with this key.
func signerOf(key []byte) *auth.Signer {
	signer, err := auth.NewSigner(auth.Config{}, zap.NewNop())
	if err != nil {
		panic(err)
	}
	signer.Use([][]byte{key})
	return signer
}

// unkeyed returns a cursor that is forged with full knowledge of everything except the key.
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
			for _, place := range [][]byte{far, far[:8], make([]byte, request.TimeSize), []byte("a"), nil} {
				cursor := unkeyed(path, size, place)
				wantEnvelope(t, f.do("GET", path+"?cursor="+cursor, ""), 400, "cursor")
			}
		}
	}
}

// A cursor is accepted by every process with the same key, also after a restart; a process with another key refuses it.
func TestCursor_OfAnotherProcess(t *testing.T) {
	t.Parallel()
	keyed := func(key []byte) *fixture {
		f, _ := manyFixture(t)
		return f.with(WithSigner(signerOf(key))).open()
	}
	key := auth.NewKey()
	next := "/api/v1/audit?cursor=" + keyed(key).cursorOf(t, "/api/v1/audit?limit=1")
	wantStatus(t, keyed(key).do("GET", next, ""), 200)
	wantEnvelope(t, keyed(auth.NewKey()).do("GET", next, ""), 400)
}

// No arbitrary text is accepted as a cursor, and none makes the program fail.
func FuzzCursor(f *testing.F) {
	lists := cursored(newFixture().open())
	fixture := newFixture(message(idA), message(idB)).open()
	one := fixture.cursorOf(f, "/api/v1/messages?limit=1")
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
