package main

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
)

// loopback is the only address on which the demo listens: its API requires no password.
const loopback = "127.0.0.1"

// isFree reports whether a port can be listened on; 0 is not a port.
func isFree(port int) bool {
	if port == 0 {
		return false
	}
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// freePort returns a port that is free at the moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func baseURL(port int) string {
	return "http://" + net.JoinHostPort(loopback, strconv.Itoa(port))
}

// portOf returns the port of a URL that baseURL made.
func portOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.Port()
}
