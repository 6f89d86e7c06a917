package conn

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
)

// mortal is a connection that sends nothing once its session has ended.
type mortal struct {
	net.Conn
	ended *atomic.Bool
}

func (m mortal) Write(b []byte) (int, error) {
	if m.ended.Load() {
		return 0, errSessionEnded
	}
	return m.Conn.Write(b)
}

// A request on connections whose sessions have ended is sent on a new connection. When no new connection can be opened,
// Send reports that the request was not sent, so an ended session never leaves a record in doubt.
func TestSend_SessionHasEnded(t *testing.T) {
	t.Parallel()
	cluster := check.Must(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	defer cluster.Close()
	var current atomic.Pointer[atomic.Bool]
	current.Store(new(atomic.Bool))
	var away atomic.Bool
	pool := check.Must(Open(Config{Brokers: cluster.ListenAddrs(), SecurityProtocol: protocolPlaintext}, Options{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if away.Load() {
				return nil, &signInError{temporary: true, err: context.Canceled}
			}
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return mortal{conn, current.Load()}, err
		},
	}))(t)
	defer pool.Close()
	send := func() error {
		return check.Err(Send(t.Context(), pool, AnyBroker, time.Minute, protocol.ListGroups()))
	}
	check.NoError(t, send())
	current.Swap(new(atomic.Bool)).Store(true)
	check.NoError(t, send())

	away.Store(true)
	current.Load().Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := sendOnce(ctx, pool, AnyBroker, protocol.ListGroups())
	check.True(t, !WasSent(err), "the request may have been sent: %v", err)
	err = send()
	check.Is(t, err, protocol.ErrUnavailable, "send")
	check.True(t, !WasSent(err), "the request may have been sent: %v", err)
}

// TestSend_PausedConnection: after the broker has asked for a pause, the next request does not wait on the same
// connection.
func TestSend_PausedConnection(t *testing.T) {
	t.Parallel()
	cluster := check.Must(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	defer cluster.Close()
	var dials atomic.Int32
	pool := check.Must(Open(Config{Brokers: cluster.ListenAddrs(), SecurityProtocol: protocolPlaintext}, Options{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}))(t)
	defer pool.Close()
	request := protocol.ListGroups()
	for _, throttle := range []time.Duration{0, time.Minute} {
		request.Throttle = func(map[string]string) time.Duration { return throttle }
		before := dials.Load()
		for range 3 {
			groups, err := Send(t.Context(), pool, AnyBroker, time.Minute, request)
			check.True(t, err == nil && groups != nil, "Send = %v, %v", groups, err)
		}
		check.True(t, (dials.Load() >= before+2) == (throttle > 0), "%d connections with a throttle of %s", dials.Load()-before, throttle)
	}
}

// TestSend_AfterASuspension: a request is not sent after its deadline, also when the context's timer is late.
func TestSend_AfterASuspension(t *testing.T) {
	t.Parallel()
	request := &call{leave: func() {}, exchange: func(io.ReadWriter, protocol.Versions) (any, error) { return "sent", nil }, pauses: func(any) bool { return false }}
	request.deadline = time.Now().Add(-time.Second)
	_, err := request.RawExchange(nil)
	check.Is(t, err, errDropped, "exchange")
	check.Is(t, NetworkError(err), protocol.ErrUnavailable, "exchange")
	check.True(t, IsTimeout(err), "%v is a time-out", err)
	request.deadline = time.Now().Add(time.Minute)
	check.NoError(t, check.Err(request.RawExchange(nil)))
}

// TestSend_ManyAtOnce: requests that begin together wait for a connection instead of opening one each.
func TestSend_ManyAtOnce(t *testing.T) {
	t.Parallel()
	cluster := check.Must(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	defer cluster.Close()
	var dialing, mostDialing, dials atomic.Int64
	pool := check.Must(Open(Config{Brokers: cluster.ListenAddrs(), SecurityProtocol: protocolPlaintext}, Options{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			n := dialing.Add(1)
			defer dialing.Add(-1)
			for most := mostDialing.Load(); n > most && !mostDialing.CompareAndSwap(most, n); most = mostDialing.Load() {
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}))(t)
	defer pool.Close()
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			check.NoError(t, check.Err(Send(t.Context(), pool, AnyBroker, time.Minute, protocol.ListGroups())))
		})
	}
	all.Wait()
	check.True(t, mostDialing.Load() <= maxDials, "%d connections were opened at a time", mostDialing.Load())
	// a request may begin a moment before the connection of the request before it is free
	check.True(t, dials.Load() <= 3*maxRequests, "%d connections were opened for 1000 requests", dials.Load())
}
