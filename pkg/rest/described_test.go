package rest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi/openapitest"
)

// differences collects where requests and answers of all tests deviate from the API's document. Most helpers that send
// requests have no *testing.T, so TestMain reports the deviations at the end.
var differences struct {
	sync.Mutex
	seen []string
}

func TestMain(m *testing.M) {
	code := m.Run()
	for i, text := range differences.seen {
		if i == 20 {
			fmt.Println("and more")
			break
		}
		fmt.Println("the document and the program differ:", text)
	}
	if len(differences.seen) > 0 {
		fmt.Println("FAIL: see pkg/rest/openapi/openapi.yaml")
		code = 1
	}
	os.Exit(code)
}

// undocumented returns a fixture for requests that deliberately deviate from the API's document.
func (f *fixture) undocumented() *fixture {
	f.undescribed = true
	return f
}

// remembered reads and returns the body of a request, and gives the request a copy of the body, which can be read
// again.
func remembered(r *http.Request) []byte {
	if r.Body == nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil { // the test wants the read to fail at this point, so the copy fails at the same point
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), iotest.ErrReader(err)))
	}
	return body
}

func compare(r *http.Request, body []byte, w *httptest.ResponseRecorder) {
	err := openapitest.Check(openapitest.Exchange{
		Method: r.Method, Path: r.URL.RequestURI(), Header: r.Header, Body: body,
		Status: w.Code, AnswerHeader: w.Header(), Answer: w.Body.Bytes(),
	})
	if err == nil {
		return
	}
	differences.Lock()
	defer differences.Unlock()
	differences.seen = append(differences.seen, fmt.Sprintf("%.1500s", err))
}
