package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// program is a configuration with a field of every kind that the real configurations have.
type program struct {
	App      appSection    `mapstructure:"app"`
	Server   serverSection `mapstructure:"server"`
	Database *dbSection    `mapstructure:"database"`
	Kafka    *kafkaSection `mapstructure:"kafka"`
	Ingest   ingestSection `mapstructure:"ingest"`
	Redrive  struct {
		Auto struct {
			Topics []string `mapstructure:"topics"`
			Jitter float64  `mapstructure:"jitter"`
		} `mapstructure:"auto"`
	} `mapstructure:"redrive"`
}

type appSection struct {
	Name        string `mapstructure:"name"`
	Environment string `mapstructure:"environment"`
}

type serverSection struct {
	Port           int           `mapstructure:"port"`
	StartupTimeout time.Duration `mapstructure:"startup_timeout"`
}

func (s serverSection) Validate() error {
	if s.Port < 1 {
		return errors.New("port must be 1 to 65535")
	}
	return nil
}

type dbSection struct {
	Host            string        `mapstructure:"host"`
	Port            int           `mapstructure:"port"`
	Name            string        `mapstructure:"name"`
	Password        secret.Text   `mapstructure:"password"`
	MaxOpenConns    int           `mapstructure:"max_open_conns"`
	ConnMaxLifetime time.Duration `mapstructure:"conn_max_lifetime"`
	AutoMigrate     bool          `mapstructure:"auto_migrate"`
}

var errNoHost = errors.New("host is empty")

func (d *dbSection) Validate() error {
	var errs []error
	if d.Host == "" {
		errs = append(errs, errNoHost)
	}
	if d.Name == "" {
		errs = append(errs, errors.New("name is empty"))
	}
	return errors.Join(errs...)
}

type mapping struct {
	Pattern  string `mapstructure:"pattern"`
	Original string `mapstructure:"original"`
}

type kafkaSection struct {
	Brokers           []string  `mapstructure:"brokers"`
	ConsumerGroup     string    `mapstructure:"consumer_group"`
	TopicPattern      []string  `mapstructure:"dlq_topic_pattern"`
	RepublishRequired *bool     `mapstructure:"republish_required"`
	TopicMap          []mapping `mapstructure:"topic_map"`
}

type ingestSection struct {
	MaxRecordBytes  int64    `mapstructure:"max_record_bytes"`
	PayloadMaxBytes ByteSize `mapstructure:"payload_max_bytes"`
}

func defaults() program {
	p := program{
		App:      appSection{Name: "dlq-manager", Environment: "dev"},
		Server:   serverSection{Port: 8080, StartupTimeout: 30 * time.Second},
		Database: &dbSection{Port: 5432, Name: "dlq_db", MaxOpenConns: 25, ConnMaxLifetime: 5 * time.Minute},
		Kafka:    &kafkaSection{ConsumerGroup: "dlq-manager.default", TopicPattern: []string{"*.dlq.v1", "*.dead"}},
		Ingest:   ingestSection{MaxRecordBytes: 64 << 20, PayloadMaxBytes: 64 << 10},
	}
	p.Redrive.Auto.Jitter = 0.1
	return p
}

func loadFile(file string, env ...string) (program, []string, error) {
	return Load(filepath.Join("testdata", file), "DLQ_", defaults(), WithEnviron(env))
}

func mustLoad(t *testing.T, file string, env ...string) program {
	t.Helper()
	cfg, warnings, err := loadFile(file, env...)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("got warnings %q and error %v, want none", warnings, err)
	}
	return cfg
}

func wantEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()

	t.Run("ReadsEverySectionOfTheFile", func(t *testing.T) {
		t.Parallel()
		cfg := mustLoad(t, "full.yaml")
		wantEqual(t, "server", cfg.Server, serverSection{9999, time.Minute})
		wantEqual(t, "app", cfg.App, appSection{"dlq-manager", "dev"})
	})

	t.Run("KeepsDefaultsOfWhatTheFileLeavesOut", func(t *testing.T) {
		t.Parallel()
		cfg := mustLoad(t, "empty.yaml")
		want := defaults()
		want.Database, want.Kafka = nil, nil
		wantEqual(t, "config", cfg, want)
	})

	t.Run("ReadsDatabaseSection", func(t *testing.T) {
		t.Parallel()
		wantEqual(t, "database", *mustLoad(t, "full.yaml").Database, dbSection{
			Host: "db.internal", Port: 5432, Name: "dlq_db", Password: "from-file",
			MaxOpenConns: 10, ConnMaxLifetime: 5 * time.Minute,
		})
	})

	t.Run("ReadsKafkaSection", func(t *testing.T) {
		t.Parallel()
		yes := true
		wantEqual(t, "kafka", *mustLoad(t, "full.yaml").Kafka, kafkaSection{
			Brokers: []string{"a:9092", "b:9092"}, ConsumerGroup: "dlq-manager.default",
			TopicPattern: []string{"*.dlq.v1"}, RepublishRequired: &yes,
			TopicMap: []mapping{{"x.*", "x"}, {"y.*", "y"}},
		})
	})

	t.Run("KeepsDefaultsOfKeysWithoutAValue", func(t *testing.T) {
		t.Parallel()
		cfg, _, err := Load(yamlFile(t, "server:\napp: {name: }\ndatabase: {host: h, port: }"), "DLQ_", defaults(), WithEnviron(nil))
		check.NoError(t, err)
		wantEqual(t, "server", cfg.Server, defaults().Server)
		wantEqual(t, "app", cfg.App, defaults().App)
		wantEqual(t, "port", cfg.Database.Port, 5432)
	})

	t.Run("ReadsQuotedNumbers", func(t *testing.T) {
		t.Parallel()
		cfg, _, err := Load(yamlFile(t, `{server: {port: "80"}, redrive: {auto: {jitter: "0.5"}}, database: {host: h, auto_migrate: "true"}}`),
			"DLQ_", defaults(), WithEnviron(nil))
		check.NoError(t, err)
		wantEqual(t, "port", cfg.Server.Port, 80)
		wantEqual(t, "jitter", cfg.Redrive.Auto.Jitter, 0.5)
		wantEqual(t, "auto_migrate", cfg.Database.AutoMigrate, true)
	})

	t.Run("ReadsSizes", func(t *testing.T) {
		t.Parallel()
		wantEqual(t, "ingest", mustLoad(t, "full.yaml").Ingest, ingestSection{32 << 20, 1024})
	})

	t.Run("NeverWritesToDefaults", func(t *testing.T) {
		t.Parallel()
		given := defaults()
		cfg, _, err := Load("testdata/full.yaml", "DLQ_", given, WithEnviron([]string{"DLQ_DATABASE_PORT=1"}))
		check.NoError(t, err)
		cfg.Kafka.TopicPattern[0] = "changed"
		wantEqual(t, "defaults", given, defaults())
	})

	t.Run("NeverSharesListsWithDefaults", func(t *testing.T) {
		t.Parallel()
		given := defaults()
		cfg, _, err := Load("testdata/no-sections.yaml", "DLQ_", given, WithEnviron([]string{"DLQ_KAFKA_BROKERS=a"}))
		check.NoError(t, err)
		cfg.Kafka.TopicPattern[0] = "changed"
		wantEqual(t, "defaults", given, defaults())
	})
}

func TestOptionalSection(t *testing.T) {
	t.Parallel()

	t.Run("IsNilWhenNobodyNamesIt", func(t *testing.T) {
		t.Parallel()
		cfg := mustLoad(t, "no-sections.yaml")
		if cfg.Database != nil || cfg.Kafka != nil {
			t.Errorf("got %v and %v, want nil and nil", cfg.Database, cfg.Kafka)
		}
	})

	t.Run("MustNotBeNull", func(t *testing.T) {
		t.Parallel()
		_, _, err := loadFile("null-sections.yaml", "DLQ_DATABASE_HOST=h")
		wantError(t, err, "database: the section is empty; remove it or fill it in", "kafka: the section is empty", "null-sections.yaml")
		if err != nil && strings.Contains(err.Error(), "server") {
			t.Errorf("got %v, want nothing about a section that is always there", err)
		}
	})

	t.Run("IsThereWhenTheFileHasItEmpty", func(t *testing.T) {
		t.Parallel()
		if _, _, err := loadFile("empty-sections.yaml"); !errors.Is(err, errNoHost) {
			t.Errorf("got %v, want %v: the section must be there and be checked", err, errNoHost)
		}
	})

	t.Run("IsThereByEnvironmentAlone", func(t *testing.T) {
		t.Parallel()
		cfg := mustLoad(t, "no-sections.yaml", "DLQ_DATABASE_HOST=envhost", "DLQ_DATABASE_PASSWORD=p")
		want := *defaults().Database
		want.Host, want.Password = "envhost", "p"
		wantEqual(t, "database", cfg.Database, &want)
		if cfg.Kafka != nil {
			t.Errorf("kafka: got %v, want nil", cfg.Kafka)
		}
	})

	t.Run("StaysNilWhenTheVariableIsEmpty", func(t *testing.T) {
		t.Parallel()
		if cfg := mustLoad(t, "no-sections.yaml", "DLQ_DATABASE_HOST="); cfg.Database != nil {
			t.Errorf("got %v, want nil", cfg.Database)
		}
	})

	t.Run("NeedsNoPointerInDefaults", func(t *testing.T) {
		t.Parallel()
		cfg, _, err := Load("testdata/no-sections.yaml", "DLQ", program{Server: serverSection{Port: 1}}, WithEnviron([]string{"DLQ_KAFKA_BROKERS=a,b"}))
		check.NoError(t, err)
		wantEqual(t, "kafka", cfg.Kafka, &kafkaSection{Brokers: []string{"a", "b"}})
	})
}

