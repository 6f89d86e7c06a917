package postgres

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// silentServer signs everybody in and then says nothing, as a PostgreSQL whose
// processes were stopped. ended tells of each connection that the client closed.
func silentServer(t *testing.T, signIn bool) (cfg Config, ended chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	ended = make(chan struct{}, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if signIn {
					welcome(conn)
				}
				_, _ = io.Copy(io.Discard, conn)
				ended <- struct{}{}
			}()
		}
	}()
	cfg = goodConfig()
	cfg.Host, cfg.Port = "127.0.0.1", listener.Addr().(*net.TCPAddr).Port
	return cfg, ended
}

// welcome reads the startup message and answers AuthenticationOk and
// ReadyForQuery.
func welcome(conn net.Conn) {
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(size[:]))-4)
	_, _ = conn.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x00" + "Z\x00\x00\x00\x05I"))
}

func TestReadTimeout(t *testing.T) {
	t.Parallel()

	t.Run("EndsAStatementOfASilentServer", func(t *testing.T) {
		t.Parallel()
		cfg, ended := silentServer(t, true)
		cfg.ReadTimeout = 50 * time.Millisecond
		db := openConfig(t, cfg)
		var one int
		err := db.Get(&one, "SELECT 1")
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || !errors.Is(translate("get", err), entity.ErrUnavailable) {
			t.Errorf("got %v, want a timeout that is called unavailable", err)
		}
		<-ended
		if open := db.Stats().OpenConnections; open != 0 {
			t.Errorf("got %d open connections, want the silent one closed", open)
		}
	})

	t.Run("EndsAWriteThatNobodyTakes", func(t *testing.T) {
		t.Parallel()
		ours, theirs := net.Pipe() // has no buffer
		defer theirs.Close()
		n, err := (&timedConn{Conn: ours, limit: time.Millisecond}).Write(make([]byte, 3*writeChunk))
		var timeout net.Error
		if n != 0 || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("got %d bytes, %v, want none and a timeout", n, err)
		}
	})

	t.Run("WritesEverythingInParts", func(t *testing.T) {
		t.Parallel()
		ours, theirs := net.Pipe()
		defer theirs.Close()
		read := make(chan int64)
		go func() { n, _ := io.Copy(io.Discard, theirs); read <- n }()
		c := &timedConn{Conn: ours, limit: time.Minute}
		for _, size := range []int{0, 1, writeChunk, 2*writeChunk + 1} {
			if n, err := c.Write(make([]byte, size)); n != size || err != nil {
				t.Errorf("got %d, %v, want %d written", n, err, size)
			}
		}
		_ = c.Close()
		if got, want := <-read, int64(1+writeChunk+2*writeChunk+1); got != want {
			t.Errorf("got %d bytes at the other end, want %d", got, want)
		}
	})

	t.Run("LeavesSigningInItsOwnLimit", func(t *testing.T) {
		t.Parallel()
		cfg, ended := silentServer(t, false)
		cfg.ConnectTimeout, cfg.ReadTimeout = 50*time.Millisecond, time.Hour
		if err := openConfig(t, cfg).Ping(); err == nil {
			t.Error("got no error, want one at connect_timeout")
		}
		<-ended
	})

	t.Run("ZeroWaitsForEver", func(t *testing.T) {
		t.Parallel()
		cfg, _ := silentServer(t, true)
		conn, err := timedDialer{}.DialContext(t.Context(), "tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, timed := conn.(*timedConn); timed {
			t.Error("got a connection with a limit, want none")
		}
	})
}
