package conn

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/secret"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	dialTimeout = 3 * time.Second

	// maxDials is how many connections to one address are opened at a time. It is well below the 50 connections that
	// Kafka lets wait for it, because several processes may start together.
	maxDials = 8
)

// DialFunc opens one network connection to a broker.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Options contains the values that a Pool needs in addition to its Config.
type Options struct {
	// Dial opens TCP connections. When Dial is nil, a net.Dialer opens the connections.
	Dial DialFunc
	// TokenReport gets the result of every request for a token, nil for success. It may be nil.
	TokenReport func(error)
}

// dialer opens connections that are ready for requests.
type dialer struct {
	cfg          Config
	tcp          DialFunc
	dials        *wait.Gates[string] // by address
	certificates *certificates
	logins       *secret.Rotation[login]
	userChanged  func() // called after the first sign-in with another user name than before

	tokens        tokens // source of the tokens for signing in; nil: the dialer signs in with a password
	tokenAccepted *atomic.Bool
}

func newDialer(cfg Config, opts Options, userChanged func()) dialer {
	d := dialer{
		cfg: cfg, tcp: opts.Dial, dials: wait.NewGates[string](maxDials), certificates: &certificates{cfg: cfg.TLS}, logins: secret.NewRotation(cfg.SASL.login),
		userChanged: userChanged, tokenAccepted: new(atomic.Bool),
	}
	if d.tcp == nil {
		d.tcp = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	if cfg.usesSASL() {
		d.tokens = cfg.SASL.tokens(opts.TokenReport)
	}
	return d
}

// dial returns a function that opens a TCP connection, calls prepare to set its socket options, runs the TLS handshake
// and signs in. Certificates and secrets are read for each connection, so they can be replaced without a restart.
func (d *dialer) dial(prepare func(net.Conn)) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		open := func(ctx context.Context) (net.Conn, error) { return d.open(ctx, network, address, prepare) }
		if !d.cfg.usesSASL() {
			return open(ctx)
		}
		return openSession(ctx, func(ctx context.Context) (signedIn, error) {
			open := func() (net.Conn, error) { return open(ctx) }
			if d.tokens != nil {
				return d.signInByToken(ctx, open)
			}
			return d.signInByPassword(ctx, open)
		})
	}
}

func (d *dialer) open(ctx context.Context, network, address string, prepare func(net.Conn)) (net.Conn, error) {
	leave, err := d.dials.Enter(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("other connections are being opened: %w", err)
	}
	conn, err := d.tcp(ctx, network, address)
	leave()
	if err != nil {
		return nil, err
	}
	prepare(conn)
	if !d.cfg.usesTLS() {
		return conn, nil
	}
	return d.certificates.secure(ctx, conn, address)
}

// dropUnsent makes close discard bytes that are not sent yet. Otherwise the kernel could send these bytes minutes
// later, and the broker could append an abandoned batch after its attempts were settled and its records were sent
// again.
func dropUnsent(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

func keepAsIs(net.Conn) {}
