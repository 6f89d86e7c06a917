package console

import (
	"net/http"
	"strings"
)

type command struct {
	ID, Name string
	Text     string
}

func (c *Console) commands(r *http.Request, at place, m *message) []command {
	list := []command{
		{"curl-get", "Fetch the message", c.curl(r, http.MethodGet, at.api(), "")},
		{"curl-payload", "Fetch its payload", c.curl(r, http.MethodGet, at.api("payload"), "") + " -o " + quote(m.ID+".bin")},
		{"curl-history", "Fetch its history", c.curl(r, http.MethodGet, at.api("history"), "")},
	}
	if at.archived {
		return append(list, command{"curl-restore", "Restore it", c.curl(r, http.MethodPost, at.api("restore"), `{"reason":""}`)})
	}
	return append(list, command{"curl-retry", "Send it back", c.curl(r, http.MethodPost, at.api("retry"), `{"reason":""}`)})
}

// curl returns a command for a POSIX shell. The address is quoted, because the client chooses the host name.
func (c *Console) curl(r *http.Request, method, path, body string) string {
	b := strings.Builder{}
	b.WriteString("curl -sS")
	if method != http.MethodGet {
		b.WriteString(" -X " + method)
	}
	if c.needAuth {
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
