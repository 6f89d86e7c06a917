package notify

import (
	"strings"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	good := SinkConfig{Name: "ops", Type: TypeWebhook, URL: "https://example.com/secret-path"}
	with := func(change func(*SinkConfig)) func(*Config) {
		s := good
		change(&s)
		return func(c *Config) { c.Sinks = []SinkConfig{s} }
	}
	for _, c := range []struct {
		name, wrong string // wrong: expected part of the error; "" when the configuration is valid
		change      func(*Config)
	}{
		{"Default", "", func(*Config) {}},
		{"Sink", "", with(func(*SinkConfig) {})},
		{"LocalSinkWithoutTLS", "", with(func(s *SinkConfig) { s.URL = "http://127.0.0.1:9000/" })},
		{"RemoteSinkWithoutTLS", "notify.sinks[0].url: must be https", with(func(s *SinkConfig) { s.URL = "http://example.com/secret-path" })},
		{"SinkThatLooksLocal", "notify.sinks[0].url: must be https", with(func(s *SinkConfig) { s.URL = "http://localhost.example.com/secret-path" })},
		{"SinkWithPassword", "notify.sinks[0].url: must not name a user", with(func(s *SinkConfig) { s.URL = "https://a:secret-path@example.com/" })},
		{"SinkOfAnotherScheme", "notify.sinks[0].url", with(func(s *SinkConfig) { s.URL = "file:///secret-path" })},
		{"SinkNowhere", "notify.sinks[0].url: either", with(func(s *SinkConfig) { s.URL = "" })},
		{"SinkTwice", "notify.sinks[0].url: either", with(func(s *SinkConfig) { s.URLFile = "/secret-path" })},
		{"UnknownType", "notify.sinks[0].type", with(func(s *SinkConfig) { s.Type = "email" })},
		{"UnknownKind", "notify.sinks[0].kinds", with(func(s *SinkConfig) { s.Kinds = []string{"new"} })},
		{"WrongTopic", "notify.sinks[0].topics", with(func(s *SinkConfig) { s.Topics = []string{"a b"} })},
		{"SignedSlack", "notify.sinks[0].secret_file", with(func(s *SinkConfig) { s.Type, s.SecretFile = TypeSlack, "/f" })},
		{"Name", "notify.sinks[0].name", with(func(s *SinkConfig) { s.Name = "Ops Team" })},
		{"SameName", "notify.sinks[1].name", func(c *Config) { c.Sinks = []SinkConfig{good, good} }},
		{"Pace", "notify.sinks[0].per_minute", with(func(s *SinkConfig) { s.PerMinute = -1 })},
		{"Repeat", "notify.repeat", func(c *Config) { c.Repeat = 25 * time.Hour }},
		{"Spike", "notify.spike.factor", func(c *Config) { c.Spike.Factor = 0 }},
		{"Console", "notify.console_url", func(c *Config) { c.ConsoleURL = "dlq.example.com" }},
	} {
		cfg := DefaultConfig()
		c.change(&cfg)
		err := cfg.Validate()
		if (err == nil) != (c.wrong == "") || err != nil && (!strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "secret-path")) {
			t.Errorf("%s: got %v, want %q, and no URL", c.name, err, c.wrong)
		}
	}
}
