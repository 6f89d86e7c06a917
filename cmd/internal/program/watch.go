package program

import (
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

// credentialFiles returns the credentials files of authentication, tracing, the database and Kafka, by what the
// credentials are for; the path is "" when no file is configured.
func (c Config) credentialFiles() map[string]string {
	files := map[string]string{
		"token_issuer": c.Auth.OIDC.ClientSecretFile, "tokens": c.Auth.TokensFile,
		"revoked_tokens": c.Auth.RevokedFile, "signing_keys": c.Auth.SigningKeyFile,
		"tracing_headers": c.Tracing.HeadersFile,
	}
	if c.Database != nil {
		files["database_password"] = c.Database.PasswordFile
		files["database"] = c.Database.CredentialsFile
	}
	if c.HasKafka() {
		files["kafka_username"] = c.Kafka.Broker.SASL.UsernameFile
		files["kafka_password"] = c.Kafka.Broker.SASL.PasswordFile
		files["kafka_token"] = c.Kafka.Broker.SASL.OAuth.TokenFile
		files["kafka_client_secret"] = c.Kafka.Broker.SASL.OAuth.ClientSecretFile
		files["kafka_assertion"] = c.Kafka.Broker.SASL.OAuth.AssertionFile
		files["kafka_certificate"] = c.Kafka.Broker.TLS.CertFile
		files["kafka_key"] = c.Kafka.Broker.TLS.KeyFile
	}
	return files
}

// watchPool registers the metrics of a connection pool.
func (b Base) watchPool(db *sqlx.DB) error { return telemetry.WatchPool(b.Registry, db.DB, "dlq") }
