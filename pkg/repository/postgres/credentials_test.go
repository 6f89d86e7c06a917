package postgres

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestParseCredentials(t *testing.T) {
	t.Parallel()

	for _, c := range []struct{ name, text, user, password string }{
		{"Colons", "username: u\npassword: p\n", "u", "p"},
		{"EqualSigns", "username=u\npassword=p", "u", "p"},
		{"AnyOrder", "password: p\nusername: u\n", "u", "p"},
		{"CommentsAndBlankLines", "# by the agent\n\nusername: u\r\n \npassword: p\r\n", "u", "p"},
		{"PasswordsWithSeparators", "username: u\npassword: a:b=c # d\n", "u", "a:b=c # d"},
		{"OneSpaceOnly", "username: u\npassword:  p \n", "u", " p "},
		{"SpacesBeforeTheSeparator", "username = u\npassword = p\n", "u", "p"},
		{"JSON", "\n{\"password\": \"a\\\"b\\\\c\", \"username\": \"u\", \"ttl\": 3}\n", "u", `a"b\c`},
		{"QuotesAsTheyAre", "username: u\npassword: \"p'\\\n", "u", `"p'\`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseCredentials(c.text)
			if err != nil || got.user != c.user || got.password.Reveal() != c.password {
				t.Errorf("got %q, %q and %v, want %q and %q", got.user, got.password.Reveal(), err, c.user, c.password)
			}
		})
	}

	for _, c := range []struct{ name, text, want string }{
		{"Empty", "", "must hold a username and a password"},
		{"HalfWritten", "username: u\n", "must hold a username and a password"},
		{"NoPasswordYet", "username: u\npassword:\n", "must hold a username and a password"},
		{"HalfJSON", `{"password": "hunter2", "user`, "not whole JSON"},
		{"JSONOfTheWrongKind", `{"password": {"hunter2": 1}}`, "not whole JSON"},
		{"JSONWithoutUser", `{"password": "hunter2"}`, "must hold a username and a password"},
		{"OtherKeys", "username: u\npasswd: hunter2\n", "line 2 is not"},
		{"NoSeparator", "hunter2\n", "line 1 is not"},
	} {
		t.Run("Refuses/"+c.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseCredentials(c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q without the secret", err, c.want)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	both, password := filepath.Join(dir, "both"), filepath.Join(dir, "password")
	writeSecret(t, both, "username: dynamic\npassword: d\n")
	writeSecret(t, password, "f\n")

	for _, c := range []struct {
		name   string
		config Config
		want   credentials
	}{
		{"FromTheConfig", Config{User: "app", Password: "p"}, credentials{"app", "p"}},
		{"FromThePasswordFile", Config{User: "app", PasswordFile: password}, credentials{"app", "f"}},
		{"FromTheCredentialsFile", Config{User: "app", CredentialsFile: both}, credentials{"dynamic", "d"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := c.config.credentials()
			if err != nil || got != c.want {
				t.Errorf("got %s/%s and %v, want %s/%s", got.user, got.password.Reveal(), err, c.want.user, c.want.password.Reveal())
			}
		})
	}

	for name, c := range map[string]Config{
		"PasswordFile":    {User: "app", PasswordFile: "/no/such/password"},
		"CredentialsFile": {CredentialsFile: "/no/such/credentials"},
	} {
		t.Run("NamesMissing"+name, func(t *testing.T) {
			t.Parallel()
			if _, err := c.credentials(); err == nil || !strings.Contains(err.Error(), "/no/such/") {
				t.Errorf("got %v, want an error naming the file", err)
			}
		})
	}
}