func TestEnvironment(t *testing.T) {
	t.Parallel()

	t.Run("BeatsTheFile", func(t *testing.T) {
		t.Parallel()
		cfg := mustLoad(t, "full.yaml",
			"DLQ_SERVER_PORT=7", "DLQ_SERVER_STARTUP_TIMEOUT=2s", "DLQ_DATABASE_PASSWORD=a, b='c' ",
			"DLQ_DATABASE_AUTO_MIGRATE=true", "DLQ_INGEST_MAX_RECORD_BYTES=1KiB", "DLQ_INGEST_PAYLOAD_MAX_BYTES=5",
			"DLQ_REDRIVE_AUTO_JITTER=0.25", "DLQ_KAFKA_REPUBLISH_REQUIRED=false")
		wantEqual(t, "server", cfg.Server, serverSection{7, 2 * time.Second})
		wantEqual(t, "password", cfg.Database.Password.Reveal(), "a, b='c' ")
		wantEqual(t, "auto_migrate", cfg.Database.AutoMigrate, true)
		wantEqual(t, "ingest", cfg.Ingest, ingestSection{1024, 5})
		wantEqual(t, "jitter", cfg.Redrive.Auto.Jitter, 0.25)
		wantEqual(t, "republish_required", *cfg.Kafka.RepublishRequired, false)
	})

	t.Run("DoesNotBeatTheFileWhenEmpty", func(t *testing.T) {
		t.Parallel()
		wantEqual(t, "port", mustLoad(t, "full.yaml", "DLQ_SERVER_PORT=").Server.Port, 9999)
	})

	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"Comma", "a:1, b:2,", []string{"a:1", "b:2"}},
		{"One", "a:1", []string{"a:1"}},
		{"IPv6", "[::1]:9092,[::2]:9092", []string{"[::1]:9092", "[::2]:9092"}},
		{"YAML", `["^a{1,2}$", b]`, []string{"^a{1,2}$", "b"}},
	} {
		t.Run("GivesLists/"+c.name, func(t *testing.T) {
			t.Parallel()
			wantEqual(t, "brokers", mustLoad(t, "full.yaml", "DLQ_KAFKA_BROKERS="+c.text).Kafka.Brokers, c.want)
		})
	}

	t.Run("GivesListsOfMappings", func(t *testing.T) {
		t.Parallel()
		cfg := mustLoad(t, "full.yaml", "DLQ_KAFKA_TOPIC_MAP=[{pattern: z, original: q}]")
		wantEqual(t, "topic_map", cfg.Kafka.TopicMap, []mapping{{"z", "q"}})
	})

	t.Run("ReplacesListsInsteadOfMixingThem", func(t *testing.T) {
		t.Parallel()
		cfg := mustLoad(t, "full.yaml", "DLQ_KAFKA_DLQ_TOPIC_PATTERN=only")
		wantEqual(t, "dlq_topic_pattern", cfg.Kafka.TopicPattern, []string{"only"})
	})

	t.Run("WarnsOfUnknownVariables", func(t *testing.T) {
		t.Parallel()
		_, warnings, err := loadFile("full.yaml", "DLQ_TYPO=hunter2", "DLQ_DATABASE_HOSTS=x", "DLQ_STACK_DATABASE_URL=x", "OTHER=x", "DLQX=1")
		check.NoError(t, err)
		if len(warnings) != 2 || !strings.Contains(warnings[0], "DLQ_DATABASE_HOSTS") || !strings.Contains(warnings[1], "DLQ_TYPO") {
			t.Errorf("got %q, want one for DLQ_DATABASE_HOSTS and one for DLQ_TYPO", warnings)
		}
		if strings.Contains(fmt.Sprint(warnings), "hunter2") {
			t.Errorf("got %q, want no value in it", warnings)
		}
	})

	for _, c := range []struct{ name, entry, want string }{
		{"Number", "DLQ_SERVER_PORT=hunter2", "DLQ_SERVER_PORT: must be a whole number"},
		{"ServiceLink", "DLQ_SERVER_PORT=tcp://10.0.0.1:80", "enableServiceLinks: false"},
		{"Bool", "DLQ_DATABASE_AUTO_MIGRATE=hunter2", "DLQ_DATABASE_AUTO_MIGRATE: must be true or false"},
		{"Duration", "DLQ_SERVER_STARTUP_TIMEOUT=30", "DLQ_SERVER_STARTUP_TIMEOUT: must be a duration"},
		{"Size", "DLQ_INGEST_MAX_RECORD_BYTES=hunter2", "DLQ_INGEST_MAX_RECORD_BYTES: must be a whole number; sizes"},
		{"Float", "DLQ_REDRIVE_AUTO_JITTER=hunter2", "DLQ_REDRIVE_AUTO_JITTER: must be a number"},
		{"Mappings", "DLQ_KAFKA_TOPIC_MAP=hunter2", "DLQ_KAFKA_TOPIC_MAP: must be a YAML list"},
	} {
		t.Run("NamesBadVariable/"+c.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := loadFile("full.yaml", c.entry)
			wantError(t, err, c.want)
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()

	for file, want := range map[string][]string{
		"unknown-key.yaml":           {"unknown key database.max_conn"},
		"unknown-section.yaml":       {"unknown key databse"},
		"unknown-key-in-list.yaml":   {"unknown key kafka.topic_map[0].origin"},
		"wrong-type.yaml":            {"server.port: must be a whole number"},
		"fraction.yaml":              {"server.port: must be a whole number"},
		"out-of-range.yaml":          {"server.port: "},
		"number-for-text.yaml":       {"database.password: must be text, not a number (put it in quotes)"},
		"text-for-bool.yaml":         {"database.auto_migrate: must be true or false"},
		"mapping-for-text.yaml":      {"database.password: must be text, not a mapping"},
		"text-for-section.yaml":      {"database: must be a section"},
		"bad-duration.yaml":          {"database.conn_max_lifetime: must be a duration"},
		"duration-without-unit.yaml": {"database.conn_max_lifetime: must be a duration with its unit"},
		"bad-size.yaml":              {"ingest.max_record_bytes: must be a whole number; sizes"},
		"not-yaml.yaml":              {"not a YAML mapping"},
		"bad-indent.yaml":            {"not valid YAML", "line "},
		"alias.yaml":                 {"not valid YAML", "quotes"},
		"key-twice.yaml":             {"a key is there twice", "server"},
		"invalid.yaml":               {"server: port must be 1 to 65535", "database: host is empty", "database: name is empty"},
		"absent.yaml":                {"config file ", "no such file"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			cfg, _, err := loadFile(file)
			wantError(t, err, append(want, "testdata/"+file)...)
			wantEqual(t, "config returned with an error", cfg, program{})
		})
	}

	t.Run("UnknownKeysWithoutAValue", func(t *testing.T) {
		t.Parallel()
		_, _, err := Load(yamlFile(t, "server: {prot: }\ndatabse: {}"), "DLQ_", defaults(), WithEnviron(nil))
		wantError(t, err, "unknown key server.prot", "unknown key databse")
	})

	t.Run("NoNameForTheFile", func(t *testing.T) {
		t.Parallel()
		_, _, err := Load("", "DLQ_", defaults(), WithEnviron(nil))
		wantError(t, err, "no name given")
	})

	t.Run("AllProblemsAtOnce", func(t *testing.T) {
		t.Parallel()
		_, _, err := loadFile("wrong-type.yaml", "DLQ_REDRIVE_AUTO_JITTER=x")
		wantError(t, err, "server.port", "DLQ_REDRIVE_AUTO_JITTER")
	})
}

