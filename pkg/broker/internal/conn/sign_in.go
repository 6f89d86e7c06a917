package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// The versions of the sign-in requests. Every supported broker knows these versions, so client and broker need not
// negotiate them.
const (
	handshakeVersion    = 1
	authenticateVersion = 1
)

// login is a user and its password.
type login struct{ username, password string }

// login reads user and password from the configuration or its files.
func (s SASLConfig) login() (login, error) {
	username, err := fileOr(s.UsernameFile, s.Username)
	if err != nil {
		return login{}, fmt.Errorf("read kafka user name: %w", err)
	}
	password, err := fileOr(s.PasswordFile, string(s.Password))
	if err != nil {
		return login{}, fmt.Errorf("read kafka password: %w", err)
	}
	return login{username, password}, nil
}

func (s SASLConfig) rotates() bool { return s.UsernameFile != "" || s.PasswordFile != "" }

func fileOr(path, value string) (string, error) {
	if path == "" {
		return value, nil
	}
	content, err := secret.FromFile(path)
	text := strings.TrimSpace(content.Reveal())
	if err == nil && text == "" {
		err = fmt.Errorf("%w: %s", secret.ErrEmpty, path)
	}
	return text, err
}

// mechanism returns the SASL mechanism of a login.
func (s SASLConfig) mechanism(l login) (sasl.Mechanism, error) {
	switch s.Mechanism {
	case mechanismScramSHA256:
		return scram.Mechanism(scram.SHA256, l.username, l.password)
	case mechanismScramSHA512:
		return scram.Mechanism(scram.SHA512, l.username, l.password)
	default:
		return plain.Mechanism{Username: l.username, Password: l.password}, nil
	}
}

// signInError is the error of a sign-in that a broker refused, or for which there are no credentials. The error is
// temporary when a later sign-in may use other credentials, for example from a replaced file.
type signInError struct {
	temporary bool
	err       error
}

func (e *signInError) Error() string { return "sign in to kafka: " + e.err.Error() }

func (e *signInError) Unwrap() error { return e.err }

// signInByPassword opens a connection and authenticates it. Kafka-go's own sign-in cannot try other credentials after a
// refusal.
func (d *dialer) signInByPassword(ctx context.Context, open func() (net.Conn, error)) (signedIn, error) {
	var in signedIn
	read := false
	try := func(l login) error {
		read = true
		mechanism, err := d.cfg.SASL.mechanism(l)
		if err != nil {
			return err
		}
		in, err = authenticated(ctx, open, mechanism)
		return err
	}
	if !d.cfg.SASL.rotates() {
		err := try(login{d.cfg.SASL.Username, string(d.cfg.SASL.Password)})
		return in, err
	}
	before := d.logins.Accepted()
	now, err := d.logins.SignIn(ctx, refused, try)
	switch {
	case err == nil:
	case !read, refused(err):
		return signedIn{}, &signInError{temporary: !read || before != login{}, err: err}
	default:
		return signedIn{}, err
	}
	if before.username != "" && before.username != now.username {
		d.userChanged()
	}
	return in, nil
}

// refused reports whether the broker has read the credentials and refused them.
func refused(err error) bool { return errors.Is(err, kafka.SASLAuthenticationFailed) }

// authenticated opens a connection and authenticates it, and closes it when that fails.
func authenticated(ctx context.Context, open func() (net.Conn, error), mechanism sasl.Mechanism) (signedIn, error) {
	conn, err := open()
	if err != nil {
		return signedIn{}, err
	}
	began := time.Now()
	lifetime, err := authenticate(ctx, conn, mechanism)
	if err != nil {
		_ = conn.Close()
		return signedIn{}, err
	}
	if lifetime == 0 {
		return signedIn{Conn: conn}, nil
	}
	return signedIn{Conn: conn, ends: began.Add(lifetime - unusedPart(lifetime))}, nil
}

// unusedPart returns how long before the end of a session the last request is sent, because a busy broker may
// read a request some time after it was sent, and then closes the connection.
func unusedPart(lifetime time.Duration) time.Duration { return min(lifetime/10, 2*time.Second) }

// authenticate runs the SASL exchange with the broker. It returns how long the broker accepts requests on the
// connection, 0 for no limit.
func authenticate(ctx context.Context, conn net.Conn, mechanism sasl.Mechanism) (lifetime time.Duration, err error) {
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
		defer func() { _ = conn.SetDeadline(time.Time{}) }()
	}
	shaken, err := protocol.RoundTrip[*saslhandshake.Response](conn, handshakeVersion, &saslhandshake.Request{Mechanism: mechanism.Name()})
	if err != nil {
		return 0, err
	}
	if shaken.ErrorCode != 0 {
		return 0, kafka.Error(shaken.ErrorCode)
	}
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	machine, words, err := mechanism.Start(sasl.WithMetadata(ctx, &sasl.Metadata{Host: host}))
	for done := false; !done && err == nil; {
		var answer *saslauthenticate.Response
		answer, err = protocol.RoundTrip[*saslauthenticate.Response](conn, authenticateVersion, &saslauthenticate.Request{AuthBytes: words})
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // some brokers refuse by closing the connection
			return 0, fmt.Errorf("%w: %w", kafka.SASLAuthenticationFailed, err)
		case err != nil:
			return 0, err
		case answer.ErrorCode != 0:
			return 0, fmt.Errorf("%w: %s", kafka.Error(answer.ErrorCode), answer.ErrorMessage)
		}
		lifetime = time.Duration(answer.SessionLifetimeMs) * time.Millisecond
		done, words, err = machine.Next(ctx, answer.AuthBytes)
	}
	return lifetime, err
}

// userPollInterval is the shortest time between two reads of the file with the user's name.
const userPollInterval = time.Second

// follower notices that the configured file names another user, so that the old user's connections are closed. The old
// user may soon lose all permissions; requests on the old user's connections would then fail as if access to the topics
// were denied.
type follower struct {
	mu     sync.Mutex
	polled time.Time
	toward string // the last new user because of whom connections were closed
}

func (f *follower) leave(cfg SASLConfig, in string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in == "" || time.Since(f.polled) < userPollInterval {
		return false
	}
	f.polled = time.Now()
	now, err := cfg.login()
	if err != nil || now.username == in || now.username == f.toward {
		return false
	}
	f.toward = now.username
	return true
}
