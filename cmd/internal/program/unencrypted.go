package program

import (
	"fmt"
	"strings"
)

// unencrypted returns warnings about connections to the database and to Kafka, in production, that others could read or
// impersonate. Such a connection may be intended, for example in a mesh that encrypts, so it is no error.
func (c Config) unencrypted() (warnings []string) {
	if !c.Production() {
		return nil
	}
	warn := func(key, value string) {
		warnings = append(warnings, fmt.Sprintf("app.environment is production and %s is %s: data can be read and changed in transit", key, value))
	}
	// When the host is a path, the connection is a socket on the same machine, which needs no encryption.
	if c.Database != nil && c.Database.SSLMode == "disable" && !strings.HasPrefix(c.Database.Host, "/") {
		warn("database.ssl_mode", c.Database.SSLMode)
	}
	if c.HasKafka() && strings.HasSuffix(c.Kafka.Broker.SecurityProtocol, "PLAINTEXT") {
		warn("kafka.security_protocol", c.Kafka.Broker.SecurityProtocol)
	}
	return warnings
}
