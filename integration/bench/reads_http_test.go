package main

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestCaller(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			fmt.Fprint(w, "half of it")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		if r.URL.Path == "/bad" {
			http.Error(w, "no such thing", http.StatusNotFound)
			return
		}
		for range 3 {
			fmt.Fprint(w, r.URL.RequestURI())
			if r.URL.Path == "/flushed" {
				_ = http.NewResponseController(w).Flush() // makes it chunked
			}
		}
	}))
	defer server.Close()
	all, err := dialAll(t.Context(), server.URL, 2)
	defer closeAll(all)
	if err != nil || len(all) != 2 {
		t.Fatalf("dialAll = %d connections, %v, want 2", len(all), err)
	}
	for _, path := range []string{"/a?b=c", "/flushed", "/a/much/longer/path", "/flushed?again", "/a"} {
		body, err := all[0].get(path)
		if want := strings.Repeat(path, 3); err != nil || string(body) != want {
			t.Errorf("get(%q) = %q, %v, want %q", path, body, err, want)
		}
	}
	if body, err := all[0].get("/bad"); err == nil || !strings.Contains(err.Error(), "404 no such thing") {
		t.Errorf("get of what is not there = %q, %v, want an error that says so", body, err)
	}
	if _, err := all[0].get("/a"); err != nil {
		t.Errorf("get after a bad answer = %v, want nil", err)
	}
	if body, err := all[1].get("/broken"); err == nil {
		t.Errorf("get of half an answer = %q, want an error", body)
	}
	if body, err := all[1].get("/a"); err != nil || string(body) != "/a/a/a" {
		t.Errorf("get after half an answer = %q, %v, want the answer of another connection", body, err)
	}
}

func TestReadHead(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"HTTP/1.1 200 OK\r\nX: y\r\ncontent-length: 12\r\n\r\n": true,
		"HTTP/1.1 200 OK\r\nContent-Length: 12\n\n":             true,
		"HTTP/1.1 200 OK\r\nX: y\r\n\r\n":                       false, // no length
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n":          false,
		"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n":             false, // not ended
		"HTTP/1.1 OK\r\n\r\n":                                   false,
		"HTTP/1.1\r\n\r\n":                                      false,
		"":                                                      false,
	} {
		status, length, err := readHead(bufio.NewReader(strings.NewReader(text)))
		if (err == nil) != ok || ok && (status != 200 || length != 12) {
			t.Errorf("readHead(%q) = %d, %d, %v, want ok %t with 200 and 12", text, status, length, err, ok)
		}
	}
}

func TestHammer(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	r, times, err := hammer(t.Context(), 3, 20*time.Millisecond, func(int, int) error { asked.Add(1); return nil })
	if err != nil || r.n == 0 || int64(r.n) != asked.Load() || len(times) != r.n || r.took < 20*time.Millisecond {
		t.Errorf("hammer = %+v with %d times, %v, want all %d of 20 ms or more", r, len(times), err, asked.Load())
	}
	wrong := errors.New("wrong")
	if _, _, err := hammer(t.Context(), 3, time.Hour, func(worker, n int) error {
		if worker == 1 && n == 2 {
			return wrong
		}
		return nil
	}); !errors.Is(err, wrong) {
		t.Errorf("hammer = %v, want %v, which ends all", err, wrong)
	}
	if _, _, err := hammer(t.Context(), 1, 0, func(int, int) error { return nil }); err == nil {
		t.Error("hammer for no time = nil, want an error: nothing was asked")
	}
}
