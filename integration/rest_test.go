package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestREST sends the requests of the API's design document to the running API, with a real PostgreSQL and a real Kafka,
// and checks the answers.
func TestREST(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	api := s.startReady("api")
	topic := s.topic("orders.events.v1")
	s.kafka.create(topic, 2)
	const unknown = "00000000-0000-0000-0000-00000000dead"

	t.Run("healthz returns ok", func(t *testing.T) {
		wantJSON(t, api.call(http.MethodGet, "/healthz", 200, nil), `{"status":"ok"}`)
	})
	t.Run("readyz returns ok", func(t *testing.T) {
		wantJSON(t, api.call(http.MethodGet, "/readyz", 200, nil),
			`{"status":"ready","checks":{"database":"ok","schema":"ok","kafka":"ok","ingester":"not running"}}`)
	})
	t.Run("list of an empty topic", func(t *testing.T) {
		wantJSON(t, api.call(http.MethodGet, "/api/v1/dlq/nothing.dlq.v1", 200, nil),
			`{"messages":[],"pagination":{"total_count":0,"page":1,"page_size":20,"has_next":false}}`)
	})
	t.Run("list returns a stored message", func(t *testing.T) {
		id := s.insert(topic, `{"order_id": "123"}`, "PENDING", 0)
		var got struct {
			Messages   []map[string]any
			Pagination map[string]any
		}
		api.call(http.MethodGet, "/api/v1/dlq/"+topic+"?page=1&page_size=20", 200, &got)
		if len(got.Messages) != 1 || got.Messages[0]["id"] != id {
			t.Fatalf("messages %v, want the one %s", got.Messages, id)
		}
		wantTen(t, got.Messages[0], id, topic, map[string]any{"order_id": "123"})
		if want := (map[string]any{"total_count": 1.0, "page": 1.0, "page_size": 20.0, "has_next": false}); !reflect.DeepEqual(got.Pagination, want) {
			t.Errorf("pagination %v, want %v", got.Pagination, want)
		}
		s.remove(id)
	})
	t.Run("get of what does not exist is 404", func(t *testing.T) {
		wantError(t, api, http.MethodGet, "/api/v1/dlq/messages/"+unknown, 404, "SYS_DLQ_NOT_FOUND", "dlq message not found: "+unknown)
	})
	t.Run("get returns the message", func(t *testing.T) {
		id := s.insert(topic, `{"order_id": "123"}`, "PENDING", 0)
		var got map[string]any
		api.call(http.MethodGet, "/api/v1/dlq/messages/"+id, 200, &got)
		wantTen(t, got, id, topic, map[string]any{"order_id": "123"})
		s.remove(id)
	})
	t.Run("get of an invalid id is 400", func(t *testing.T) {
		wantError(t, api, http.MethodGet, "/api/v1/dlq/messages/not-a-uuid", 400, "SYS_DLQ_VALIDATION_ERROR", "invalid message id: not-a-uuid")
	})
	t.Run("retry of what does not exist is 404", func(t *testing.T) {
		wantError(t, api, http.MethodPost, "/api/v1/dlq/messages/"+unknown+"/retry", 404, "SYS_DLQ_NOT_FOUND", "dlq message not found: "+unknown)
	})
	t.Run("retry of a dead message is 409", func(t *testing.T) {
		id := s.insert(topic, `{}`, "DEAD", 3)
		wantError(t, api, http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", 409, "SYS_DLQ_CONFLICT",
			"message is not retryable: status=DEAD, retry_count=3/3")
		s.remove(id)
	})
	t.Run("retry resolves a pending message", func(t *testing.T) {
		id := s.insert(topic, `{"order_id": "124"}`, "PENDING", 0)
		var got map[string]any
		api.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", 200, &got)
		for field, want := range map[string]any{"id": id, "status": "RESOLVED", "message": "message retry initiated", "published": true} {
			check.True(t, got[field] == want, "%s = %v, want %v", field, got[field], want)
		}
		api.call(http.MethodGet, "/api/v1/dlq/messages/"+id, 200, &got)
		if got["status"] != "RESOLVED" || got["retry_count"] != 1.0 {
			t.Errorf("afterwards %v after %v attempts, want RESOLVED after 1", got["status"], got["retry_count"])
		}
		if sent := s.kafka.readAll(topic); len(sent) != 1 || string(sent[0].Value) != `{"order_id": "124"}` || header(sent[0], "dlq-message-id") != id {
			t.Errorf("published %d records, want the payload's text once with the message's id", len(sent))
		}
		s.remove(id)
	})
	t.Run("delete returns ok", func(t *testing.T) {
		id := s.insert(topic, `{}`, "PENDING", 0)
		wantJSON(t, api.call(http.MethodDelete, "/api/v1/dlq/messages/"+id, 200, nil),
			fmt.Sprintf(`{"success":true,"message":"message %s deleted"}`, id))
		wantError(t, api, http.MethodDelete, "/api/v1/dlq/messages/"+id, 404, "SYS_DLQ_NOT_FOUND", "dlq message not found: "+id)
	})
	t.Run("retry-all returns how many", func(t *testing.T) {
		for range 3 {
			s.insert(topic, `{"a": 1}`, "PENDING", 0)
		}
		s.insert(topic, `{"a": 1}`, "DEAD", 3)
		var got map[string]any
		api.call(http.MethodPost, "/api/v1/dlq/"+topic+"/retry-all", 200, &got)
		if got["retried"] != 3.0 || got["message"] != "3 messages retried in topic "+topic {
			t.Errorf("answer %v, want 3 retried", got)
		}
	})
}

