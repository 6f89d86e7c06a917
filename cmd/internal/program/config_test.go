package program

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/config"
)

// root is the path of the repository, relative to this package.
const root = "../../.."

func TestShippedConfigurationsLoad(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, database string
		kafka          bool
	}{
		{"configs/config.yaml", "dlq_db", true},
		{"configs/examples/database.yaml", "dlq_db", false},
		{"configs/examples/server.yaml", "k1s0_dlq", true},
		{"deploy/k8s/base/config.yaml", "k1s0_dlq", true},
		{"deploy/k8s/overlays/dev/config.yaml", "dlq_db", true},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			cfg, warnings, err := load(t, filepath.Join(root, c.file))
			if err != nil || len(warnings) > 0 {
				t.Fatalf("got %v, warnings %v, want it loaded", err, warnings)
			}
			if cfg.Database == nil || cfg.Database.Name != c.database {
				t.Errorf("got the database %+v, want %s", cfg.Database, c.database)
			}
			if cfg.HasKafka() != c.kafka {
				t.Errorf("has kafka: got %v, want %v", cfg.HasKafka(), c.kafka)
			}
		})
	}
	folders, err := fs.Glob(os.DirFS(root), "configs/examples/*")
	if err != nil || len(folders) != 2 {
		t.Errorf("got the examples %v, want the two that are loaded above", folders)
	}
	deployed, err := fs.Glob(os.DirFS(root), "deploy/k8s/*/*/config.yaml")
	if err != nil || len(deployed) != 1 {
		t.Errorf("got the configurations %v of overlays and components, want the one that is loaded above", deployed)
	}
}

