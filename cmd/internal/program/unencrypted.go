package program

import (
	"fmt"
	"strings"
)

// unencrypted says where production speaks to a server that anybody between may listen
// to, or be. It may be meant so, as where a mesh encrypts: it is told, not refused.
func (c Config) unencrypted() (warnings []string) {
	if !c.Production() {
		return nil
	}
	warn := func(key, value string) {
		warnings = append(warnings, fmt.Sprintf("app.environment is production and %s is %s: what is sent can be read, and changed, on the way", key, value))
	}
	// A path is a socket of this machine.
	if c.Database != nil && c.Database.SSLMode == "disable" && !strings.HasPrefix(c.Database.Host, "/") {
		warn("database.ssl_mode", c.Database.SSLMode)
	}
	if c.HasKafka() && strings.HasSuffix(c.Kafka.Broker.SecurityProtocol, "PLAINTEXT") {
		warn("kafka.security_protocol", c.Kafka.Broker.SecurityProtocol)
	}
	return warnings
}
