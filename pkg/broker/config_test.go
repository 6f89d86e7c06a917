package broker_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	sasl := broker.SASLConfig{Mechanism: "SCRAM-SHA-512", Username: "u", PasswordFile: "/secret"}
	tests := map[string]struct {
		change func(*broker.Config)
		want   []string // setting keys that the error must name; none: the configuration is valid
	}{
		"Plain":             {func(*broker.Config) {}, nil},
		"NoBrokers":         {func(c *broker.Config) { c.Brokers = nil }, []string{"kafka.brokers"}},
		"BrokerWithoutPort": {func(c *broker.Config) { c.Brokers = []string{"kafka"} }, []string{"kafka.brokers"}},
		"TwoBrokersInOne":   {func(c *broker.Config) { c.Brokers = []string{"a:1,b:2"} }, []string{"kafka.brokers"}},
		"PortOutOfRange":    {func(c *broker.Config) { c.Brokers = []string{"a:70000"} }, []string{"kafka.brokers"}},
		"LowerCaseProtocol": {func(c *broker.Config) { c.SecurityProtocol = "ssl" }, []string{"kafka.security_protocol"}},
		"SASL":              {func(c *broker.Config) { c.SecurityProtocol, c.SASL = "SASL_SSL", sasl }, nil},
		"SASLWithoutAnything": {
			func(c *broker.Config) { c.SecurityProtocol = "SASL_PLAINTEXT" },
			[]string{"kafka.sasl.mechanism", "kafka.sasl.username", "kafka.sasl.password"},
		},
		"Token": {func(c *broker.Config) { byToken(c, func(*broker.OAuthConfig) {}) }, nil},
		"TokenFile": {func(c *broker.Config) {
			byToken(c, func(o *broker.OAuthConfig) { *o = broker.OAuthConfig{TokenFile: "/token"} })
		}, nil},
		"TokenOfThisMachine": {func(c *broker.Config) {
			byToken(c, func(o *broker.OAuthConfig) { o.TokenURL = "http://localhost:14293" })
		}, nil},
		"TokenFromNowhere": {
			func(c *broker.Config) { byToken(c, func(o *broker.OAuthConfig) { *o = broker.OAuthConfig{} }) },
			[]string{"kafka.sasl.oauth.token_url"},
		},
		"TokenTwice": {
			func(c *broker.Config) { byToken(c, func(o *broker.OAuthConfig) { o.TokenFile = "/token" }) },
			[]string{"kafka.sasl.oauth.token_file"},
		},
		"TokenUnencrypted": {
			func(c *broker.Config) {
				byToken(c, func(o *broker.OAuthConfig) { o.TokenURL = "http://idp.example.com/token" })
			},
			[]string{"kafka.sasl.oauth.token_url"},
		},
		"PasswordInTokenURL": {
			func(c *broker.Config) {
				byToken(c, func(o *broker.OAuthConfig) { o.TokenURL = "https://u:secret@idp/token" })
			},
			[]string{"kafka.sasl.oauth.token_url"},
		},
		"ClientUnknown": {
			func(c *broker.Config) {
				byToken(c, func(o *broker.OAuthConfig) { o.ClientID, o.ClientSecretFile = "", "" })
			},
			[]string{"kafka.sasl.oauth.client_id", "kafka.sasl.oauth.client_secret_file"},
		},
		"SecretAndAssertion": {
			func(c *broker.Config) { byToken(c, func(o *broker.OAuthConfig) { o.AssertionFile = "/assertion" }) },
			[]string{"kafka.sasl.oauth.client_secret_file"},
		},
		"TokenFileWithEndpoint": {
			func(c *broker.Config) {
				byToken(c, func(o *broker.OAuthConfig) { o.TokenURL, o.TokenFile, o.Scopes = "", "/token", []string{"s"} })
				c.SASL.OAuth.Parameters = []broker.OAuthPair{{Name: "audience", Value: "kafka"}}
			},
			[]string{"kafka.sasl.oauth.client_id", "kafka.sasl.oauth.client_secret_file", "kafka.sasl.oauth.scopes", "kafka.sasl.oauth.parameters"},
		},
		"Extensions": {
			func(c *broker.Config) {
				byToken(c, func(o *broker.OAuthConfig) {
					o.Extensions = []broker.OAuthPair{{Name: "logicalCluster", Value: "lkc-1"}, {Name: "auth", Value: "x"}, {Name: "pool", Value: "a\x01b"}}
				})
			},
			[]string{"kafka.sasl.oauth.extensions[1]", "kafka.sasl.oauth.extensions[2]"},
		},
		"Parameters": {
			func(c *broker.Config) {
				byToken(c, func(o *broker.OAuthConfig) {
					o.Parameters = []broker.OAuthPair{{Name: "audience", Value: "kafka"}, {Name: "client_secret", Value: "x"}, {Name: "a b", Value: "x"}}
				})
			},
			[]string{"kafka.sasl.oauth.parameters[1]", "kafka.sasl.oauth.parameters[2]"},
		},
		"AWS": {func(c *broker.Config) {
			c.SecurityProtocol, c.SASL = "SASL_SSL", broker.SASLConfig{Mechanism: "AWS_MSK_IAM", AWSRegion: "eu-west-1"}
		}, nil},
		"AWSRegion": {
			func(c *broker.Config) {
				c.SecurityProtocol, c.SASL = "SASL_SSL", broker.SASLConfig{Mechanism: "AWS_MSK_IAM", AWSRegion: "elsewhere.example.com/"}
			},
			[]string{"kafka.sasl.aws_region"},
		},
		"CertificateWithoutKey": {func(c *broker.Config) { c.TLS.CertFile = "c" }, []string{"kafka.tls.key_file"}},
		"KeyWithoutCertificate": {func(c *broker.Config) { c.TLS.KeyFile = "k" }, []string{"kafka.tls.cert_file"}},
		"EverythingAtOnce": {
			func(c *broker.Config) { c.Brokers, c.SecurityProtocol, c.TLS.KeyFile = nil, "", "k" },
			[]string{"kafka.brokers", "kafka.security_protocol", "kafka.tls.cert_file"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := broker.DefaultConfig()
			cfg.Brokers = []string{"kafka-1:9092", "[::1]:9092"}
			test.change(&cfg)
			err := cfg.Validate()
			check.Require(t, (err == nil) == (test.want == nil), "Validate = %v, want an error about %v", err, test.want)
			for _, key := range test.want {
				check.True(t, strings.Contains(err.Error(), key+":"), "Validate = %q, want it to name %s", err, key)
			}
		})
	}
}

