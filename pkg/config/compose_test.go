package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// connection and mappings stand for the configuration structs of two packages whose settings are in the same section of
// the file.
type connection struct {
	Brokers []string `mapstructure:"brokers"`
	SASL    struct {
		User string `mapstructure:"username"`
	} `mapstructure:"sasl"`
}

func (c connection) Validate() error {
	if len(c.Brokers) == 0 {
		return errors.New("kafka.brokers: at least one is needed")
	}
	return nil
}

type mappings struct {
	TopicMap []mapping `mapstructure:"topic_map"`
}

func (m mappings) Validate() error {
	if len(m.TopicMap) == 1 {
		return errors.New("topic_map: one rule is not enough")
	}
	return nil
}

type composed struct {
	Kafka *struct {
		Connection    connection `mapstructure:",squash"`
		Mappings      mappings   `mapstructure:",squash"`
		ConsumerGroup string     `mapstructure:"consumer_group"`
	} `mapstructure:"kafka"`
}

func TestSquashedParts(t *testing.T) {
	t.Parallel()

	t.Run("ShareOneSection", func(t *testing.T) {
		t.Parallel()
		cfg, _, err := Load(yamlFile(t, "kafka: {brokers: [a], consumer_group: g, sasl: {username: u}}"),
			"DLQ_", composed{}, WithEnviron([]string{"DLQ_KAFKA_TOPIC_MAP=[{pattern: a}, {pattern: b}]"}))
		check.NoError(t, err)
		wantEqual(t, "brokers", cfg.Kafka.Connection.Brokers, []string{"a"})
		wantEqual(t, "user", cfg.Kafka.Connection.SASL.User, "u")
		wantEqual(t, "topic_map", cfg.Kafka.Mappings.TopicMap, []mapping{{"a", ""}, {"b", ""}})
		wantEqual(t, "group", cfg.Kafka.ConsumerGroup, "g")
	})

	t.Run("AreEachValidated", func(t *testing.T) {
		t.Parallel()
		_, _, err := Load(yamlFile(t, "kafka: {topic_map: [{pattern: a}]}"), "DLQ_", plain{}, WithEnviron(nil))
		wantError(t, err, "c.yaml: kafka.brokers: at least one", "c.yaml: kafka: topic_map: one rule")
	})
}

// plain is a configuration with a section that has no method Validate.
type plain struct {
	Kafka struct {
		Connection connection `mapstructure:",squash"`
		Mappings   mappings   `mapstructure:",squash"`
	} `mapstructure:"kafka"`
}

func yamlFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestKeysListsEverySettingOfEverySection(t *testing.T) {
	t.Parallel()
	wantEqual(t, "keys", Keys(composed{}), []string{"kafka.brokers", "kafka.consumer_group", "kafka.sasl.username", "kafka.topic_map"})
}
