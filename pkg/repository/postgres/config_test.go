package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/config"
)

func goodConfig() Config {
	c := DefaultConfig()
	c.Host, c.Name, c.User = "db.internal", "dlq_db", "app"
	return c
}

func TestConfig(t *testing.T) {
	t.Parallel()

	t.Run("IsDecodedFromTheDocumentsSection", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "c.yaml")
		writeSecret(t, file, `
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
		if err != nil {
			t.Fatal(err)
		}
		want := Config{
			Host: "postgres.k1s0-system.svc.cluster.local", Port: 5433, Name: "k1s0_dlq", User: "app",
			Password: "from-env", SSLMode: "require", ConnectTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
			MaxOpenConns: 10, MaxIdleConns: 3, ConnMaxLifetime: 7 * time.Minute,
		}
		if *got.Database != want {
			t.Errorf("got %+v, want %+v", *got.Database, want)
		}
	})

	t.Run("BecomesTheDriversParameters", func(t *testing.T) {
		t.Parallel()
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
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})

	t.Run("NamesItsAddress", func(t *testing.T) {
		t.Parallel()
		c := goodConfig()
		c.Host = "::1"
		if got, want := c.Address(), "[::1]:5432/dlq_db"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})

	t.Run("UsesNoTLSOnASocket", func(t *testing.T) {
		t.Parallel()
		c := goodConfig()
		c.Host, c.SSLMode = "/run/postgresql", "require"
		if got := c.pq(credentials{}).SSLMode; got != pq.SSLModeDisable {
			t.Errorf("got %s, want disable", got)
		}
	})

	t.Run("HidesThePassword", func(t *testing.T) {
		t.Parallel()
		c := goodConfig()
		c.Password = "hunter2"
		if got := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(got, "hunter2") {
			t.Errorf("got %s, want the password masked", got)
		}
	})
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()

	if err := goodConfig().Validate(); err != nil {
		t.Errorf("good config: got %v, want nil", err)
	}
	for want, spoil := range map[string]func(*Config){
		"host is empty":                            func(c *Config) { c.Host = "" },
		"port must be 1 to 65535":                  func(c *Config) { c.Port = 65536 },
		"name is empty":                            func(c *Config) { c.Name = "" },
		"user is empty":                            func(c *Config) { c.User = "" },
		"password and password_file exclude":       func(c *Config) { c.Password, c.PasswordFile = "hunter2", "f" },
		"credentials_file excludes password":       func(c *Config) { c.CredentialsFile, c.Password = "f", "hunter2" },
		"ssl_mode must be one of":                  func(c *Config) { c.SSLMode = "on" },
		"verify-ca needs ssl_root_cert":            func(c *Config) { c.SSLMode = "verify-ca" },
		"ssl_cert and ssl_key need each other":     func(c *Config) { c.SSLCert = "c" },
		"connect_timeout must be positive":         func(c *Config) { c.ConnectTimeout = 0 },
		"read_timeout must not be negative (":      func(c *Config) { c.ReadTimeout = -1 },
		"max_open_conns must be at least 1":        func(c *Config) { c.MaxOpenConns, c.MaxIdleConns = 0, 0 },
		"max_idle_conns must be 0":                 func(c *Config) { c.MaxIdleConns = 26 },
		"conn_max_lifetime must not be negative (": func(c *Config) { c.ConnMaxLifetime = -1 },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			c := goodConfig()
			spoil(&c)
			err := c.Validate()
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want exactly one problem: %s", err, want)
			}
		})
	}

	t.Run("ReportsEverythingAtOnce", func(t *testing.T) {
		t.Parallel()
		if got := strings.Count(Config{}.Validate().Error(), "\n"); got < 5 {
			t.Errorf("got %d line breaks, want at least 5", got)
		}
	})
}

func writeSecret(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
