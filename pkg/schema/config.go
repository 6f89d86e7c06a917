package schema

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Config names the registries, and the schemas for topics whose records do not name their schema. When it names no
// registry, nothing is decoded.
type Config struct {
	Registries []RegistryConfig `mapstructure:"registries"`
	Topics     []TopicConfig    `mapstructure:"topics"`
	// Timeout limits one request to a registry, and the time that one reader waits for all its requests; see refill.
	Timeout time.Duration `mapstructure:"timeout"`
	// MaxBytes limits a schema together with all that it imports. The fault of a larger one is entity.SchemaError.
	MaxBytes int `mapstructure:"max_bytes"`
}

// RegistryConfig is one registry. The schemas of a message are read from the first registry whose Topics match the
// message's original topic. If there is none, they are read from the first registry whose Topics match its dead-letter
// topic.
type RegistryConfig struct {
	Name            string   `mapstructure:"name"`
	URL             string   `mapstructure:"url"`
	Topics          []string `mapstructure:"topics"` // globs or regular expressions; an empty list matches all topics
	Username        string   `mapstructure:"username"`
	PasswordFile    string   `mapstructure:"password_file"`
	TokenFile       string   `mapstructure:"token_file"`
	CAFile          string   `mapstructure:"ca_file"`
	SubjectStrategy string   `mapstructure:"subject_strategy"` // topic_name (default), record_name or topic_record_name
}

// TopicConfig names the subject for a topic whose records do not name their schema. Such records are decoded with the
// latest version of this subject.
type TopicConfig struct {
	Topic    string `mapstructure:"topic"` // original or dead-letter topic
	Part     string `mapstructure:"part"`  // value (default) or key
	Registry string `mapstructure:"registry"`
	Subject  string `mapstructure:"subject"`
}

// The rules by which producers derive the name of a subject from the topic and from the schema's type.
const (
	topicName       = "topic_name"
	recordName      = "record_name"
	topicRecordName = "topic_record_name"
)

// DefaultConfig names no registry.
func DefaultConfig() Config { return Config{Timeout: 2 * time.Second, MaxBytes: 1 << 20} }

// Validate reports every problem at once.
func (c Config) Validate() error {
	var p problems
	p.check(c.Timeout >= 100*time.Millisecond && c.Timeout <= 30*time.Second, "schemas.timeout must be 100ms to 30s, not %s", c.Timeout)
	p.check(c.MaxBytes >= 1<<10 && c.MaxBytes <= 16<<20, "schemas.max_bytes must be 1KiB to 16MiB, not %d", c.MaxBytes)
	names := map[string]bool{}
	for i, r := range c.Registries {
		at := fmt.Sprintf("schemas.registries[%d]", i)
		p.check(r.Name != "", "%s.name is empty", at)
		p.check(!names[r.Name], "%s.name %q is not unique", at, r.Name)
		names[r.Name] = true
		r.validate(&p, at)
	}
	for i, t := range c.Topics {
		at := fmt.Sprintf("schemas.topics[%d]", i)
		p.check(entity.ValidTopic(t.Topic), "%s.topic must be the name of a topic, not %q", at, t.Topic)
		p.check(slices.Contains([]string{"", "key", "value"}, t.Part), "%s.part must be key or value, not %q", at, t.Part)
		p.check(names[t.Registry], "%s.registry must be the name of one of schemas.registries, not %q", at, t.Registry)
		p.check(t.Subject != "", "%s.subject is empty", at)
	}
	return errors.Join(p...)
}

type problems []error

func (p *problems) check(ok bool, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

func (c RegistryConfig) validate(p *problems, at string) {
	address, err := url.Parse(c.URL)
	p.check(err == nil && (address.Scheme == "http" || address.Scheme == "https") && address.Host != "" && address.User == nil &&
		address.RawQuery == "" && address.Fragment == "", "%s.url must be an http or https address without user, query and fragment", at)
	if len(c.Topics) > 0 {
		_, err := entity.ParseTopicPatterns(at+".topics", c.Topics...)
		p.check(err == nil, "%v", err)
	}
	p.check(c.TokenFile == "" || c.Username == "" && c.PasswordFile == "", "%s: token_file excludes username and password_file", at)
	p.check((c.Username == "") == (c.PasswordFile == ""), "%s: username and password_file need each other", at)
	p.check(slices.Contains([]string{"", topicName, recordName, topicRecordName}, c.SubjectStrategy),
		"%s.subject_strategy must be topic_name, record_name or topic_record_name, not %q", at, c.SubjectStrategy)
}

// roots returns the certificate authorities in ca_file; nil means those of the system.
func (c RegistryConfig) roots() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil //nolint:nilnil // the certificates of the system
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read ca_file of schema registry %s: %w", c.Name, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca_file of schema registry %s has no certificate", c.Name)
	}
	return pool, nil
}
