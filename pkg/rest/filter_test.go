package rest

import (
	"strings"
	"testing"
)

// Invalid values are refused with the name of their parameter, by searches, the archive and exports.
func TestFilter_Bad(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1001)
	f := newFixture().open()
	for field, queries := range map[string][]string{
		"topic": {
			"topic=", "topic=a&topic=b", "topic=" + strings.Repeat("x", 256), "topic=a%00", "topic=%ff", "topic=a/*", "topic=^a*",
			"topic=" + strings.Repeat("x", 249) + "*",
		},
		"status":      {"status=", "status=dead", "status=DEAD,", "status=DEAD&status=x"},
		"error_class": {"error_class=", "error_class=" + long}, "consumer_group": {"consumer_group=a%00b"}, "dialect": {"dialect=%fe"},
		"group_id": {"group_id=1", "group_id=00000000-0000-0000-0000-000000000000"}, "origin": {"origin=known", "origin="},
		"created_after":  {"created_after=yesterday", "created_after=2026-02-30T00:00:00Z"},
		"created_before": {"created_before=", "created_after=2026-02-20T10:30:00Z&created_before=2026-02-20T10:30:00Z"},
		"retried_after":  {"retried_after=1"},
		"retried_before": {"retried_before=0001-01-01T00:00:00Z", "retried_after=2026-02-20T10:30:01Z&retried_before=2026-02-20T10:30:00Z"},
		"key":            {"key=a&key_base64=YQ==", "key=" + long}, "key_base64": {"key_base64=!"},
		"header": {"header=", "header==x", "header=a%00", "header=a%3D" + long, strings.Repeat("header=a&", 11)},
		"payload": {
			"payload=", "payload=customer.id", "payload=$..id", "payload=$.a[0]", "payload=$.a%3D", "payload=$.a%20x", "payload=$.a%3D%00",
			"payload=$.a%3D" + long,
		},
		"q": {
			"q=", "q=ab", "q=abc+de", "q=%22abc", "q=%22%22", "q=a%00bc", "q=%ff%ff%ff", "q=abc+aaa+bbb+ccc+ddd+eee+fff+ggg+hhh+iii+jjj",
			"q=" + long,
		},
	} {
		for _, query := range queries {
			for _, path := range []string{"/api/v1/messages?", "/api/v1/archive?", "/api/v1/export?"} {
				wantEnvelope(t, f.do("GET", path+query, ""), 400, field)
			}
		}
	}
	wantStatus(t, f.do("GET", "/api/v1/messages?q=a&topic=&status=x&sort=up&count=all&limit=0&unmask=1&cursor=x", ""), 400,
		// Every problem is reported.
		`"field":"q"`, `"field":"topic"`, `"field":"status"`, `"field":"sort"`, `"field":"count"`, `"field":"limit"`, `"field":"unmask"`)
}