func TestReferenceConfiguration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(root, "configs/config.yaml")

	t.Run("ShowsEveryKeyAndNoOther", func(t *testing.T) {
		t.Parallel()
		raw, err := os.ReadFile(path)
		check.NoError(t, err)
		var tree map[string]any
		check.NoError(t, yaml.Unmarshal(raw, &tree))
		shown, want := keysOf(tree, "", config.Keys(DefaultConfig())), config.Keys(DefaultConfig())
		for _, key := range want {
			if !slices.Contains(shown, key) {
				t.Errorf("%s is not shown", key)
			}
		}
		for _, key := range shown {
			if !slices.Contains(want, key) {
				t.Errorf("%s is shown and does not exist", key)
			}
		}
	})

	t.Run("ShowsTheRealDefaults", func(t *testing.T) {
		t.Parallel()
		cfg, _, err := load(t, path)
		check.NoError(t, err)
		want := DefaultConfig()
		// These settings have no default. The values below are those of the example file.
		want.Database.Host, want.Database.Name, want.Database.User = "localhost", "dlq_db", "app"
		want.Kafka.Broker.Brokers = []string{"localhost:9092"}
		for _, section := range []struct{ got, want any }{
			{cfg.App, want.App},
			{cfg.Log, want.Log},
			{cfg.Server, want.Server},
			{*cfg.Database, *want.Database},
			{cfg.Ingest, want.Ingest},
			{cfg.Redrive, want.Redrive},
			{cfg.Archive, want.Archive},
			{cfg.Search, want.Search},
			{cfg.Groups, want.Groups},
			{cfg.Masking, want.Masking},
			{cfg.Schemas, want.Schemas},
			{cfg.Auth, want.Auth},
			{cfg.Console, want.Console},
			{cfg.Notify, want.Notify},
			{cfg.Tracing, want.Tracing},
			{emptyIsNil(*cfg.Kafka), emptyIsNil(*want.Kafka)},
		} {
			if got, want := emptyIsNil(section.got), emptyIsNil(section.want); !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	const database = "database: {host: h, name: n, user: u}\n"
	const kafka = "kafka: {brokers: [\"k:9092\"]}\n"
	for _, c := range []struct {
		name, file string
		environ    []string
		wrong      string // a part of the error; "" when the configuration is valid
		check      func(Config) bool
	}{
		{
			name: "EnvironmentOverridesTheFile", file: database + "server: {port: 1000}\n",
			environ: []string{"DLQ_SERVER_PORT=2000", "DLQ_DATABASE_PASSWORD=s3cret", "DLQ_DATABASE_MAX_OPEN_CONNS=7"},
			check: func(c Config) bool {
				return c.Server.Port == 2000 && c.Database.Password.Reveal() == "s3cret" && c.Database.MaxOpenConns == 7 && c.Database.Host == "h"
			},
		},
		{
			name: "SinksAreRead", file: database + `notify: {sinks: [{name: ops, type: slack, url: "https://example.com/x", topics: [orders], per_minute: 5}]}`,
			check: func(c Config) bool {
				s := c.Notify.Sinks
				return len(s) == 1 && s[0].Name == "ops" && s[0].Topics[0] == "orders" && s[0].PerMinute == 5
			},
		},
		{
			name: "SinksAreChecked", file: database + `notify: {sinks: [{name: ops, type: slack, url: "http://example.com/x"}]}`,
			wrong: "notify.sinks[0].url: must be https",
		},
		{
			name: "ACollectorIsNamed", file: database + "tracing: {endpoint: \"http://collector:4318\", sample_ratio: 0.25}\n",
			environ: []string{"DLQ_TRACING_QUEUE=100", "DLQ_TRACING_TRUST_PARENT=true"},
			check: func(c Config) bool {
				return c.Tracing.Endpoint == "http://collector:4318" && c.Tracing.SampleRatio == 0.25 && c.Tracing.Queue == 100 && c.Tracing.TrustParent
			},
		},
		{name: "CollectorsAreChecked", file: database + "tracing: {endpoint: \"collector:4317\"}\n", wrong: "tracing.endpoint must be a URL"},
		{
			name: "EnvironmentSetsListsByComma", file: database + kafka,
			environ: []string{"DLQ_KAFKA_BROKERS=a:1,b:2", "DLQ_KAFKA_DLQ_TOPIC_PATTERN=*.dlq,*.dlt"},
			check: func(c Config) bool {
				return slices.Equal(c.Kafka.Broker.Brokers, []string{"a:1", "b:2"}) && slices.Equal(c.Kafka.DLQTopicPattern, []string{"*.dlq", "*.dlt"})
			},
		},
		{
			name: "OnePatternNeedsNoList", file: database + "kafka: {brokers: [\"k:9092\"], dlq_topic_pattern: \"*.dead\"}\n",
			check: func(c Config) bool { return slices.Equal(c.Kafka.DLQTopicPattern, []string{"*.dead"}) },
		},
		{
			name: "WithoutSectionsThereIsNoDatabaseAndNoKafka", file: "app: {name: x}\n",
			check: func(c Config) bool {
				return c.Database == nil && c.Kafka == nil && !c.HasKafka() && !c.RepublishRequired()
			},
		},
		{
			name: "SignInAtAnIssuer", file: "auth: {mode: oidc, oidc: {issuer: \"https://id.example.com\", audience: dlq, grants: [{value: ops, role: viewer, topics: [\"*\"]}]}}\n",
			environ: []string{"DLQ_AUTH_OIDC_CLIENT_ID=console", "DLQ_AUTH_OIDC_REDIRECT_URL=https://dlq.example.com/sign-in/callback", "DLQ_AUTH_OIDC_SCOPES=openid,groups"},
			check: func(c Config) bool {
				return c.Auth.SignsIn() && slices.Equal(c.Auth.OIDC.Scopes, []string{"openid", "groups"}) && c.Console.Enabled
			},
		},
		{
			name: "SignInThatCannotComeBack", file: "auth: {mode: oidc, oidc: {issuer: \"https://id.example.com\", audience: dlq, client_id: console, redirect_url: \"http://dlq.example.com/\", grants: [{value: ops, role: viewer, topics: [\"*\"]}]}}\n",
			wrong: "auth.oidc.redirect_url",
		},
		{name: "ProductionNeedsADatabase", file: "app: {environment: production}\n", wrong: "database"},
		{
			name: "ProductionRequiresRepublishing", file: "app: {environment: production}\n" + database,
			check: Config.RepublishRequired,
		},
		{
			name: "ProductionRequiresRepublishingUnlessSet", file: "app: {environment: production}\n" + database + "kafka: {republish_required: false}\n",
			check: func(c Config) bool { return !c.RepublishRequired() && !c.HasKafka() },
		},
		{
			name: "ElsewhereRepublishingIsRequiredWhenSet", file: database, environ: []string{"DLQ_KAFKA_REPUBLISH_REQUIRED=true"},
			check: Config.RepublishRequired,
		},
		{name: "UnknownKeyIsNamed", file: database + "server: {prot: 1}\n", wrong: "server.prot"},
		{name: "WrongTypeIsNamed", file: database + "server: {port: eighty}\n", wrong: "server.port"},
		{name: "BadPatternIsNamed", file: database + "kafka: {brokers: [\"k:9092\"], dlq_topic_pattern: \"^[\"}\n", wrong: "dlq_topic_pattern"},
		{name: "OriginsAreChecked", file: database + "kafka: {brokers: [\"k:9092\"], origins: [{dlq: \"*.dlq\", originals: [\"$2\"]}]}\n", wrong: "kafka.origins[0].originals[0]"},
		{name: "OriginTrustIsChecked", file: database + "kafka: {brokers: [\"k:9092\"], origin_trust: all}\n", wrong: "kafka.origin_trust"},
		{name: "PointerTopicsAreChecked", file: database + "kafka: {brokers: [\"k:9092\"], pointer_topics: [\"^(\"]}\n", wrong: "kafka.pointer_topics[0]"},
		{
			name: "EnvironmentSetsOrigins", file: database + kafka,
			environ: []string{`DLQ_KAFKA_ORIGINS=[{dlq: "*.dlq.v1", originals: ["$1.*"]}]`, "DLQ_KAFKA_ORIGIN_TRUST=declared"},
			check: func(c Config) bool {
				d := c.Kafka.DeadLetter
				return len(d.Origins) == 1 && d.Origins[0].DLQ == "*.dlq.v1" && slices.Equal(d.Origins[0].Originals, []string{"$1.*"}) && d.OriginTrust == "declared"
			},
		},
		{name: "EmptyGroupIsNamed", file: database + "kafka: {brokers: [\"k:9092\"], consumer_group: \"\"}\n", wrong: "kafka.consumer_group"},
		{name: "UnknownAuthModeIsNamed", file: database + "auth: {mode: oidc}\n", wrong: "auth.oidc.issuer"},
		{name: "EveryProblemIsNamed", file: "database: {host: h}\nauth: {mode: x}\n", wrong: "auth.mode"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "config.yaml")
			check.NoError(t, os.WriteFile(path, []byte(c.file), 0o600))
			cfg, _, err := load(t, path, c.environ...)
			switch {
			case c.wrong == "" && err != nil:
				t.Errorf("got %v, want it loaded", err)
			case c.wrong == "" && !c.check(cfg):
				t.Errorf("got %+v (database %+v, kafka %+v), want what was set", cfg, cfg.Database, cfg.Kafka)
			case c.wrong != "" && err == nil:
				t.Errorf("got no error, want one with %s", c.wrong)
			case c.wrong != "" && (!strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n")):
				t.Errorf("got %q, want one line with the file and %s", err, c.wrong)
			}
		})
	}
}

func load(t *testing.T, path string, environ ...string) (Config, []string, error) {
	t.Helper()
	return config.Load(path, "DLQ_", DefaultConfig(), config.WithEnviron(environ))
}

// keysOf returns the keys in a YAML document that have values. A setting whose value is a mapping counts as one key.
func keysOf(tree map[string]any, parent string, settings []string) (keys []string) {
	for name, value := range tree {
		key := strings.TrimPrefix(parent+"."+name, ".")
		if inner, ok := value.(map[string]any); ok && !slices.Contains(settings, key) {
			keys = append(keys, keysOf(inner, key, settings)...)
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

// emptyIsNil sets the empty lists of a section to nil: in the configuration file, an empty list means the same as no
// list.
func emptyIsNil(section any) any {
	v := reflect.New(reflect.TypeOf(section)).Elem()
	v.Set(reflect.ValueOf(section))
	clear := func(v reflect.Value) {}
	clear = func(v reflect.Value) {
		for i := range v.NumField() {
			switch f := v.Field(i); {
			case f.Kind() == reflect.Slice && f.Len() == 0 && f.CanSet():
				f.SetZero()
			case f.Kind() == reflect.Struct && f.CanSet():
				clear(f)
			}
		}
	}
	if v.Kind() == reflect.Struct {
		clear(v)
	}
	return v.Interface()
}

// A configuration in which the ingester does not read the topic of the heartbeats is refused, because the alert about
// missing heartbeats would fire forever.
func TestConfig_HeartbeatsCanBeSeen(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Kafka.Broker.Brokers = []string{"kafka:9092"}
	for topic, want := range map[string]bool{"": true, "heartbeat.dlq.v1": true, "orders.events.v1": false} {
		cfg.Heartbeat.Topic = topic
		if err := cfg.Validate(); (err == nil) != want {
			t.Errorf("topic %q: got %v, want it accepted: %t", topic, err, want)
		}
	}
	cfg.Heartbeat.Topic, cfg.Database = "heartbeat.dlq.v1", nil
	if cfg.Validate() == nil {
		t.Error("got nil without a database, want an error")
	}
}
