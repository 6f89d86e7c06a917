package message

import (
	"net/http"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
)

type command struct {
	ID, Name string
	Text     string
}

func commands(r *http.Request, ref api.MessageRef, m *api.Message, needToken bool) []command {
	list := []command{
		{"curl-get", "Fetch the message", curl(r, needToken, http.MethodGet, ref.Endpoint(), "")},
		{"curl-payload", "Fetch its payload", curl(r, needToken, http.MethodGet, ref.Endpoint("payload"), "") + " -o " + quote(m.ID+".bin")},
		{"curl-history", "Fetch its history", curl(r, needToken, http.MethodGet, ref.Endpoint("history"), "")},
	}
	if ref.Archived {
		return append(list, command{"curl-restore", "Restore it", curl(r, needToken, http.MethodPost, ref.Endpoint("restore"), `{"reason":""}`)},
			command{"curl-erase", "Erase it for good, which needs admin and a reason", curl(r, needToken, http.MethodDelete, ref.Endpoint(), `{"reason":""}`)})
	}
	return append(list, command{"curl-retry", "Send it back", curl(r, needToken, http.MethodPost, ref.Endpoint("retry"), `{"reason":""}`)})
}

// curl returns a command for a POSIX shell. The address is quoted, because it contains the host name that the client of
// the request has sent.
func curl(r *http.Request, needToken bool, method, path, body string) string {
	b := strings.Builder{}
	b.WriteString("curl -sS")
	if method != http.MethodGet {
		b.WriteString(" -X " + method)
	}
	if needToken {
		b.WriteString(` -H "Authorization: Bearer $TOKEN"`)
	}
	if body != "" {
		b.WriteString(" -H 'Content-Type: application/json' -d " + quote(body))
	}
	b.WriteString(" " + quote(origin(r)+path))
	return b.String()
}

// origin returns scheme and host as in the browser's address bar.
func origin(r *http.Request) string {
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// quote quotes a text as one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
