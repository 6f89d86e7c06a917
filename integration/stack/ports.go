package stack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const loopback = "127.0.0.1"

// The ports of servers are outside of the range that the system uses for outgoing connections. Otherwise an outgoing
// connection could take the port of a stopped server, even the connection of a client that tries to reach this server.
const (
	lowestPort  = 15000
	highestPort = 32000
)

var errNoFreePort = errors.New("no free port found")

// freePorts returns n different ports that are free at the moment. Another process may take a port before the caller
// does.
func freePorts(n int) ([]int, error) {
	held := make([]net.Listener, 0, n)
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	ports := make([]int, 0, n)
	for range 200 {
		if len(ports) == n {
			return ports, nil
		}
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if l, err := net.Listen("tcp", address(port)); err == nil {
			held = append(held, l)
			ports = append(ports, port)
		}
	}
	return nil, fmt.Errorf("%w between %d and %d", errNoFreePort, lowestPort, highestPort)
}

func address(port int) string {
	return net.JoinHostPort(loopback, strconv.Itoa(port))
}
