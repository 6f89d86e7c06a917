package program

import (
	"errors"
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/archive"
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/console"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/heartbeat"
	"github.com/dlq-manager/dlq-manager/pkg/ingest"
	"github.com/dlq-manager/dlq-manager/pkg/notify"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/republisher"
	"github.com/dlq-manager/dlq-manager/pkg/rest"
	"github.com/dlq-manager/dlq-manager/pkg/schema"
	"github.com/dlq-manager/dlq-manager/pkg/search"
	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

// Config is the content of the configuration file, which all programs share. Most sections are defined by the packages
// that they configure.
type Config struct {
	App      App                 `mapstructure:"app"`
	Log      telemetry.LogConfig `mapstructure:"log"`
	Server   rest.Config         `mapstructure:"server"`
	Database *postgres.Config    `mapstructure:"database"` // nil when the store is in memory
	Kafka    *Kafka              `mapstructure:"kafka"`    // nil when the file has no section kafka; see HasKafka
	Ingest   ingest.Config       `mapstructure:"ingest"`
	Redrive  redrive.Config      `mapstructure:"redrive"`
	Archive  archive.Config      `mapstructure:"archive"`
	Search   search.Config       `mapstructure:"search"`
	Groups   fingerprint.Config  `mapstructure:"groups"`
	Masking  payload.MaskConfig  `mapstructure:"masking"`
	Schemas  schema.Config       `mapstructure:"schemas"`
	Auth     auth.Config         `mapstructure:"auth"`
	Console  console.Config      `mapstructure:"console"`

	Heartbeat heartbeat.Config `mapstructure:"heartbeat"`
	Notify    notify.Config    `mapstructure:"notify"`

	Tracing telemetry.TracingConfig `mapstructure:"tracing"`
}

// App identifies the deployment. Log lines and the metric dlq_build_info show the name, the version and the tier; the
// console's pages show the name and the environment.
type App struct {
	Name        string `mapstructure:"name"`
	Version     string `mapstructure:"version"`
	Tier        string `mapstructure:"tier"`
	Environment string `mapstructure:"environment"`
}

// Kafka configures the cluster and everything that uses it.
type Kafka struct {
	Broker          broker.Config      `mapstructure:",squash"`
	Republish       republisher.Config `mapstructure:",squash"`
	DeadLetter      deadletter.Config  `mapstructure:",squash"`
	ConsumerGroup   string             `mapstructure:"consumer_group"`
	DLQTopicPattern []string           `mapstructure:"dlq_topic_pattern"`
}

// DefaultConfig returns the values of settings that the file does not contain.
func DefaultConfig() Config {
	database := postgres.DefaultConfig()
	return Config{
		App:      App{Name: "dlq-manager", Tier: "system", Environment: "dev"},
		Log:      telemetry.DefaultLogConfig(),
		Server:   rest.DefaultConfig(),
		Database: &database,
		Kafka: &Kafka{
			Broker:          broker.DefaultConfig(),
			Republish:       republisher.DefaultConfig(),
			DeadLetter:      deadletter.DefaultConfig(),
			ConsumerGroup:   "dlq-manager.default",
			DLQTopicPattern: []string{"*.dlq.v1"},
		},
		Ingest:  ingest.DefaultConfig(),
		Redrive: redrive.DefaultConfig(),
		Archive: archive.DefaultConfig(),
		Search:  search.DefaultConfig(),
		Groups:  fingerprint.DefaultConfig(),
		Masking: payload.DefaultMaskConfig(),
		Schemas: schema.DefaultConfig(),
		Auth:    auth.DefaultConfig(),
		Console: console.DefaultConfig(),

		Heartbeat: heartbeat.DefaultConfig(),
		Notify:    notify.DefaultConfig(),

		Tracing: telemetry.DefaultTracingConfig(),
	}
}

// Production reports whether app.environment is production, in which the programs refuse to start without a database.
func (c Config) Production() bool { return c.App.Environment == "production" }

// HasKafka reports whether brokers are configured. A section kafka without brokers is only valid if it sets
// republish_required: otherwise an operator who forgot the brokers would get a program without Kafka, and no error
// about it.
func (c Config) HasKafka() bool { return c.Kafka != nil && len(c.Kafka.Broker.Brokers) > 0 }

// RepublishRequired reports whether a program without Kafka must refuse a retry. The default is true in production
// only.
func (c Config) RepublishRequired() bool {
	if c.Kafka != nil && c.Kafka.Republish.RepublishRequired != nil {
		return *c.Kafka.Republish.RepublishRequired
	}
	return c.Production()
}

// Validate checks rules that concern several sections.
func (c Config) Validate() error {
	if c.Production() && c.Database == nil {
		return errors.New("database: app.environment is production, so the section is needed")
	}
	return c.validateHeartbeat()
}

// validateHeartbeat returns an error when a heartbeat topic is set, but Kafka or the database is missing, or the
// ingester would never read this topic.
func (c Config) validateHeartbeat() error {
	topic := c.Heartbeat.Topic
	if topic == "" {
		return nil
	}
	if !c.HasKafka() || c.Database == nil {
		return errors.New("heartbeat.topic: heartbeats need both kafka and a database")
	}
	patterns, _, err := c.Kafka.DeadLetters(nil)
	if err == nil && !patterns.Match(topic) { // when ParsePatterns returns an error, the validation of the section kafka reports it
		return fmt.Errorf("heartbeat.topic: %q is no dead-letter topic by kafka.dlq_topic_pattern, so the ingester does not read it", topic)
	}
	return nil
}

// DeadLetters returns the patterns of dead-letter topics and the decoder of their records. The decoder accepts no
// dead-letter topic as an original topic. The function reserved reports whether a topic is for dead letters of share
// groups, so that it is no original topic either; nil means that there are no such topics.
func (k *Kafka) DeadLetters(reserved func(topic string) bool) (deadletter.Patterns, *deadletter.Decoder, error) {
	patterns, err := deadletter.ParsePatterns(k.DLQTopicPattern...)
	if err != nil {
		return deadletter.Patterns{}, nil, err
	}
	decoder, err := deadletter.New(k.DeadLetter, patterns.Or(reserved))
	return patterns, decoder, err
}

// Validate checks the settings of the section kafka. It leaves out those of the broker if there are no brokers and
// republish_required is set.
func (k *Kafka) Validate() error {
	var errs []error
	if k.ConsumerGroup == "" {
		errs = append(errs, errors.New("kafka.consumer_group: must not be empty"))
	}
	_, _, err := k.DeadLetters(nil)
	_, errOrigins := deadletter.NewOrigins(k.DeadLetter)
	_, errPointers := k.DeadLetter.Pointers()
	_, errShares := k.DeadLetter.ShareTopics()
	errs = append(errs, err, errOrigins, errPointers, errShares)
	if len(k.Broker.Brokers) > 0 || k.Republish.RepublishRequired == nil {
		errs = append(errs, k.Broker.Validate())
	}
	return errors.Join(append(errs, k.Republish.Validate())...)
}
