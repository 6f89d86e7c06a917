package conn

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// Config sets the database, the credentials, and the number of connections.
//
// The password is in Password or in the file that PasswordFile names. The file that CredentialsFile names contains user
// and password together, for credentials whose user also changes at each rotation. Files are read again for every new
// connection, so new credentials need no restart. The file that CredentialsFile names contains either a JSON object,
//
//	{"username": "v-dlq-rw-8f3k", "password": "any text"}
//
// whose other keys are ignored, or two lines in any order,
//
//	username: v-dlq-rw-8f3k
//	password: any text up to the end of the line
//
// In these lines, "=" may take the place of ":", and one space after it is not part of the value. Blank lines and lines
// that begin with # are ignored.
type Config struct {
	Host            string        `mapstructure:"host"`
	Port            int           `mapstructure:"port"`
	Name            string        `mapstructure:"name"`
	User            string        `mapstructure:"user"`
	Password        secret.Text   `mapstructure:"password"`
	PasswordFile    string        `mapstructure:"password_file"`
	CredentialsFile string        `mapstructure:"credentials_file"`
	SSLMode         string        `mapstructure:"ssl_mode"`
	SSLRootCert     string        `mapstructure:"ssl_root_cert"`
	SSLCert         string        `mapstructure:"ssl_cert"`
	SSLKey          string        `mapstructure:"ssl_key"`
	ConnectTimeout  time.Duration `mapstructure:"connect_timeout"`
	ReadTimeout     time.Duration `mapstructure:"read_timeout"` // when the server sends nothing for this time during a statement, the connection is closed; 0 for no limit
	MaxOpenConns    int           `mapstructure:"max_open_conns"`
	MaxIdleConns    int           `mapstructure:"max_idle_conns"`
	ConnMaxLifetime time.Duration `mapstructure:"conn_max_lifetime"`
	AutoMigrate     bool          `mapstructure:"auto_migrate"`
	ReadHost        string        `mapstructure:"read_host"` // host or host:port of a streaming replica; "" for none
	ReadMaxLag      time.Duration `mapstructure:"read_max_lag"`
}

// maxReadLag is the maximum of ReadMaxLag. A replica whose data is older answers no reads, because pages do not say how
// old their data is.
const maxReadLag = 10 * time.Second

// DefaultConfig returns settings for a small pool without TLS. Host, Name and User have no default.
func DefaultConfig() Config {
	return Config{
		Port:            5432,
		SSLMode:         "disable",
		ConnectTimeout:  5 * time.Second,
		ReadTimeout:     30 * time.Second,
		MaxOpenConns:    25,
		MaxIdleConns:    5,
		ConnMaxLifetime: 5 * time.Minute,
		ReadMaxLag:      maxReadLag,
	}
}

// Address returns host:port/name of the database, for logs and errors.
func (c Config) Address() string {
	return net.JoinHostPort(c.Host, strconv.Itoa(c.Port)) + "/" + c.Name
}

// Replica returns the settings for connections to the replica at ReadHost. All other settings are those of the
// database.
func (c Config) Replica() Config {
	at := c.ReadHost
	c.Host, c.ReadHost, c.AutoMigrate = at, "", false
	if host, port, err := net.SplitHostPort(at); err == nil {
		c.Host = host
		c.Port, _ = strconv.Atoi(port) // Validate has checked the port
	}
	return c
}

// sslModes are the TLS modes of libpq, from no TLS to a verified host name.
var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// Validate reports every problem that can be detected without the server or the files.
func (c Config) Validate() error {
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	complain(c.Host == "", "host is empty")
	complain(c.Port < 1 || c.Port > 65535, "port must be 1 to 65535, not %d", c.Port)
	complain(c.Name == "", "name is empty")
	complain(c.User == "" && c.CredentialsFile == "", "user is empty")
	complain(c.Password != "" && c.PasswordFile != "", "password and password_file exclude each other")
	complain(c.CredentialsFile != "" && (c.Password != "" || c.PasswordFile != ""),
		"credentials_file excludes password and password_file")
	complain(!slices.Contains(sslModes, c.SSLMode), "ssl_mode must be one of %v, not %q", sslModes, c.SSLMode)
	complain(c.SSLMode == "verify-ca" && c.SSLRootCert == "", "ssl_mode verify-ca needs ssl_root_cert")
	complain((c.SSLCert == "") != (c.SSLKey == ""), "ssl_cert and ssl_key need each other")
	complain(c.ConnectTimeout <= 0, "connect_timeout must be positive, not %s", c.ConnectTimeout)
	complain(c.ReadTimeout < 0, "read_timeout must not be negative (0: no limit), not %s", c.ReadTimeout)
	complain(c.MaxOpenConns < 1, "max_open_conns must be at least 1, not %d", c.MaxOpenConns)
	complain(c.MaxIdleConns < 0 || c.MaxIdleConns > c.MaxOpenConns,
		"max_idle_conns must be 0 to max_open_conns (%d), not %d", c.MaxOpenConns, c.MaxIdleConns)
	if c.ReadHost != "" {
		replica := c.Replica()
		complain(replica.Host == "" || replica.Port < 1 || replica.Port > 65535, "read_host must be a host or host:port, not %q", c.ReadHost)
		complain(replica.Address() == c.Address(), "read_host must be another server than host")
	}
	complain(c.ReadMaxLag <= 0 || c.ReadMaxLag > maxReadLag, "read_max_lag must be positive and at most %s, not %s", maxReadLag, c.ReadMaxLag)
	complain(c.ConnMaxLifetime < 0, "conn_max_lifetime must not be negative (0: no limit), not %s", c.ConnMaxLifetime)
	return errors.Join(errs...)
}

// credentials are the user and password of one connection.
type credentials struct {
	user     string
	password secret.Text
}

// credentials reads the user and the password from the configuration, or from the file that it names.
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

// rotates reports whether the credentials are in a file, so that reading them again may return other credentials.
func (c Config) rotates() bool { return c.CredentialsFile != "" || c.PasswordFile != "" }

// readCredentials reads user and password from one file. One file contains both, because two files cannot be replaced
// at the same moment: a program that reads them in between would use the new user with the old password.
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

// parseCredentials parses the text in either of its two forms. The errors quote no part of the text, because it
// contains a password.
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
		return credentials{}, errors.New("it is not complete JSON with a username and a password")
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
