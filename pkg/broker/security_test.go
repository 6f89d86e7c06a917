package broker_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

func TestSecurity_SASL(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			cluster := fakeKafka(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "alice", "right"))
			cfg := broker.Config{Brokers: cluster.ListenAddrs(), SecurityProtocol: "SASL_PLAINTEXT"}
			cfg.SASL = broker.SASLConfig{Mechanism: mechanism, Username: "alice", Password: "wrong"}
			check.True(t, check.Err(openWith(t, cfg).Topics(testContext(t))) != nil, "Topics with the wrong password = nil, want an error")
			cfg.SASL.Password = "right"
			c := openWith(t, cfg)
			got := topic(t, c, "seeded")
			check.True(t, got.Err == nil, "Topics = %v, want the topic", got.Err)
			joinOnce(t, c)
		})
	}
}

// joinOnce joins a consumer group once, which shows that the group's own connections are secured too.
func joinOnce(t *testing.T, c *broker.Cluster) {
	t.Helper()
	group := check.Must(c.Group(broker.GroupConfig{ID: "g", Topics: []string{"seeded"}}))(t)
	defer group.Close()
	check.Must(group.Next(testContext(t)))(t)
}

func TestSecurity_PasswordFileIsReadForEachConnection(t *testing.T) {
	t.Parallel()
	cluster := fakeKafka(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "alice", "right"))
	file := filepath.Join(t.TempDir(), "password")
	c := openWith(t, broker.Config{
		Brokers: cluster.ListenAddrs(), SecurityProtocol: "SASL_PLAINTEXT",
		SASL: broker.SASLConfig{Mechanism: "PLAIN", Username: "alice", Password: "ignored", PasswordFile: file},
	})
	check.Is(t, check.Err(c.Topics(testContext(t))), os.ErrNotExist, "Topics without the file")
	writeFile(t, file, []byte("right\n"))
	check.Must(c.Topics(testContext(t)))(t)
}

func TestSecurity_TLS(t *testing.T) {
	t.Parallel()
	pair, ca := selfSigned(t)
	cluster := fakeKafka(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
	cfg := broker.Config{Brokers: cluster.ListenAddrs(), SecurityProtocol: "SSL"}

	_, err := openWith(t, cfg).Topics(testContext(t))
	if got := broker.Classify(err); err == nil || got != broker.ClassUnauthorized {
		t.Errorf("Topics with an unknown authority = %v (%s), want it refused", err, got)
	}
	cfg.TLS.CAFile = ca
	c := openWith(t, cfg)
	got := topic(t, c, "seeded")
	check.True(t, got.Err == nil, "Topics = %v, want the topic", got.Err)
	joinOnce(t, c)
	cfg.TLS.ServerName = "elsewhere.example.com"
	check.True(t, check.Err(openWith(t, cfg).Topics(testContext(t))) != nil, "Topics from a server with another name = nil, want an error")
}

func fakeKafka(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster := check.Must(kfake.NewCluster(append(opts, kfake.NumBrokers(1), kfake.SeedTopics(1, "seeded"))...))(t)
	t.Cleanup(cluster.Close)
	return cluster
}

func selfSigned(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key := check.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der := check.Must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	file := filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	check.NoError(t, os.WriteFile(path, content, 0o600))
}
