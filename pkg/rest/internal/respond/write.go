package respond

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// Each function below sends a whole answer. It ignores errors of the connection, because the client can then no longer
// read the answer.

// JSON sends v as the whole answer.
func JSON(w http.ResponseWriter, status int, v any) {
	Body(w, status, "application/json", wire.Encode(v))
}

// List sends a page of a list and the cursor of the next page, nil for none.
func List[J any](w http.ResponseWriter, name string, list []J, next *string) {
	body := fmt.Appendf(nil, `{%q:%s,"next_cursor":%s}`, name, wire.Encode(list), wire.Encode(next))
	Body(w, http.StatusOK, "application/json", body)
}

// Body sends a whole answer.
func Body(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// Accepted answers 202 with a redrive and its URL. The redrive continues without the request.
func Accepted(w http.ResponseWriter, redrive wire.Redrive) {
	w.Header().Set("Location", "/api/v1/redrives/"+redrive.ID.String())
	JSON(w, http.StatusAccepted, redrive)
}

// wholePage is the size in bytes up to which a page is sent in one piece.
const wholePage = 128 << 10

// pageBuffers keeps the buffers in which pages are written, for the next pages, which usually have a similar size.
var pageBuffers = sync.Pool{New: func() any { return new(make([]byte, 0, 32<<10)) }}

// Messages sends a page of messages, followed by the members of the JSON object tail. It sends a small page at once and
// a large page in pieces, so that payloads are not in memory twice.
func Messages(w http.ResponseWriter, as wire.Messages, messages []entity.Message, v wire.View, tail any) {
	buffer, buf := pageBuffer()
	buf, begun := append(buf, `{"messages":[`...), false
	for i := range messages {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = as.AppendJSON(buf, &messages[i], v)
		if len(buf) < wholePage {
			continue
		}
		if !begun {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			begun = true
		}
		if _, err := w.Write(buf); err != nil {
			return // the client has disconnected
		}
		buf = buf[:0]
	}
	buf = append(buf, "],"...)
	buf = append(buf, wire.Encode(tail)[1:]...)
	if begun {
		_, _ = w.Write(buf)
	} else {
		Body(w, http.StatusOK, "application/json", buf)
	}
	keepBuffer(buffer, buf)
}

// Message sends a single message, including the members that lists leave out.
func Message(w http.ResponseWriter, as wire.Messages, m *entity.Message, v wire.View) {
	buffer, body := pageBuffer()
	body = as.AppendDetailed(body, m, v)
	Body(w, http.StatusOK, "application/json", body)
	keepBuffer(buffer, body)
}

// pageBuffer returns an empty buffer buf. The pointer buffer must be given to keepBuffer afterwards.
func pageBuffer() (buffer *[]byte, buf []byte) {
	buffer = pageBuffers.Get().(*[]byte) //nolint:forcetypeassert // the pool has no values of another type
	return buffer, (*buffer)[:0]
}

// keepBuffer returns a buffer to the pool, unless a large message made it too large. The caller must not use it
// afterwards.
func keepBuffer(buffer *[]byte, buf []byte) {
	if cap(buf) <= 2*wholePage {
		*buffer = buf
		pageBuffers.Put(buffer)
	}
}