func TestSecret_IsNeverShown(t *testing.T) {
	t.Parallel()
	cfg := broker.SASLConfig{Password: "hunter2"}
	asJSON := check.Must(json.Marshal(cfg))(t)
	for _, shown := range []string{
		fmt.Sprint(cfg), fmt.Sprintf("%+v", cfg), fmt.Sprintf("%#v", cfg), string(asJSON),
		fmt.Sprintf("%q", cfg.Password),
	} {
		check.True(t, !strings.Contains(shown, "hunter2"), "shown as %s, want it hidden", shown)
	}
}

func TestProducerConfig_Validate(t *testing.T) {
	t.Parallel()
	check.Equal(t, broker.DefaultProducerConfig().Validate(), nil, "Validate of the default")
	err := broker.ProducerConfig{Timeout: -1, RequestTimeout: -1, MaxBatchBytes: -1, Compression: "rar"}.Validate()
	for _, key := range []string{"timeout:", "request_timeout:", "max_batch_bytes:", "compression:"} {
		check.True(t, err != nil && strings.Contains(err.Error(), key), "Validate = %v, want it to name %s", err, key)
	}
}

// byToken makes c sign in with tokens of a token endpoint. The function change may modify the token settings first.
func byToken(c *broker.Config, change func(*broker.OAuthConfig)) {
	oauth := broker.OAuthConfig{TokenURL: "https://idp.example.com/token", ClientID: "dlq", ClientSecretFile: "/secret"}
	change(&oauth)
	c.SecurityProtocol, c.SASL = "SASL_SSL", broker.SASLConfig{Mechanism: "OAUTHBEARER", OAuth: oauth}
}
