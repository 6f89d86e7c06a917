package conn

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/config"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestConfig(t *testing.T) {
	t.Parallel()

	postgrestest.Parallel(t, "IsDecodedFromTheDocumentsSection", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "c.yaml")
		postgrestest.WriteSecret(t, file, `
database:
  host: "postgres.k1s0-system.svc.cluster.local"
  port: 5433
  name: "k1s0_dlq"
  user: "app"
  password: ""
  ssl_mode: "require"
  max_open_conns: 10
  max_idle_conns: 3
  conn_max_lifetime: "7m"
`)
		defaults := DefaultConfig()
		type program struct {
			Database *Config `mapstructure:"database"`
		}
		got, _, err := config.Load(file, "DLQ_", program{&defaults}, config.WithEnviron([]string{"DLQ_DATABASE_PASSWORD=from-env"}))
		check.NoError(t, err)
		want := Config{
			Host: "postgres.k1s0-system.svc.cluster.local", Port: 5433, Name: "k1s0_dlq", User: "app",
			Password: "from-env", SSLMode: "require", ConnectTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
			MaxOpenConns: 10, MaxIdleConns: 3, ConnMaxLifetime: 7 * time.Minute, ReadMaxLag: 10 * time.Second,
		}
		check.Same(t, *got.Database, want, "the configuration")
	})

	postgrestest.Parallel(t, "BecomesTheDriversParameters", func(t *testing.T) {
		c := goodConfig()
		c.SSLMode, c.SSLRootCert, c.SSLCert, c.SSLKey = "verify-full", "root", "cert", "key"
		got := c.pq(credentials{"u", "p"})
		want := pq.Config{
			Host: "db.internal", Port: 5432, Database: "dlq_db", User: "u", Password: "p",
			SSLMode: "verify-full", SSLRootCert: "root", SSLCert: "cert", SSLKey: "key", SSLSNI: true,
			ConnectTimeout: 5 * time.Second, ApplicationName: "dlq-manager", BinaryParameters: true,
			ClientEncoding: "UTF8", Datestyle: "ISO, MDY", MinProtocolVersion: "3.0", MaxProtocolVersion: "3.0",
			Runtime: map[string]string{"timezone": "UTC", "jit": "off"},
		}
		check.Same(t, got, want, "the configuration")
	})

	postgrestest.Parallel(t, "NamesItsAddress", func(t *testing.T) {
		c := goodConfig()
		c.Host = "::1"
		check.Same(t, c.Address(), "[::1]:5432/dlq_db", "the address")
	})

	postgrestest.Parallel(t, "UsesNoTLSOnASocket", func(t *testing.T) {
		c := goodConfig()
		c.Host, c.SSLMode = "/run/postgresql", "require"
		check.Same(t, c.pq(credentials{}).SSLMode, pq.SSLModeDisable, "want disable")
	})

	postgrestest.Parallel(t, "HidesThePassword", func(t *testing.T) {
		c := goodConfig()
		c.Password = "hunter2"
		got := fmt.Sprintf("%v %+v %#v", c, c, c)
		check.True(t, !strings.Contains(got, "hunter2"), "got %s, want the password masked", got)
	})
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()

	check.NoError(t, goodConfig().Validate())
	for want, spoil := range map[string]func(*Config){
		"host is empty":                                          func(c *Config) { c.Host = "" },
		"port must be 1 to 65535":                                func(c *Config) { c.Port = 65536 },
		"name is empty":                                          func(c *Config) { c.Name = "" },
		"user is empty":                                          func(c *Config) { c.User = "" },
		"password and password_file exclude":                     func(c *Config) { c.Password, c.PasswordFile = "hunter2", "f" },
		"credentials_file excludes password":                     func(c *Config) { c.CredentialsFile, c.Password = "f", "hunter2" },
		"ssl_mode must be one of":                                func(c *Config) { c.SSLMode = "on" },
		"verify-ca needs ssl_root_cert":                          func(c *Config) { c.SSLMode = "verify-ca" },
		"ssl_cert and ssl_key need each other":                   func(c *Config) { c.SSLCert = "c" },
		"connect_timeout must be positive":                       func(c *Config) { c.ConnectTimeout = 0 },
		"read_timeout must not be negative (":                    func(c *Config) { c.ReadTimeout = -1 },
		"max_open_conns must be at least 1":                      func(c *Config) { c.MaxOpenConns, c.MaxIdleConns = 0, 0 },
		"max_idle_conns must be 0":                               func(c *Config) { c.MaxIdleConns = 26 },
		"read_host must be a host or host:port":                  func(c *Config) { c.ReadHost = "replica:x" },
		"read_host must be another server":                       func(c *Config) { c.ReadHost = c.Host },
		"read_max_lag must be positive":                          func(c *Config) { c.ReadMaxLag = 0 },
		"read_max_lag must be positive and at most 10s, not 11s": func(c *Config) { c.ReadMaxLag = 11 * time.Second },
		"conn_max_lifetime must not be negative (":               func(c *Config) { c.ConnMaxLifetime = -1 },
	} {
		postgrestest.Parallel(t, want, func(t *testing.T) {
			c := goodConfig()
			spoil(&c)
			err := c.Validate()
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want exactly one problem: %s", err, want)
			}
		})
	}

	postgrestest.Parallel(t, "ReportsEverythingAtOnce", func(t *testing.T) {
		got := strings.Count(Config{}.Validate().Error(), "\n")
		check.True(t, got >= 5, "got %d line breaks, want at least 5", got)
	})
}

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
		postgrestest.Parallel(t, c.name, func(t *testing.T) {
			got := check.Must(parseCredentials(c.text))(t)
			check.True(t, got.user == c.user && got.password.Reveal() == c.password,
				"got %q, %q, want %q and %q", got.user, got.password.Reveal(), c.user, c.password)
		})
	}

	for _, c := range []struct{ name, text, want string }{
		{"Empty", "", "must hold a username and a password"},
		{"HalfWritten", "username: u\n", "must hold a username and a password"},
		{"NoPasswordYet", "username: u\npassword:\n", "must hold a username and a password"},
		{"HalfJSON", `{"password": "hunter2", "user`, "not complete JSON"},
		{"JSONOfTheWrongKind", `{"password": {"hunter2": 1}}`, "not complete JSON"},
		{"JSONWithoutUser", `{"password": "hunter2"}`, "must hold a username and a password"},
		{"OtherKeys", "username: u\npasswd: hunter2\n", "line 2 is not"},
		{"NoSeparator", "hunter2\n", "line 1 is not"},
	} {
		postgrestest.Parallel(t, "Refuses/"+c.name, func(t *testing.T) {
			_, err := parseCredentials(c.text)
			check.True(t, err != nil && strings.Contains(err.Error(), c.want) && !strings.Contains(err.Error(), "hunter2"),
				"got %v, want %q without the secret", err, c.want)
		})
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	both, password := filepath.Join(dir, "both"), filepath.Join(dir, "password")
	postgrestest.WriteSecret(t, both, "username: dynamic\npassword: d\n")
	postgrestest.WriteSecret(t, password, "f\n")

	for _, c := range []struct {
		name   string
		config Config
		want   credentials
	}{
		{"FromTheConfig", Config{User: "app", Password: "p"}, credentials{"app", "p"}},
		{"FromThePasswordFile", Config{User: "app", PasswordFile: password}, credentials{"app", "f"}},
		{"FromTheCredentialsFile", Config{User: "app", CredentialsFile: both}, credentials{"dynamic", "d"}},
	} {
		postgrestest.Parallel(t, c.name, func(t *testing.T) {
			got := check.Must(c.config.credentials())(t)
			check.True(t, got == c.want,
				"got %s/%s, want %s/%s", got.user, got.password.Reveal(), c.want.user, c.want.password.Reveal())
		})
	}

	for name, c := range map[string]Config{
		"PasswordFile":    {User: "app", PasswordFile: "/no/such/password"},
		"CredentialsFile": {CredentialsFile: "/no/such/credentials"},
	} {
		postgrestest.Parallel(t, "NamesMissing"+name, func(t *testing.T) {
			check.Says(t, check.Err(c.credentials()), "/no/such/", "want an error naming the file")
		})
	}
}

func goodConfig() Config {
	c := DefaultConfig()
	c.Host, c.Name, c.User = "db.internal", "dlq_db", "app"
	return c
}

func openConfig(t *testing.T, c Config) *sqlx.DB {
	t.Helper()
	db := check.Must(Open(c))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