// insert adds a message to the live table by SQL. It sets only the columns that dlq-manager's documentation describes,
// as a person would.
func (s *system) insert(topic, payload, status string, retries int) (id string) {
	s.t.Helper()
	err := s.db.Get(&id, `INSERT INTO dlq.dlq_messages (original_topic, error_message, payload, status, retry_count)
		VALUES ($1, 'processing failed', $2, $3, $4) RETURNING id::text`, topic, payload, status, retries)
	check.NoError(s.t, err)
	return id
}

func (s *system) remove(id string) {
	s.t.Helper()
	if _, err := s.db.Exec(`DELETE FROM dlq.dlq_messages WHERE id = $1`, id); err != nil {
		s.t.Fatalf("remove: %v", err)
	}
}

var milliseconds = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$`)

// wantTen checks the names, types and values of the ten fields that every message in an answer must have.
func wantTen(t *testing.T, got map[string]any, id, topic string, payload any) {
	t.Helper()
	want := map[string]any{
		"id": id, "original_topic": topic, "error_message": "processing failed", "retry_count": 0.0, "max_retries": 3.0,
		"payload": payload, "status": "PENDING", "last_retry_at": nil,
	}
	for field, value := range want {
		if is, ok := got[field]; !ok || !reflect.DeepEqual(is, value) {
			t.Errorf("%s = %v, want %v", field, is, value)
		}
	}
	for _, field := range []string{"created_at", "updated_at"} {
		text, _ := got[field].(string)
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || !milliseconds.MatchString(text) || time.Since(at).Abs() > time.Hour {
			t.Errorf("%s = %q, want the current time with milliseconds and +00:00", field, text)
		}
	}
}

func wantJSON(t *testing.T, got []byte, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatalf("answer %s: %v", got, err)
	}
	check.NoError(t, json.Unmarshal([]byte(want), &b))
	if !reflect.DeepEqual(a, b) {
		t.Errorf("answer %s, want %s", got, want)
	}
}

func wantError(t *testing.T, api *process, method, path string, status int, code, message string) {
	t.Helper()
	var got struct {
		Error struct {
			Code, Message string
			RequestID     string `json:"request_id"`
			Details       []any
		}
	}
	api.call(method, path, status, &got)
	if got.Error.Code != code || got.Error.Message != message || !strings.HasPrefix(got.Error.RequestID, "req_") || got.Error.Details == nil {
		t.Errorf("%s %s: error %+v, want %s, %q, a request id and details", method, path, got.Error, code, message)
	}
}
