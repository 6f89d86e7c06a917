package broker_test

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

// vault contains a Kafka with SCRAM users, a client, and the files with the client's user name and password.
type vault struct {
	t                  *testing.T
	admin              *kafka.Client
	username, password string // paths of the files
	config             broker.Config
	client             *broker.Cluster
	dials              atomic.Int32
}

func newVault(t *testing.T) *vault {
	t.Helper()
	cluster := fakeKafka(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "admin", "admin"),
		kfake.Superuser("SCRAM-SHA-256", "alice", "first"))
	mechanism := check.Must(scram.Mechanism(scram.SHA256, "admin", "admin"))(t)
	transport := &kafka.Transport{SASL: mechanism}
	t.Cleanup(transport.CloseIdleConnections)
	v := &vault{
		t: t, admin: &kafka.Client{Addr: kafka.TCP(cluster.ListenAddrs()...), Transport: transport},
		username: filepath.Join(t.TempDir(), "username"), password: filepath.Join(t.TempDir(), "password"),
	}
	v.write("alice\n", "first\n")
	v.config = broker.Config{
		Brokers: cluster.ListenAddrs(), SecurityProtocol: "SASL_PLAINTEXT",
		SASL: broker.SASLConfig{Mechanism: "SCRAM-SHA-256", UsernameFile: v.username, PasswordFile: v.password},
	}
	v.client = openWith(t, v.config, broker.WithDial(func(ctx context.Context, network, address string) (net.Conn, error) {
		v.dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}))
	v.wantServed()
	return v
}

func (v *vault) write(username, password string) {
	v.t.Helper()
	writeFile(v.t, v.username, []byte(username))
	writeFile(v.t, v.password, []byte(password))
}

// alter sets a user's password, or creates the user.
func (v *vault) alter(user, password string) {
	v.t.Helper()
	salt := []byte("salt")
	salted := check.Must(pbkdf2.Key(sha256.New, password, salt, 4096, sha256.Size))(v.t)
	res, err := v.admin.AlterUserScramCredentials(v.t.Context(), &kafka.AlterUserScramCredentialsRequest{
		Upsertions: []kafka.UserScramCredentialsUpsertion{{
			Name: user, Mechanism: kafka.ScramMechanismSha256, Iterations: 4096, Salt: salt, SaltedPassword: salted,
		}},
	})
	check.Require(v.t, err == nil && len(res.Results) == 1 && res.Results[0].Error == nil, "alter user: %v, %+v", err, res)
}

// wantServed checks that Kafka answers requests over the pool's connections and over a new connection of a consumer
// group.
func (v *vault) wantServed() {
	v.t.Helper()
	before := v.dials.Load()
	got := topic(v.t, v.client, "seeded")
	check.True(v.t, got.Err == nil, "Topics = %v, want the topic", got.Err)
	joinOnce(v.t, v.client)
	check.True(v.t, v.dials.Load() != before, "no connection was new")
}

func TestRotation_FileAfterTheBroker(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.alter("alice", "second")
	go func() {
		<-time.After(300 * time.Millisecond) // the file gets the new password 300 ms after the broker
		_ = os.WriteFile(v.password, []byte("second\n"), 0o600)
	}()
	v.wantServed()
}

func TestRotation_FileBeforeTheBroker(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.write("alice", "second")
	v.wantServed()
	v.alter("alice", "second")
	v.wantServed()
}

func TestRotation_FileThatIsNotWhole(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	for _, content := range []string{"", "\n", "fir", " first \r\n"} {
		v.write("alice", content)
		v.wantServed()
	}
	check.NoError(t, os.Remove(v.password))
	v.wantServed()
}

// When the file names another user, the client closes the old user's connections and opens new ones, even if no request
// needs a new connection.
func TestRotation_OtherUser(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.alter("bob", "other")
	v.write("bob", "other")
	before := v.dials.Load()
	for end := time.Now().Add(30 * time.Second); v.dials.Load() == before; <-time.After(50 * time.Millisecond) {
		got := topic(t, v.client, "seeded")
		check.Require(t, got.Err == nil, "Topics = %v, want the topic", got.Err)
		check.Require(t, !time.Now().After(end), "30 s of requests on the old user's connection")
	}
	v.wantServed()
}

