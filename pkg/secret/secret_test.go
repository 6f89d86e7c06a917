package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

const hidden = "hunter2"

type holder struct {
	Password Text `json:"password"`
}

func TestText(t *testing.T) {
	t.Parallel()

	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10s"} {
		t.Run("IsMaskedBy"+verb, func(t *testing.T) {
			t.Parallel()
			for _, v := range []any{Text(hidden), holder{hidden}, &holder{hidden}, []Text{hidden}, map[string]Text{"p": hidden}} {
				wantMasked(t, fmt.Sprintf(verb, v))
			}
		})
	}

	t.Run("IsMaskedInJSON", func(t *testing.T) {
		t.Parallel()
		raw, err := json.Marshal(holder{hidden})
		check.NoError(t, err)
		if got, want := string(raw), `{"password":"***"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})

	t.Run("IsMaskedInZap", func(t *testing.T) {
		t.Parallel()
		enc := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
		buf, err := enc.EncodeEntry(zapcore.Entry{}, []zapcore.Field{
			zap.Any("a", Text(hidden)), zap.Stringer("b", Text(hidden)), zap.Any("c", holder{hidden}),
			zap.Reflect("d", []Text{hidden}),
		})
		check.NoError(t, err)
		wantMasked(t, buf.String())
	})

	t.Run("IsMaskedInSlog", func(t *testing.T) {
		t.Parallel()
		var b strings.Builder
		slog.New(slog.NewTextHandler(&b, nil)).Info("x", "p", Text(hidden))
		wantMasked(t, b.String())
	})

	t.Run("RevealsItselfOnRequest", func(t *testing.T) {
		t.Parallel()
		if got := Text(hidden).Reveal(); got != hidden {
			t.Errorf("got %q, want %q", got, hidden)
		}
	})
}

func TestFromFile(t *testing.T) {
	t.Parallel()

	for _, c := range []struct{ name, content, want string }{
		{"AsItIs", "abc", "abc"},
		{"LosesOneNewline", "abc\n", "abc"},
		{"LosesOneCRLF", "abc\r\n", "abc"},
		{"LosesOnlyOneNewline", "abc\n\n", "abc\n"},
		{"KeepsSpaces", " a b \n", " a b "},
		{"KeepsLoneCarriageReturn", "abc\r", "abc\r"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := FromFile(write(t, c.content))
			check.NoError(t, err)
			if got.Reveal() != c.want {
				t.Errorf("got %q, want %q", got.Reveal(), c.want)
			}
		})
	}

	for _, content := range []string{"", "\n", "\r\n"} {
		t.Run(fmt.Sprintf("RefusesEmpty%q", content), func(t *testing.T) {
			t.Parallel()
			path := write(t, content)
			_, err := FromFile(path)
			if !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %v naming %s", err, ErrEmpty, path)
			}
		})
	}

	t.Run("NamesMissingFile", func(t *testing.T) {
		t.Parallel()
		_, err := FromFile("/no/such/file")
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/no/such/file") {
			t.Errorf("got %v, want not-exist naming the file", err)
		}
	})
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	check.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func wantMasked(t *testing.T, got string) {
	t.Helper()
	if strings.Contains(got, hidden) || strings.Contains(got, fmt.Sprintf("%x", hidden)) || strings.Contains(got, fmt.Sprintf("%X", hidden)) {
		t.Errorf("got %s, want the secret masked", got)
	}
}
