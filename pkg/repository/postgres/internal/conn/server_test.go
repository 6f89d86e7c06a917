package conn

import (
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

func TestOpenOnServer(t *testing.T) {
	t.Parallel()

	for name, password := range map[string]string{
		"Quotes":      `it's "quoted"`,
		"Backslashes": `a\b\\c\`,
		"Spaces":      " two  spaces ",
		"Separators":  "p@ss:w/rd?x=y&z#%20",
		"Unicode":     "pässwörd-密",
		"Looks":       "sslmode=disable host=elsewhere",
	} {
		postgrestest.Parallel(t, "SignsInWithAnyPassword/"+name, func(t *testing.T) {
			db := openAs(t, serverRole(t, password), password)
			postgrestest.WantUser(t, db, "")
		})
	}

	postgrestest.Parallel(t, "SpeaksUTCAndSaysWhoItIs", func(t *testing.T) {
		db := openAs(t, serverRole(t, "p"), "p")
		var zone, app string
		check.NoError(t, db.QueryRow("SELECT current_setting('TimeZone'), current_setting('application_name')").Scan(&zone, &app))
		check.True(t, zone == "UTC" && app == "dlq-manager", "got %s and %s, want UTC and dlq-manager", zone, app)
	})

	postgrestest.Parallel(t, "SendsBytesAsBytes", func(t *testing.T) {
		db := openAs(t, serverRole(t, "p"), "p")
		var size int
		if err := db.QueryRow(`SELECT length($1::bytea)`, []byte(`\x4142`)).Scan(&size); err != nil || size != 6 {
			t.Errorf("got length %d and %v, want 6: the text must not be read as hex", size, err)
		}
	})

	postgrestest.Parallel(t, "FollowsAChangedPassword", func(t *testing.T) {
		cfg := serverRole(t, "first")
		cfg.PasswordFile = filepath.Join(t.TempDir(), "password")
		postgrestest.WriteSecret(t, cfg.PasswordFile, "first\n")
		db := openConfig(t, cfg)
		held := postgrestest.HoldConnection(t, db)

		postgrestest.AsAdmin(t, "ALTER ROLE "+cfg.User+" PASSWORD 'second'")
		if _, err := db.Conn(t.Context()); !rejected(err) || strings.Contains(err.Error(), "first") {
			t.Fatalf("before the file changes: got %v, want a refusal without the password", err)
		}
		postgrestest.WriteSecret(t, cfg.PasswordFile, "second\n")
		postgrestest.WantUser(t, db, cfg.User)
		check.NoError(t, held.PingContext(t.Context()))
	})

	postgrestest.Parallel(t, "FollowsAChangedRole", func(t *testing.T) {
		first, second := serverRole(t, "p1"), serverRole(t, "p2")
		cfg := first
		cfg.User, cfg.CredentialsFile = "", filepath.Join(t.TempDir(), "credentials")
		postgrestest.WriteSecret(t, cfg.CredentialsFile, "username: "+first.User+"\npassword: p1\n")
		db := openConfig(t, cfg)
		postgrestest.HoldConnection(t, db)
		postgrestest.WantUser(t, db, first.User)

		idle := postgrestest.HoldConnection(t, db)
		postgrestest.WriteSecret(t, cfg.CredentialsFile, "username: "+second.User+"\npassword: p2\n")
		check.NoError(t, idle.Close())
		postgrestest.WantUser(t, db, first.User) // the role still exists, so the open connection keeps its user
		for range 2 {
			held := postgrestest.HoldConnection(t, db) // while this connection is in use, the pool has to open a new one
			defer held.Close()
		}
		postgrestest.WantUser(t, db, second.User)
	})

	postgrestest.Parallel(t, "SignsInWithTheLastWhileTheFileIsGone", func(t *testing.T) {
		cfg := serverRole(t, "p")
		cfg.PasswordFile = filepath.Join(t.TempDir(), "password")
		postgrestest.WriteSecret(t, cfg.PasswordFile, "p")
		db := openConfig(t, cfg)
		held := postgrestest.HoldConnection(t, db)
		for _, content := range []string{"", "\n", "half"} {
			postgrestest.WriteSecret(t, cfg.PasswordFile, content)
			postgrestest.HoldConnection(t, db)
		}
		check.NoError(t, os.Remove(cfg.PasswordFile))
		postgrestest.HoldConnection(t, db)

		postgrestest.AsAdmin(t, "ALTER ROLE "+cfg.User+" PASSWORD 'q'")
		if _, err := db.Conn(t.Context()); !rejected(err) || !strings.Contains(err.Error(), cfg.PasswordFile) {
			t.Errorf("got %v, want the refusal, and the file named", err)
		}
		check.NoError(t, held.PingContext(t.Context()))
	})

	postgrestest.Parallel(t, "StartsWithNoFileAtAllByNamingIt", func(t *testing.T) {
		cfg := serverRole(t, "p")
		cfg.PasswordFile = filepath.Join(t.TempDir(), "password")
		db := openConfig(t, cfg)
		_, err := db.Conn(t.Context())
		check.True(t, err != nil && strings.Contains(err.Error(), cfg.PasswordFile) && transient(err),
			"got %v, want the file named, and to be tried again later", err)
		postgrestest.WriteSecret(t, cfg.PasswordFile, "p\r\n")
		postgrestest.WantUser(t, db, cfg.User)
	})
}

// serverRole creates a role on the real server that may sign in, and returns a Config for it, without the password.
func serverRole(t *testing.T, password string) Config {
	t.Helper()
	at := check.Must(url.Parse(stacktest.Postgres(t)))(t)
	role := "connect_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	postgrestest.AsAdmin(t, "CREATE ROLE "+role+" LOGIN PASSWORD "+pq.QuoteLiteral(password))
	t.Cleanup(func() { postgrestest.AsAdmin(t, "DROP ROLE "+role) })

	c := goodConfig()
	c.Host, c.Name, c.User = at.Hostname(), strings.TrimPrefix(at.Path, "/"), role
	c.Port = check.Must(strconv.Atoi(at.Port()))(t)
	return c
}

func openAs(t *testing.T, c Config, password string) *sqlx.DB {
	t.Helper()
	c.PasswordFile = filepath.Join(t.TempDir(), "password")
	postgrestest.WriteSecret(t, c.PasswordFile, password+"\n")
	return openConfig(t, c)
}
