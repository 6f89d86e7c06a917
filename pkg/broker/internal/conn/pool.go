// Package conn has the connections to the brokers of one Kafka cluster: it dials, secures and authenticates them, and
// sends a request to a chosen broker. A failed request says whether a byte of it can have left.
//
// All requests use kafka-go's transport, but each request names its broker by id, so kafka-go need not look up the
// leader in its cache of topics. Therefore kafka-go's cache contains only brokers, and kafka-go does not list the
// topics of a large cluster every two seconds.
package conn

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
	kafkaprotocol "github.com/segmentio/kafka-go/protocol"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// AnyBroker addresses a request that every broker can answer.
const AnyBroker = -1

const (
	// brokersTTL is the time after which kafka-go asks for the brokers and their addresses again. It can be short, because
	// the answer contains no topics.
	brokersTTL = 2 * time.Second

	// unknownBrokerWait is the pause between two tries to reach a broker that kafka-go does not know yet, because the
	// broker has just joined the cluster.
	unknownBrokerWait = 100 * time.Millisecond

	// maxRequests is how many requests to one broker are under way at a time. Each has a connection of its own.
	maxRequests = 32

	// RequestTimeout is the usual time limit of a request.
	RequestTimeout = 10 * time.Second
)

// ErrClosed means that Pool.Close was called before.
var ErrClosed = errors.New("kafka cluster is closed")

// Pool has the connections to one cluster. It is safe for concurrent use.
type Pool struct {
	dialer    dialer
	follower  follower
	transport *kafka.Transport
	requests  *wait.Gates[int32] // by the broker's id, AnyBroker included
	stop      context.CancelFunc
	closed    atomic.Bool
}

// Open checks cfg and connects to nothing.
func Open(cfg Config, opts Options) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open kafka: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &Pool{stop: stop, requests: wait.NewGates[int32](maxRequests)}
	p.dialer = newDialer(cfg, opts, p.forgetConnections)
	p.transport = &kafka.Transport{
		Dial:        p.dialer.dial(dropUnsent),
		DialTimeout: dialTimeout,
		MetadataTTL: brokersTTL,
		// An empty list makes kafka-go ask for the brokers only; nil would ask for all topics.
		MetadataTopics: []string{},
		ClientID:       protocol.ClientID,
		Context:        ctx,
	}
	return p, nil
}

// Close closes all connections; a connection in use is closed when its request ends. Later requests fail with
// ErrClosed.
func (p *Pool) Close() {
	if p.closed.CompareAndSwap(false, true) {
		p.transport.CloseIdleConnections()
		p.stop()
		if p.dialer.tokens != nil {
			p.dialer.tokens.Close()
		}
	}
}

// Closed returns ErrClosed after Close.
func (p *Pool) Closed() error {
	if p.closed.Load() {
		return ErrClosed
	}
	return nil
}

// Brokers returns the bootstrap addresses.
func (p *Pool) Brokers() []string { return p.dialer.cfg.Brokers }

// Client returns kafka-go's client on the connections of the pool.
func (p *Pool) Client() *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(p.Brokers()...), Transport: p.transport}
}

// Dialer returns kafka-go's dialer for connections that do not belong to the pool. Consumer groups use connections of
// their own.
func (p *Pool) Dialer() *kafka.Dialer {
	return &kafka.Dialer{ClientID: protocol.ClientID, DialFunc: p.dialer.dial(keepAsIs), Timeout: dialTimeout}
}

// forgetConnections makes the next request open a new connection. Connections in use are closed when their request
// ends.
func (p *Pool) forgetConnections() { p.transport.CloseIdleConnections() }

// followUser is called before every request. If a file with the user's name is configured, it reads that file at most
// once per userPollInterval, and forgets the connections of an old user.
func (p *Pool) followUser() {
	d := &p.dialer
	if d.cfg.usesSASL() && d.cfg.SASL.UsernameFile != "" && p.follower.leave(d.cfg.SASL, d.logins.Accepted().username) {
		p.forgetConnections()
	}
}

// call is one request that kafka-go's transport sends to a chosen broker. Its state decides the race between a
// connection that starts to write and a caller that stops waiting: either the connection sends the request, or the
// caller stops waiting and the request is never sent.
type call struct {
	key      kafkaprotocol.ApiKey
	broker   int32
	exchange func(rw io.ReadWriter, v protocol.Versions) (any, error)
	pauses   func(answer any) bool // whether the broker reads nothing from the connection for a while
	versions protocol.Versions
	state    atomic.Int32
	leave    func()    // called once, when the connection is free again
	deadline time.Time // the request is not begun after it
	paused   any       // the answer after which pauses returned true
}

const (
	callWaits int32 = iota
	callSends
	callDropped
)

var (
	errDropped = errors.New("request was dropped before it was sent")
	// errPaused closes a connection after an answer, because the next request on it would wait for the broker's pause.
	errPaused = errors.New("broker pauses the connection")
)

// ApiKey implements kafka-go's protocol.Message.
func (c *call) ApiKey() kafkaprotocol.ApiKey { return c.key }

// Broker implements kafka-go's protocol.BrokerMessage; a negative id means any broker.
func (c *call) Broker(kafkaprotocol.Cluster) (kafkaprotocol.Broker, error) {
	return kafkaprotocol.Broker{ID: c.broker}, nil
}

// Required implements kafka-go's protocol.RawExchanger.
func (c *call) Required(v map[kafkaprotocol.ApiKey]int16) bool {
	c.versions = v
	return true
}

