package republisher

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// The values of republish_key.
const (
	// KeyOriginal keeps the record's key, including null and empty keys.
	KeyOriginal = "original"
	// KeyUUID gives every record a new UUID as its key. This breaks consumers that rely on the order of records with
	// the same key, compacted topics, and consumers that read keys of another type.
	KeyUUID = "uuid"
)

// maxTimeout bounds one publish: an attempt must end before another process can settle its claim.
const maxTimeout = 5 * time.Second

// Config sets which messages may be sent back, and how they are sent. Its settings are in the section `kafka`.
type Config struct {
	// RepublishKey is KeyOriginal or KeyUUID.
	RepublishKey string `mapstructure:"republish_key"`
	// RepublishAllow lists the allowed target topics, globs or expressions; empty allows every topic that is not
	// refused for another reason.
	RepublishAllow []string `mapstructure:"republish_allow"`
	// RepublishRequired decides about retries when no Kafka is configured. true: they are refused. false: they resolve
	// messages without sending them. nil: the program decides.
	RepublishRequired *bool `mapstructure:"republish_required"`
	// Timeout is how long the program tries to send a record.
	Timeout time.Duration `mapstructure:"republish_timeout"`
}

// DefaultConfig returns the default settings.
func DefaultConfig() Config { return Config{RepublishKey: KeyOriginal, Timeout: maxTimeout} }

// Validate reports every invalid setting.
func (c Config) Validate() error {
	var problems []error
	if !slices.Contains([]string{KeyOriginal, KeyUUID}, c.RepublishKey) {
		problems = append(problems, fmt.Errorf("kafka.republish_key: %q is neither %s nor %s", c.RepublishKey, KeyOriginal, KeyUUID))
	}
	if c.Timeout < 100*time.Millisecond || c.Timeout > maxTimeout {
		problems = append(problems, fmt.Errorf("kafka.republish_timeout: %s is not between 100ms and %s", c.Timeout, maxTimeout))
	}
	_, err := parseAllowed(c.RepublishAllow)
	return errors.Join(append(problems, err)...)
}

// allowed holds the topics to which attempts may send records: the setting republish_allow.
type allowed struct {
	all      deadletter.Patterns // all patterns of the setting; empty: every topic is allowed
	internal deadletter.Patterns // the patterns of the setting that begin with an underscore
	limited  bool
}

func parseAllowed(list []string) (allowed, error) {
	var problems []error
	var internal []string
	for _, text := range list {
		if _, err := deadletter.ParsePatterns(text); err != nil {
			problems = append(problems, fmt.Errorf("kafka.republish_allow: %s", reason(err)))
		}
		if strings.HasPrefix(strings.TrimPrefix(text, "^"), "_") {
			internal = append(internal, text)
		}
	}
	if err := errors.Join(problems...); err != nil || len(list) == 0 {
		return allowed{}, err
	}
	a := allowed{limited: true}
	a.all, _ = deadletter.ParsePatterns(list...)
	if len(internal) > 0 {
		a.internal, _ = deadletter.ParsePatterns(internal...)
	}
	return a, nil
}

// reason returns the text of a pattern's error without the name of the setting.
func reason(err error) string {
	var field *entity.FieldError
	if errors.As(err, &field) {
		return field.Reason
	}
	return err.Error()
}

// topic reports whether the list allows the topic.
func (a allowed) topic(name string) bool { return !a.limited || a.all.Match(name) }

// names reports whether the list names a topic that begins with an underscore. Only a pattern that also begins with an
// underscore matches such a topic.
func (a allowed) names(topic string) bool { return a.internal.Match(topic) }