// wantError checks that the error contains the parts, and that it keeps the rules for every error: one line, no secret.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want one with %q", parts)
	}
	text := err.Error()
	if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) }) &&
		!strings.Contains(text, "\n") && !strings.Contains(text, "hunter2") {
		return
	}
	t.Errorf("got %q, want one line with %q and without the secret", text, parts)
}

func TestByteSize(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]ByteSize{
		"0": 0, "17": 17, "17B": 17, "64KiB": 65536, "64 MiB": 64 << 20, "1GiB": 1 << 30,
		"5kB": 5000, "5KB": 5000, "2MB": 2e6, "3GB": 3e9,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			var got, again ByteSize
			if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
				t.Fatalf("got %d and %v, want %d", got, err, want)
			}
			if err := again.UnmarshalText([]byte(got.String())); err != nil || again != want {
				t.Errorf("%s read back: got %d and %v, want %d", got, again, err, want)
			}
		})
	}

	for _, text := range []string{"", "KiB", "-1", "1.5MiB", "64 megs", "9999999999GiB", "1KiBB", "0x10"} {
		t.Run("Refuses/"+text, func(t *testing.T) {
			t.Parallel()
			var b ByteSize
			if err := b.UnmarshalText([]byte(text)); err == nil {
				t.Errorf("got %d, want an error", b)
			}
		})
	}
}