// When credentials that were valid are refused, records can be sent again later, because the file may soon contain
// valid credentials. When a client's credentials were never valid, its records are refused for good.
func TestRotation_RecordIsWorthAnotherTry(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.alter("alice", "second")
	fate := func(c *broker.Cluster) (broker.Fate, broker.Class) {
		t.Helper()
		res := c.NewProducer(broker.ProducerConfig{}).Produce(
			testContext(t), broker.TopicPartition{Topic: "seeded"}, []broker.Record{{Value: []byte("v")}})
		var failed *broker.ProduceError
		check.Require(t, errors.As(res.Err(), &failed), "produce = %v, want a ProduceError", res.Err())
		return failed.Fate, failed.Class
	}
	v.write("carol", "wrong") // the broker refuses this login, and also the previous one, whose password was changed above
	for end := time.Now().Add(30 * time.Second); ; {
		if _, err := v.client.Topics(testContext(t)); err != nil {
			break
		}
		check.Require(t, !time.Now().After(end), "30 s of requests on a connection of a user that the file does not name any more")
	}
	f, class := fate(v.client)
	for end := time.Now().Add(30 * time.Second); f == broker.NotSent && class == broker.ClassNetworkTimeout && time.Now().Before(end); {
		f, class = fate(v.client) // tries again, because a busy broker may answer too late
	}
	if f != broker.NotSent || class != broker.ClassBrokerUnavailable {
		t.Errorf("produce = %s, %s, want it not sent and the broker unavailable", f, class)
	}
	if f, class := fate(openWith(t, v.config)); f != broker.TopicRefused || class != broker.ClassUnauthorized {
		t.Errorf("produce with what never was good = %s, %s, want it refused", f, class)
	}
	v.write("alice", "second")
	v.wantServed()
}

// mutual is a Kafka that requires a client's certificate, and records the last certificate that it received.
type mutual struct {
	mu   sync.Mutex
	seen *x509.Certificate
}

func (m *mutual) last() *x509.Certificate {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

func TestRotation_Certificates(t *testing.T) {
	t.Parallel()
	server, ca := selfSigned(t)
	m := &mutual{}
	cluster := fakeKafka(t, kfake.TLS(&tls.Config{
		Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAnyClientCert,
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			seen, err := x509.ParseCertificate(raw[0])
			m.mu.Lock()
			defer m.mu.Unlock()
			m.seen = seen
			return err
		},
	}))
	dir := t.TempDir()
	cfg := broker.Config{Brokers: cluster.ListenAddrs(), SecurityProtocol: "SSL", TLS: broker.TLSConfig{
		CAFile: ca, CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
	}}
	c := openWith(t, cfg)
	check.Is(t, check.Err(c.Topics(testContext(t))), os.ErrNotExist, "Topics without the files")

	first, second := clientPair(t), clientPair(t)
	wantSeen := func(want pemPair) {
		t.Helper()
		joinOnce(t, c)
		got := m.last()
		check.True(t, got.Equal(want.leaf), "the broker saw %v, want %v", got.NotBefore, want.leaf.NotBefore)
	}
	writeFile(t, cfg.TLS.CertFile, first.cert)
	writeFile(t, cfg.TLS.KeyFile, first.key)
	wantSeen(first)
	writeFile(t, cfg.TLS.CertFile, second.cert) // certificate and key do not match until the key is replaced below
	wantSeen(first)
	writeFile(t, cfg.TLS.KeyFile, second.key[:len(second.key)/2])
	wantSeen(first)
	writeFile(t, cfg.TLS.KeyFile, second.key)
	wantSeen(second)
	check.NoError(t, os.Remove(cfg.TLS.CertFile))
	wantSeen(second)

	whole := check.Must(os.ReadFile(ca))(t)
	other := clientPair(t).cert
	for name, content := range map[string]string{
		"empty": "", "half": string(whole[:len(whole)/2]), "no certificate": "hello",
		"another and a half": string(other) + string(whole[:len(whole)/2]),
	} {
		writeFile(t, ca, []byte(content))
		if _, err := openWith(t, cfg).Topics(testContext(t)); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("authorities %s, first read = %v, want an error", name, err)
		}
		wantSeen(second)
	}
}

type pemPair struct {
	cert, key []byte
	leaf      *x509.Certificate
}

func clientPair(t *testing.T) pemPair {
	t.Helper()
	pair, file := selfSigned(t)
	cert := check.Must(os.ReadFile(file))(t)
	der := check.Must(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))(t)
	leaf := check.Must(x509.ParseCertificate(pair.Certificate[0]))(t)
	return pemPair{cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), leaf}
}
