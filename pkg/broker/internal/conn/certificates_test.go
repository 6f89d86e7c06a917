package conn

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// When a broker refuses the client certificate and its reason is lost, the error names the certificate. Once the broker
// has answered, it does not.
func TestSecure_ClosedAfterTheHandshake(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{false, true} {
		web := httptest.NewTLSServer(http.NotFoundHandler())
		defer web.Close()
		listener := check.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer listener.Close()
		go func() {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			server := tls.Server(raw, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: web.TLS.Certificates})
			_ = server.Handshake()
			if answers {
				_, _ = server.Write([]byte("a"))
				_, _ = server.Read(make([]byte, 1))
			}
			_ = raw.(*net.TCPConn).SetLinger(0)
			_ = raw.Close()
		}()
		raw := check.Must(net.Dial("tcp", listener.Addr().String()))(t)
		c := certificates{cfg: TLSConfig{InsecureSkipVerify: true}}
		secured := check.Must(c.secure(t.Context(), raw, listener.Addr().String()))(t)
		defer secured.Close()
		buffer := make([]byte, 1)
		if answers {
			check.Must(secured.Read(buffer))(t)
			check.Must(secured.Write(buffer))(t)
		}
		_, err := secured.Read(buffer)
		check.True(t, err != nil && strings.Contains(err.Error(), "client certificate") == !answers, "answers %t: got %v", answers, err)
	}
}