// RawExchange implements kafka-go's protocol.RawExchanger. An error closes the connection.
func (c *call) RawExchange(rw io.ReadWriter) (kafkaprotocol.Message, error) {
	// After a suspension of the process, the timer of the caller's context may fire late. The clock decides, so that a
	// record is not written when another process has already settled its attempt.
	if !time.Now().Before(c.deadline) {
		return nil, fmt.Errorf("%w: %w", errDropped, context.DeadlineExceeded)
	}
	if !c.state.CompareAndSwap(callWaits, callSends) {
		return nil, errDropped
	}
	defer c.leave()
	value, err := c.exchange(rw, c.versions)
	if err != nil {
		return nil, err
	}
	if c.pauses(value) {
		c.paused = value
		return nil, errPaused
	}
	return answer{c.key, value}, nil
}

// answer wraps the result of an exchange in a type that kafka-go does not know, because kafka-go inspects responses of
// its own types.
type answer struct {
	key   kafkaprotocol.ApiKey
	value any
}

func (a answer) ApiKey() kafkaprotocol.ApiKey { return a.key }

// sentError is a failure after the first bytes of the request may have been sent.
type sentError struct{ error }

func (e sentError) Unwrap() error { return e.error }

// WasSent reports whether a request that failed with err may have been sent, at least in part.
func WasSent(err error) bool {
	var sent sentError
	return errors.As(err, &sent)
}

// Send sends a request to a broker once, for at most timeout. After an error for which WasSent returns false, no byte
// of the request was sent or will be sent. A connection whose session has ended sends nothing, so Send then tries
// another connection. While kafka-go does not know the broker, Send tries again, until kafka-go must have read the list
// of brokers again.
func Send[T any](ctx context.Context, p *Pool, broker int32, timeout time.Duration, req protocol.Request[T]) (T, error) {
	caller := ctx
	// A connection stops working on a request only at a deadline, so each request gets a deadline.
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	unknownUntil := time.Now().Add(brokersTTL + unknownBrokerWait)
	for {
		res, err := sendOnce(ctx, p, broker, req)
		if err == nil {
			return res, nil
		}
		again := errors.Is(err, errSessionEnded) && ctx.Err() == nil
		if errors.Is(err, kafka.BrokerNotAvailable) && !WasSent(err) && time.Now().Before(unknownUntil) {
			again = wait.Sleep(ctx, unknownBrokerWait)
		}
		if !again {
			return res, CallerError(caller, err)
		}
	}
}

func sendOnce[T any](ctx context.Context, p *Pool, broker int32, req protocol.Request[T]) (T, error) {
	var none T
	if err := p.Closed(); err != nil {
		return none, err
	}
	p.followUser()
	leave, err := p.requests.Enter(ctx, broker)
	if err != nil {
		return none, NetworkError(fmt.Errorf("other requests to the broker are under way: %w", err))
	}
	request := &call{leave: leave, key: req.Key, broker: broker, exchange: func(rw io.ReadWriter, v protocol.Versions) (any, error) {
		return req.Exchange(rw, v)
	}, pauses: func(answer any) bool { return req.Throttle != nil && req.Throttle(answer.(T)) > 0 }}
	request.deadline, _ = ctx.Deadline()
	res, err := p.transport.RoundTrip(ctx, kafka.TCP(p.Brokers()...), request)
	// A request that was sent keeps its connection until the answer or its deadline, also when the caller has left.
	unsent := request.state.CompareAndSwap(callWaits, callDropped)
	if unsent {
		leave()
	}
	if errors.Is(err, errPaused) {
		return request.paused.(T), nil
	}
	if err != nil {
		err = NetworkError(err)
		if !unsent && !errors.Is(err, errSessionEnded) {
			return none, sentError{err}
		}
		return none, err
	}
	return res.(answer).value.(T), nil
}

// CallerError adds the reason why the caller's context ended to the last failure, because the error of a connection's
// deadline does not name that reason.
func CallerError(caller context.Context, err error) error {
	if caller.Err() != nil && !errors.Is(err, caller.Err()) {
		return fmt.Errorf("%w: %w", err, caller.Err())
	}
	return err
}

// maxAsks is the maximum number of tries of Ask. There are more tries than idle connections that usually die when a
// broker restarts.
const maxAsks = 6

// Ask does the same as Send, for requests that change nothing: after a failure because the connection was closed, it
// sends the request again, up to maxAsks times in all.
func Ask[T any](ctx context.Context, p *Pool, broker int32, timeout time.Duration, req protocol.Request[T]) (T, error) {
	for try := 1; ; try++ {
		res, err := Send(ctx, p, broker, timeout, req)
		if err == nil || try == maxAsks || ctx.Err() != nil || !connectionLost(err) {
			return res, err
		}
	}
}

func connectionLost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// NetworkError translates errors of the network and of sign-in into the kinds of package protocol.
func NetworkError(err error) error {
	var code kafka.Error
	var op *net.OpError
	var unknown *signInError
	switch {
	case errors.Is(err, errSessionEnded), errors.As(err, &unknown) && unknown.temporary:
		return fmt.Errorf("%w: %w", protocol.ErrUnavailable, err)
	case errors.As(err, &code):
		if kind := protocol.KindOf(code); kind != nil && !errors.Is(err, kind) {
			return fmt.Errorf("%w: %w", kind, err)
		}
	case errors.Is(err, context.Canceled):
	case connectionLost(err), IsTimeout(err), errors.As(err, &op):
		return fmt.Errorf("%w: %w", protocol.ErrUnavailable, err)
	}
	return err
}

// IsTimeout reports whether err says that a time limit has passed.
func IsTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
