package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// credentials are what one connection signs in with.
type credentials struct {
	user     string
	password secret.Text
}

// credentials reads them where the configuration says they are.
func (c Config) credentials() (credentials, error) {
	switch {
	case c.CredentialsFile != "":
		return readCredentials(c.CredentialsFile)
	case c.PasswordFile != "":
		password, err := secret.FromFile(c.PasswordFile)
		return credentials{c.User, password}, err
	default:
		return credentials{c.User, c.Password}, nil
	}
}

// rotates says that reading the credentials again may give others.
func (c Config) rotates() bool { return c.CredentialsFile != "" || c.PasswordFile != "" }

// readCredentials reads user and password from one file. They share it because
// two files cannot be replaced at one moment: a reader between the two would
// sign in the new user with the old password.
func readCredentials(path string) (credentials, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return credentials{}, fmt.Errorf("read credentials file: %w", err)
	}
	c, err := parseCredentials(string(raw))
	if err != nil {
		return credentials{}, fmt.Errorf("credentials file %s: %w", path, err)
	}
	return c, nil
}

// parseCredentials reads either form. Its errors hold no piece of the text.
func parseCredentials(text string) (credentials, error) {
	parse := parseLines
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		parse = parseJSON
	}
	c, err := parse(text)
	if err == nil && (c.user == "" || c.password == "") {
		err = errors.New("it must hold a username and a password")
	}
	return c, err
}

func parseJSON(text string) (credentials, error) {
	var both struct{ Username, Password string }
	if err := json.Unmarshal([]byte(text), &both); err != nil {
		return credentials{}, errors.New("it is not whole JSON with a username and a password")
	}
	return credentials{both.Username, secret.Text(both.Password)}, nil
}

func parseLines(text string) (credentials, error) {
	var c credentials
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.IndexAny(line, ":=")
		if at < 0 {
			return c, fmt.Errorf(`line %d is not "username: ..." or "password: ..."`, number)
		}
		value := strings.TrimPrefix(line[at+1:], " ")
		switch strings.TrimSpace(line[:at]) {
		case "username":
			c.user = value
		case "password":
			c.password = secret.Text(value)
		default:
			return c, fmt.Errorf(`line %d is not "username: ..." or "password: ..."`, number)
		}
	}
	return c, nil
}
