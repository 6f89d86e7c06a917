// Package secret holds text that must not be printed: passwords, tokens, keys. The packages that use it decide where
// secrets come from and what they are for.
package secret

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
)

// masked is printed in place of every Text, also of an empty Text: a log must not show whether a secret is set.
const masked = "***"

// Text is a secret. Printing it by fmt with any verb, by encoding/json, by slog or by zap (as a value or inside a
// struct) gives "***". A conversion with string() does not mask: use Reveal, so that a search finds every place where
// a secret is used.
type Text string

// Reveal returns the secret itself.
func (t Text) Reveal() string { return string(t) }

// String returns "***".
func (Text) String() string { return masked }

// GoString returns "***".
func (Text) GoString() string { return masked }

// Format writes "***" for every verb. Without this method, a wrong verb such as %d would print the secret inside the
// error text of fmt.
func (Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, masked) }

// MarshalText returns "***".
func (Text) MarshalText() ([]byte, error) { return []byte(masked), nil }

// MarshalJSON returns "***" as a JSON string.
func (Text) MarshalJSON() ([]byte, error) { return []byte(`"` + masked + `"`), nil }

// LogValue returns "***" for log/slog.
func (Text) LogValue() slog.Value { return slog.StringValue(masked) }

// ErrEmpty means that a secret's file exists and is empty, as between its creation and its writing.
var ErrEmpty = errors.New("secret file is empty")

// FromFileTrimmed reads a secret from a file and removes all white space around it. An empty file gives an empty secret.
// A missing file is an error that names the file.
func FromFileTrimmed(path string) (Text, error) {
	raw, err := os.ReadFile(path)
	return Text(strings.TrimSpace(string(raw))), err
}

// Authorize adds the header Authorization to a request: the bearer token in tokenFile, or else the user with the password
// in passwordFile. When tokenFile and user are "", it changes nothing. It reads the files at each call, because they may
// be replaced at any time.
func Authorize(r *http.Request, tokenFile, user, passwordFile string) error {
	switch {
	case tokenFile != "":
		token, err := FromFileTrimmed(tokenFile)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token.Reveal())
	case user != "":
		password, err := FromFileTrimmed(passwordFile)
		if err != nil {
			return err
		}
		r.SetBasicAuth(user, password.Reveal())
	}
	return nil
}

// FromFile reads a secret from a file. It removes one newline at the end (LF or CRLF), which editors and templates
// add, and keeps everything else, spaces included. A missing or empty file is an error that names the file; no error
// contains its content.
func FromFile(path string) (Text, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read secret file: %w", err)
	}
	text, cut := strings.CutSuffix(string(raw), "\n")
	if cut {
		text = strings.TrimSuffix(text, "\r")
	}
	if text == "" {
		return "", fmt.Errorf("%w: %s", ErrEmpty, path)
	}
	return Text(text), nil
}
