package conn

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/token"
	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// tokens is a source of tokens with which connections sign in.
type tokens interface {
	Token(ctx context.Context) (secret.Text, error)
	// Refused tells the source that a broker did not accept a token.
	Refused(value secret.Text)
	Close()
}

// tokens returns the source of tokens for the configured mechanism, nil for a mechanism with passwords. The parameter
// report may be nil.
func (s SASLConfig) tokens(report func(error)) tokens {
	switch {
	case s.Mechanism == mechanismAWS:
		return token.FromAWS(s.AWSRegion, report)
	case s.Mechanism != mechanismOAuthBearer:
		return nil
	case s.OAuth.TokenFile != "":
		return token.FromFile(s.OAuth)
	default:
		ca := &certificates{cfg: TLSConfig{CAFile: s.OAuth.CAFile}}
		return token.FromEndpoint(s.OAuth, ca.load, report)
	}
}

// signInByToken opens a connection and authenticates it with the current token.
func (d *dialer) signInByToken(ctx context.Context, open func() (net.Conn, error)) (signedIn, error) {
	value, err := d.tokens.Token(ctx)
	if errors.Is(err, token.ErrRefused) && !d.tokenAccepted.Load() {
		return signedIn{}, &signInError{err: errors.Join(protocol.ErrUnauthorized, err)}
	}
	if err != nil {
		return signedIn{}, &signInError{temporary: true, err: err}
	}
	in, err := authenticated(ctx, open, &bearer{token: value, extensions: d.cfg.SASL.OAuth.Extensions})
	switch {
	case err == nil:
		d.tokenAccepted.Store(true)
		return in, nil
	case refused(err):
		d.tokens.Refused(value)
		return signedIn{}, &signInError{temporary: d.tokenAccepted.Load(), err: withoutText(err, value)}
	default:
		return signedIn{}, err
	}
}

// withoutText returns a broker's refusal. If the broker's error text quotes the token, that text is left out.
func withoutText(err error, value secret.Text) error {
	if strings.Contains(err.Error(), value.Reveal()) {
		return kafka.SASLAuthenticationFailed
	}
	return err
}

// bearer is the SASL mechanism OAUTHBEARER (RFC 7628).
type bearer struct {
	token      secret.Text
	extensions []token.Pair
}

// Name implements sasl.Mechanism.
func (*bearer) Name() string { return mechanismOAuthBearer }

// Start implements sasl.Mechanism: it returns the token and the extensions.
func (b *bearer) Start(context.Context) (sasl.StateMachine, []byte, error) {
	const separator = "\x01"
	text := "n,," + separator + "auth=Bearer " + b.token.Reveal() + separator
	for _, e := range b.extensions {
		text += e.Name + "=" + e.Value + separator
	}
	return b, []byte(text + separator), nil
}

// Next implements sasl.StateMachine. A broker that refuses the token first sends the reason as a challenge. The broker
// ends the exchange with an error only after the client has answered this challenge with one byte.
func (*bearer) Next(_ context.Context, challenge []byte) (done bool, response []byte, err error) {
	if len(challenge) == 0 {
		return true, nil, nil
	}
	return false, []byte{1}, nil
}
