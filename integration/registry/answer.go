package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

const contentType = "application/vnd.schemaregistry.v1+json"

// apiError is an error as the API shows it.
type apiError struct {
	status  int
	Code    int    `json:"error_code"`
	Message string `json:"message"`
}

func (e *apiError) Error() string { return e.Message }

func failure(status, code int, format string, args ...any) *apiError {
	return &apiError{status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

func noSubject(name string) error {
	return failure(http.StatusNotFound, 40401, "Subject '%s' not found.", name)
}

func noVersion(version string) error {
	return failure(http.StatusNotFound, 40402, "Version %s not found.", version)
}

func noSchema() error { return failure(http.StatusNotFound, 40403, "Schema not found") }

func invalid(err error) error {
	return failure(http.StatusUnprocessableEntity, 42201, "Invalid schema: %s", err)
}

// plain is an answer of the registry that is sent as plain text and not as JSON.
type plain string

func write(w http.ResponseWriter, status int, answer any) {
	body, err := json.Marshal(answer)
	if text, ok := answer.(plain); ok {
		body, err = []byte(text), nil
	}
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error_code":50001}`)
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func writeError(w http.ResponseWriter, err error) {
	var known *apiError
	if !errors.As(err, &known) {
		known = failure(http.StatusInternalServerError, 50001, "%s", err)
	}
	write(w, known.status, known)
}
