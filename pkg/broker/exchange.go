package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// anyBroker addresses a request that every broker can answer.
const anyBroker = -1

// correlation is the same for all requests: a connection carries one at a time.
const correlation = 1

// versions are the versions that kafka-go agreed on with one broker.
type versions map[protocol.ApiKey]int16

// exchange writes one request to a connection and reads its answer.
type exchange func(rw io.ReadWriter, v versions) (any, error)

// exchangeMessage is the exchange of a request that kafka-go can encode.
func exchangeMessage(req protocol.Message) exchange {
	return func(rw io.ReadWriter, v versions) (any, error) {
		return protocol.RoundTrip(rw, v[req.ApiKey()], correlation, clientID, req)
	}
}

// call runs an exchange through kafka-go's transport on a chosen broker. Its state decides the race between a
// connection that starts to write and a caller that stops waiting: exactly one of them wins.
type call struct {
	key      protocol.ApiKey
	broker   int32
	exchange exchange
	versions versions
	state    atomic.Int32
}

const (
	callWaits int32 = iota
	callSends
	callDropped
)

var errDropped = errors.New("request was dropped before it was sent")

// ApiKey implements protocol.Message.
func (c *call) ApiKey() protocol.ApiKey { return c.key }

// Broker implements protocol.BrokerMessage; a negative id means any broker.
func (c *call) Broker(protocol.Cluster) (protocol.Broker, error) {
	return protocol.Broker{ID: c.broker}, nil
}

// Required implements protocol.RawExchanger.
func (c *call) Required(v map[protocol.ApiKey]int16) bool {
	c.versions = v
	return true
}

// RawExchange implements protocol.RawExchanger. An error closes the connection.
func (c *call) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if !c.state.CompareAndSwap(callWaits, callSends) {
		return nil, errDropped
	}
	value, err := c.exchange(rw, c.versions)
	if err != nil {
		return nil, err
	}
	return answer{c.key, value}, nil
}

// answer wraps the result of an exchange, because kafka-go inspects responses of types that it knows.
type answer struct {
	key   protocol.ApiKey
	value any
}

func (a answer) ApiKey() protocol.ApiKey { return a.key }

// sentError is a failure after the first bytes of the request may have been sent.
type sentError struct{ error }

func (e sentError) Unwrap() error { return e.error }

func wasSent(err error) bool {
	var sent sentError
	return errors.As(err, &sent)
}

// send runs one exchange once, for at most timeout. Unless wasSent(err), no byte of the request leaves.
func send[T any](ctx context.Context, c *Cluster, broker int32, key protocol.ApiKey, timeout time.Duration, do exchange) (T, error) {
	var none T
	if c.closed.Load() {
		return none, ErrClosed
	}
	c.followUser()
	caller := ctx
	// Only a deadline ends the work of the connection, so one is always set.
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request := &call{key: key, broker: broker, exchange: do}
	res, err := c.transport.RoundTrip(ctx, kafka.TCP(c.cfg.Brokers...), request)
	if err != nil {
		err = endOf(caller, networkError(err))
		if !request.state.CompareAndSwap(callWaits, callDropped) {
			return none, sentError{err}
		}
		return none, err
	}
	return res.(answer).value.(T), nil
}

// endOf adds the end of the caller's context to the last failure, because a connection's deadline error does not name
// it.
func endOf(caller context.Context, err error) error {
	if caller.Err() != nil && !errors.Is(err, caller.Err()) {
		return fmt.Errorf("%w: %w", err, caller.Err())
	}
	return err
}

// ask is send for requests that change nothing: it repeats them when an idle connection was dead.
func ask[T any](ctx context.Context, c *Cluster, broker int32, key protocol.ApiKey, timeout time.Duration, do exchange) (T, error) {
	for try := 1; ; try++ {
		res, err := send[T](ctx, c, broker, key, timeout, do)
		if err == nil || try == 3 || ctx.Err() != nil || !connectionLost(err) {
			return res, err
		}
	}
}

func connectionLost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// networkError translates errors of the network into this package's kinds.
func networkError(err error) error {
	var code kafka.Error
	var op *net.OpError
	var unknown *signInError
	switch {
	case errors.As(err, &unknown) && unknown.passing:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.As(err, &code):
		if kind := kindOf(code); kind != nil {
			return fmt.Errorf("%w: %w", kind, err)
		}
	case errors.Is(err, context.Canceled):
	case connectionLost(err), isTimeout(err), errors.As(err, &op):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}
