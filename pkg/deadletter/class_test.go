package deadletter

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
)

// A search for the class that an error group shows must find the messages of the error group, so both must have the
// same class.
func TestMessageHasTheClassOfItsErrorGroup(t *testing.T) {
	t.Parallel()
	const (
		java   = "org.apache.kafka.connect.errors.ConnectException: Exiting\n\tat a.B.c(B.java:1)\nCaused by: java.sql.SQLException: no table\n\tat a.B.c(B.java:2)\n"
		python = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'sku'\n"
	)
	maker := check.Must(fingerprint.New(fingerprint.DefaultConfig()))(t)
	for _, tt := range []struct {
		name, class, stack, want string
		from                     string // the header from which the class is read
	}{
		{"Wrapper", "org.apache.kafka.connect.errors.ConnectException", java, "java.sql.SQLException", "__connect.errors.exception.stacktrace"},
		{"WrapperWithoutCause", "java.lang.RuntimeException", "java.lang.RuntimeException: x\n", "java.lang.RuntimeException", "__connect.errors.exception.class.name"},
		{"OwnClass", "com.acme.OrderFailed", java, "com.acme.OrderFailed", "__connect.errors.exception.class.name"},
		{"NoClass", "", python, "KeyError", "__connect.errors.exception.stacktrace"},
		{"Nothing", "", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rec := entity.Record{Headers: []entity.Header{
				{Key: "__connect.errors.topic", Value: []byte("orders")},
				{Key: "__connect.errors.exception.message", Value: []byte("it failed")},
				{Key: "__connect.errors.exception.class.name", Value: []byte(tt.class)},
				{Key: "__connect.errors.exception.stacktrace", Value: []byte(tt.stack)},
			}}
			d := plainDecoder(t)
			r := d.Decode("orders.dlq.v1", rec, time.Time{}, nil)
			check.Equal(t, r.Failure.Class, tt.want, "class")
			check.Equal(t, d.Explain("orders.dlq.v1", rec, time.Time{}, nil).ErrorClass.Header, tt.from, "header of the class")
			group := maker.Fingerprint(r.Failure.Class, r.ErrorMessage, r.Failure.StackTrace)
			check.Equal(t, group.Class, tt.want, "class of the group")
			check.Equal(t, group.ID(), maker.Fingerprint(tt.class, r.ErrorMessage, tt.stack).ID(), "id of the group, by the class of the header")
		})
	}
}
