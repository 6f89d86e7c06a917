package conn

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/token"
)

// Config holds the settings of the connection to one Kafka cluster. Its keys are under `kafka`.
type Config struct {
	// Brokers are the bootstrap addresses, host:port each.
	Brokers []string `mapstructure:"brokers"`
	// SecurityProtocol is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
	SecurityProtocol string     `mapstructure:"security_protocol"`
	SASL             SASLConfig `mapstructure:"sasl"`
	TLS              TLSConfig  `mapstructure:"tls"`
}

// SASLConfig holds the user's credentials. A setting that names a file takes precedence over the setting that contains
// the value itself. Files are read for each new connection, without the white space around their content. See
// secret.Rotation for a missing or wrong file. When the user's name changes, open connections are replaced.
type SASLConfig struct {
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, which use the fields about user and password; OAUTHBEARER, which
	// uses OAuth; or AWS_MSK_IAM, which uses AWSRegion and the credentials of the platform.
	Mechanism    string `mapstructure:"mechanism"`
	Username     string `mapstructure:"username"`
	Password     Secret `mapstructure:"password"`
	UsernameFile string `mapstructure:"username_file"`
	PasswordFile string `mapstructure:"password_file"`
	// AWSRegion is the region of the MSK cluster.
	AWSRegion string       `mapstructure:"aws_region"`
	OAuth     token.Config `mapstructure:"oauth"`
}

// TLSConfig names certificates in PEM files, which are read again for each new connection; while a file is missing or
// incomplete, its last content is used. Everything is optional: without CAFile the system's authorities are trusted,
// without CertFile the client sends no certificate.
type TLSConfig struct {
	CAFile   string `mapstructure:"ca_file"`
	CertFile string `mapstructure:"cert_file"`
	KeyFile  string `mapstructure:"key_file"`
	// ServerName is the name that the broker's certificate must have, instead of the host in the broker's address.
	ServerName string `mapstructure:"server_name"`
	// InsecureSkipVerify makes the client accept any certificate of a broker. It is meant for trials.
	InsecureSkipVerify bool `mapstructure:"insecure_skip_verify"`
}

// Security protocols and SASL mechanisms that Config accepts.
const (
	protocolPlaintext     = "PLAINTEXT"
	protocolSSL           = "SSL"
	protocolSASLPlaintext = "SASL_PLAINTEXT"
	protocolSASLSSL       = "SASL_SSL"

	mechanismPlain       = "PLAIN"
	mechanismScramSHA256 = "SCRAM-SHA-256"
	mechanismScramSHA512 = "SCRAM-SHA-512"
	mechanismOAuthBearer = "OAUTHBEARER"
	mechanismAWS         = "AWS_MSK_IAM" // signs in by OAUTHBEARER, with tokens that are signed with AWS credentials
)

// DefaultConfig returns the settings of an unencrypted cluster, without brokers.
func DefaultConfig() Config { return Config{SecurityProtocol: protocolPlaintext} }

func (c Config) usesSASL() bool {
	return c.SecurityProtocol == protocolSASLPlaintext || c.SecurityProtocol == protocolSASLSSL
}

func (c Config) usesTLS() bool {
	return c.SecurityProtocol == protocolSSL || c.SecurityProtocol == protocolSASLSSL
}

// Validate reports every problem, with its key. It opens no file: secrets may be mounted later.
func (c Config) Validate() error {
	problems := c.brokerProblems()
	protocols := []string{protocolPlaintext, protocolSSL, protocolSASLPlaintext, protocolSASLSSL}
	if !slices.Contains(protocols, c.SecurityProtocol) {
		problems = append(problems, fmt.Errorf("kafka.security_protocol: %q is none of %s",
			c.SecurityProtocol, strings.Join(protocols, ", ")))
	}
	if c.usesSASL() {
		problems = append(problems, c.SASL.problems()...)
	}
	problems = append(problems, c.TLS.problems()...)
	return errors.Join(problems...)
}

func (c Config) brokerProblems() []error {
	if len(c.Brokers) == 0 {
		return []error{errors.New("kafka.brokers: at least one host:port is needed")}
	}
	var problems []error
	for _, address := range c.Brokers {
		if err := checkAddress(address); err != nil {
			problems = append(problems, fmt.Errorf("kafka.brokers: %q: %w", address, err))
		}
	}
	return problems
}

func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("not host:port")
	}
	if host == "" || strings.ContainsAny(host, ", \t") {
		return errors.New("not a host name")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return errors.New("not a port")
	}
	return nil
}

// awsRegion matches names of AWS regions. Other texts are refused, because the region becomes part of a host name in
// the token's URL.
var awsRegion = regexp.MustCompile(`^[a-z0-9-]+$`)

func (s SASLConfig) problems() []error {
	switch s.Mechanism {
	case mechanismOAuthBearer:
		return s.OAuth.Problems()
	case mechanismAWS:
		if !awsRegion.MatchString(s.AWSRegion) {
			return []error{fmt.Errorf("kafka.sasl.aws_region: %q is not a region such as eu-west-1", s.AWSRegion)}
		}
		return nil
	}
	var problems []error
	mechanisms := []string{mechanismPlain, mechanismScramSHA256, mechanismScramSHA512}
	if !slices.Contains(mechanisms, s.Mechanism) {
		problems = append(problems, fmt.Errorf("kafka.sasl.mechanism: %q is none of %s",
			s.Mechanism, strings.Join(append(mechanisms, mechanismOAuthBearer, mechanismAWS), ", ")))
	}
	if s.Username == "" && s.UsernameFile == "" {
		problems = append(problems, errors.New("kafka.sasl.username: it or username_file is needed"))
	}
	if s.Password == "" && s.PasswordFile == "" {
		problems = append(problems, errors.New("kafka.sasl.password: it or password_file is needed"))
	}
	return problems
}

func (t TLSConfig) problems() []error {
	if (t.CertFile == "") == (t.KeyFile == "") {
		return nil
	}
	if t.CertFile == "" {
		return []error{errors.New("kafka.tls.cert_file: required with key_file")}
	}
	return []error{errors.New("kafka.tls.key_file: required with cert_file")}
}

// Secret is a text that logs, dumps and JSON do not show.
type Secret string

const hidden = "***"

// String hides the secret; convert to string to use it.
func (Secret) String() string { return hidden }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return hidden }

// MarshalText hides the secret from JSON and similar encodings.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }
