package notify

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	TypeWebhook = "webhook" // a CloudEvent, signed
	TypeSlack   = "slack"   // text for an incoming webhook of Slack or of a compatible receiver
)

// Config holds the receivers of notifications, and the intervals and timeouts.
type Config struct {
	Sinks []SinkConfig `mapstructure:"sinks"` // none: notifications are off
	// Interval is the pause between queries for events or for due notifications, while there are none.
	Interval time.Duration `mapstructure:"interval"`
	// Window is the time for which events of one kind and object are collected into one notification of a sink.
	Window time.Duration `mapstructure:"window"`
	// Repeat is the shortest time between two notifications of a sink about the same kind and object.
	Repeat time.Duration `mapstructure:"repeat"`
	// GiveUp is the age from which an event causes no notification, and a notification is not tried again.
	GiveUp  time.Duration `mapstructure:"give_up"`
	Timeout time.Duration `mapstructure:"timeout"` // a request to a receiver that takes longer has failed
	// Backoff is the pause after the first failed try, doubled after each further failed try up to BackoffMax.
	Backoff    time.Duration `mapstructure:"backoff"`
	BackoffMax time.Duration `mapstructure:"backoff_max"`
	Spike      SpikeConfig   `mapstructure:"spike"`
	Source     string        `mapstructure:"source"`
	// ConsoleURL is the URL of the console, for links in notifications; "" for no links.
	ConsoleURL string `mapstructure:"console_url"`
}

// SpikeConfig defines an unusual number of arrivals; see repository.SpikeRule.
type SpikeConfig struct {
	Factor  float64 `mapstructure:"factor"`
	Minimum int64   `mapstructure:"minimum"`
}

// SinkConfig is one receiver of notifications.
type SinkConfig struct {
	Name string `mapstructure:"name"`
	Type string `mapstructure:"type"`
	// URL is the receiver's URL. URLFile is a file that holds the URL and is read for every notification, because the URL
	// of an incoming webhook is a secret.
	URL     string `mapstructure:"url"`
	URLFile string `mapstructure:"url_file"`
	// SecretFile holds the secrets that sign a webhook, one per line, and is read for every notification; "" for no
	// signature.
	SecretFile string `mapstructure:"secret_file"`
	// Kinds and Topics select what is sent; empty Kinds means all. Events of unknown topics are sent only to sinks
	// without Topics.
	Kinds  []string `mapstructure:"kinds"`
	Topics []string `mapstructure:"topics"`
	// PerMinute is the maximum number of tries a minute, by all processes together; more notifications wait. 0 means
	// defaultPerMinute.
	PerMinute int `mapstructure:"per_minute"`
}

const (
	defaultPerMinute = 20
	maxPerMinute     = 600
	maxSinks         = 50
)

// DefaultConfig returns settings without receivers.
func DefaultConfig() Config {
	return Config{
		Interval: 2 * time.Second, Window: 30 * time.Second, Repeat: 15 * time.Minute, GiveUp: 24 * time.Hour,
		Timeout: 10 * time.Second, Backoff: 5 * time.Second, BackoffMax: 10 * time.Minute,
		Spike: SpikeConfig{Factor: 10, Minimum: 100}, Source: "/dlq-manager",
	}
}

// Validate reports every invalid setting, by its key.
func (c Config) Validate() error {
	var errs []error
	between := func(key string, got, low, high time.Duration) {
		if got < low || got > high {
			errs = append(errs, fmt.Errorf("notify.%s must be %s to %s, not %s", key, low, high, got))
		}
	}
	between("interval", c.Interval, 100*time.Millisecond, time.Minute)
	between("window", c.Window, 0, time.Hour)
	between("repeat", c.Repeat, 0, repository.NotificationLife)
	between("give_up", c.GiveUp, 10*time.Minute, 7*24*time.Hour)
	between("timeout", c.Timeout, 100*time.Millisecond, time.Minute)
	between("backoff", c.Backoff, 100*time.Millisecond, time.Hour)
	between("backoff_max", c.BackoffMax, c.Backoff, 6*time.Hour)
	if c.Spike.Factor < 1 || c.Spike.Factor > 1000 {
		errs = append(errs, fmt.Errorf("notify.spike.factor must be 1 to 1000, not %g", c.Spike.Factor))
	}
	if c.Spike.Minimum < 1 {
		errs = append(errs, fmt.Errorf("notify.spike.minimum must be at least 1, not %d", c.Spike.Minimum))
	}
	if u, err := url.Parse(c.Source); err != nil || u.String() == "" {
		errs = append(errs, errors.New("notify.source must be a URI reference, such as /dlq-manager"))
	}
	if c.ConsoleURL != "" {
		if u, err := url.Parse(c.ConsoleURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, errors.New("notify.console_url must be a URL such as https://dlq.example.com"))
		}
	}
	if len(c.Sinks) > maxSinks {
		errs = append(errs, fmt.Errorf("notify.sinks must be at most %d, not %d", maxSinks, len(c.Sinks)))
	}
	seen := map[string]bool{}
	for i, s := range c.Sinks {
		key := fmt.Sprintf("notify.sinks[%d]", i)
		if seen[s.Name] {
			errs = append(errs, fmt.Errorf("%s.name: %q is already used", key, s.Name))
		}
		seen[s.Name] = true
		errs = append(errs, s.problems(key)...)
	}
	return errors.Join(errs...)
}

var sinkName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,39}$`)

func (s SinkConfig) problems(key string) (errs []error) {
	add := func(field, reason string, args ...any) {
		errs = append(errs, fmt.Errorf("%s.%s: %s", key, field, fmt.Sprintf(reason, args...)))
	}
	if !sinkName.MatchString(s.Name) {
		add("name", "must be 1 to 40 of a-z 0-9 _ and -, is %q", s.Name)
	}
	if s.Type != TypeWebhook && s.Type != TypeSlack {
		add("type", "must be webhook or slack, is %q", s.Type)
	}
	switch {
	case (s.URL == "") == (s.URLFile == ""):
		add("url", "either this or url_file is required")
	case s.URL != "":
		if _, err := parseURL(s.URL); err != nil {
			add("url", "%s", err)
		}
	}
	if s.SecretFile != "" && s.Type == TypeSlack {
		add("secret_file", "is only for webhooks")
	}
	for _, k := range s.Kinds {
		if !slices.Contains(repository.EventKinds(), repository.EventKind(k)) {
			add("kinds", "%q is none of %v", k, repository.EventKinds())
		}
	}
	if len(s.Topics) > 0 {
		if _, err := entity.ParseTopicPatterns("topics", s.Topics...); err != nil {
			errs = append(errs, fmt.Errorf("%s.%w", key, err))
		}
	}
	if s.PerMinute < 0 || s.PerMinute > maxPerMinute {
		add("per_minute", "must be 0 to %d, is %d", maxPerMinute, s.PerMinute)
	}
	return errs
}

// parseURL accepts only URLs that name no user, and whose traffic is encrypted or stays on this machine. Its errors do
// not contain the URL.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("must be a URL such as https://example.com/hook")
	case u.Scheme != "https" && (u.Scheme != "http" || !local(u.Hostname())):
		return nil, errors.New("must be https, except on this machine")
	case u.User != nil:
		return nil, errors.New("must not name a user")
	}
	return u, nil
}

func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
