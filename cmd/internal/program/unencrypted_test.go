package program

import (
	"strings"
	"testing"
)

// TestStart_WarnsOfProductionWithoutEncryption: the method unencrypted returns a warning for each unencrypted
// connection in production, and no other warning.
func TestStart_WarnsOfProductionWithoutEncryption(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		environment, host, ssl, protocol string
		want                             []string
	}{
		"Both":      {"production", "db", "disable", "PLAINTEXT", []string{"database.ssl_mode is disable", "kafka.security_protocol is PLAINTEXT"}},
		"SignedIn":  {"production", "db", "verify-full", "SASL_PLAINTEXT", []string{"kafka.security_protocol is SASL_PLAINTEXT"}},
		"Database":  {"production", "db", "disable", "SSL", []string{"database.ssl_mode is disable"}},
		"Socket":    {"production", "/run/postgresql", "disable", "SSL", nil},
		"Encrypted": {"production", "db", "verify-full", "SASL_SSL", nil},
		"Elsewhere": {"dev", "db", "disable", "PLAINTEXT", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig()
			cfg.App.Environment, cfg.Database.Host, cfg.Database.SSLMode = c.environment, c.host, c.ssl
			cfg.Kafka.Broker.Brokers, cfg.Kafka.Broker.SecurityProtocol = []string{"kafka:9092"}, c.protocol
			got := cfg.unencrypted()
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %d warnings", got, len(c.want))
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("got %q, want %q in it", got[i], want)
				}
			}
		})
	}
}
