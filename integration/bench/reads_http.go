package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"
)

// caller is one connection to a program, over which one request after the other
// is sent. It does next to nothing: the time of the machine belongs to what is
// measured, and a whole client takes as long as some of the answers.
type caller struct {
	conn   net.Conn
	in     *bufio.Reader
	host   string
	out    []byte
	body   bytes.Buffer
	broken bool // an answer did not come whole: the next request needs another connection
}

// callPatience bounds one request with its answer.
const callPatience = 30 * time.Second

func dial(ctx context.Context, address string) (*caller, error) {
	host := strings.TrimPrefix(address, "http://")
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", address, err)
	}
	return &caller{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), host: host}, nil
}

// dialAll opens so many connections. The caller closes them with closeAll, also
// after an error.
func dialAll(ctx context.Context, address string, n int) (all []*caller, err error) {
	for range n {
		c, err := dial(ctx, address)
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}

func closeAll(all []*caller) {
	for _, c := range all {
		c.conn.Close()
	}
}

// get returns the body of a good answer, which is valid until the next call. After
// an answer that did not come whole, the next call connects anew.
func (c *caller) get(path string) ([]byte, error) {
	if err := c.mend(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c.broken = true
	status, err := c.exchange(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c.broken = false
	if status != http.StatusOK {
		return nil, fmt.Errorf("%s: %d %s", path, status, c.body.Bytes())
	}
	return c.body.Bytes(), nil
}

func (c *caller) mend() error {
	if !c.broken {
		return nil
	}
	conn, err := net.DialTimeout("tcp", c.host, callPatience)
	if err != nil {
		return err
	}
	_ = c.conn.Close()
	c.conn, c.broken = conn, false
	c.in.Reset(conn)
	return nil
}

// exchange sends a request and reads its answer into body.
func (c *caller) exchange(path string) (status int, err error) {
	if err := c.conn.SetDeadline(time.Now().Add(callPatience)); err != nil {
		return 0, err
	}
	c.out = fmt.Appendf(c.out[:0], "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, c.host)
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, err
	}
	status, length, err := readHead(c.in)
	if err != nil {
		return 0, err
	}
	c.body.Reset()
	return status, c.readBody(length)
}

// chunked is the length of a body that comes in pieces.
const chunked = -1

func (c *caller) readBody(length int) error {
	if length != chunked {
		_, err := io.CopyN(&c.body, c.in, int64(length))
		return err
	}
	if _, err := c.body.ReadFrom(httputil.NewChunkedReader(c.in)); err != nil {
		return err
	}
	end, err := c.in.ReadSlice('\n')
	if err == nil && len(bytes.TrimSpace(end)) > 0 {
		err = fmt.Errorf("a trailer behind the body: %q", end)
	}
	return err
}

// readHead reads the status and the headers of an answer, which must say how long
// its body is or that it is chunked.
func readHead(in *bufio.Reader) (status, length int, err error) {
	first, err := in.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(first))
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("not an answer: %q", first)
	}
	if status, err = strconv.Atoi(fields[1]); err != nil {
		return 0, 0, fmt.Errorf("not an answer: %q", fields)
	}
	known := false
	for {
		text, err := in.ReadSlice('\n')
		if err != nil {
			return 0, 0, err
		}
		name, value, _ := bytes.Cut(bytes.TrimSpace(text), []byte(":"))
		if len(name) == 0 {
			break
		}
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 {
				return 0, 0, fmt.Errorf("not a length: %q", value)
			}
			known = true
		}
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) && bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked")) {
			length, known = chunked, true
		}
	}
	if !known {
		return 0, 0, errors.New("an answer that does not say its length")
	}
	return status, length, nil
}

// hammer lets so many workers ask again and again for some time, each as soon as
// it has its answer. It returns when the last has its own; the first error ends
// all of them. The times are in no order.
func hammer(ctx context.Context, workers int, d time.Duration, ask func(worker, n int) error) (rate, []time.Duration, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	each, errs := make([][]time.Duration, workers), make([]error, workers)
	start := time.Now()
	for w := range workers {
		group.Go(func() {
			for n := 0; ctx.Err() == nil && time.Since(start) < d; n++ {
				asked := time.Now()
				if errs[w] = ask(w, n); errs[w] != nil {
					stop()
					return
				}
				each[w] = append(each[w], time.Since(asked))
			}
		})
	}
	group.Wait()
	done := rate{took: time.Since(start)}
	var all []time.Duration
	for _, times := range each {
		all = append(all, times...)
	}
	done.n = len(all)
	for _, err := range errs {
		if err != nil {
			return done, all, err
		}
	}
	if done.n == 0 {
		return done, all, errors.Join(context.Cause(ctx), errors.New("the run is worthless: nothing was asked"))
	}
	return done, all, nil
}
