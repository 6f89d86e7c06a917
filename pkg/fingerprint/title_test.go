package fingerprint

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// titles are error messages with their expected titles.
var titles = []struct{ message, want string }{
	// Words stay.
	{"no stock", "no stock"},
	{"Größe überschritten: zu groß", "Größe überschritten: zu groß"},
	{"connection refused", "connection refused"},
	{"deadbeef is a hash, face and added are words", "<hex> is a hash, face and added are words"},
	{"order_id must not be null", "order_id must not be null"},
	{"std::bad_alloc in Foo::bar and a::b::c", "std::bad_alloc in Foo::bar and a::b::c"},
	{"unsupported UTF8 in sha256 of Log4j2Plugin, see S3", "unsupported UTF8 in sha256 of Log4j2Plugin, see S3"},
	{"", ""},
	{" \n\t ", ""},

	// Numbers.
	{"order 42 not found", "order <n> not found"},
	{"order -42 not found", "order <n> not found"},
	{"order #42 not found", "order #<n> not found"},
	{"order=42: no", "order=<n>: no"},
	{"amount 19.90 EUR", "amount <n> EUR"},
	{"1,234,567.89 is too much", "<n> is too much"},
	{"got 1e10 and -2.5E-7", "got <n> and <n>"},
	{"50% of 3 items", "<n>% of <n> items"},
	{"record of 1048588B, limit 1MiB", "record of <n>, limit <n>"},
	{"schema version 1.2.3", "schema version <n>"},
	{"order_123_created", "order_<n>_created"},
	{"pool-1-thread-12", "pool-<n>-thread-<n>"},
	{"worker12 is gone", "worker<n> is gone"},
	{"ids [1, 2, 3] are gone", "ids [<n>] are gone"},
	{"ids [1,2,3,4] are gone", "ids [<n>] are gone"},
	{"the 2nd of 4xx", "the 2nd of 4xx"},

	// Codes that distinguish causes stay.
	{"upstream said HTTP 503", "upstream said HTTP 503"},
	{"HTTP/1.1 404 Not Found", "HTTP/<n> 404 Not Found"},
	{"status code: 404, body of 17 bytes", "status code: 404, body of <n> bytes"},
	{`{"status":500,"id":17}`, `{"status":500,"id":<n>}`},
	{"ORA-00942: table or view does not exist", "ORA-00942: table or view does not exist"},
	{"code 48151623", "code <n>"},
	{"SQLSTATE[23505]: unique violation", "SQLSTATE[23505]: unique violation"},
	{"SQLSTATE[42P01]: undefined table", "SQLSTATE[42P01]: undefined table"},
	{"error code: 1062, row 17", "error code: 1062, row <n>"},
	{"ERROR 1213 (40001): Deadlock found", "ERROR 1213 (<n>): Deadlock found"},
	{"Error: 17 orders failed", "Error: <n> orders failed"},
	{"failed with errorCode=E1001 for order 17", "failed with errorCode=E1001 for order <n>"},
	{`{"errorCode":"E1002","id":17}`, `{"errorCode":"E1002","id":<n>}`},
	{"code(E1003)", "code(E1003)"},
	{"ERR_4711 while booking", "ERR_4711 while booking"},
	{"404 Client Error: Not Found for url", "404 Client Error: Not Found for url"},
	{"500 Server Error for url", "500 Server Error for url"},
	{"404 orders", "<n> orders"},
	{"got 429", "got 429"},
	{"got 500 from upstream", "got 500 from upstream"},
	{"got 500 orders", "got <n> orders"},
	{"got 999", "got <n>"},
	{"response: 503", "response: 503"},

	// Key values in errors of databases.
	{"Key (id)=(5) already exists.", "Key (id)=(<id>) already exists."},
	{"Key (id)=(550e8400-e29b-41d4-a716-446655440000) already exists.", "Key (id)=(<id>) already exists."},
	{"Key (shop, name)=(7, O'Neil (old)) already exists.", "Key (shop, name)=(<id>) already exists."},
	{"f(x)=(no end", "f(x)=(no end"},

	// Identities.
	{"order 550e8400-e29b-41d4-a716-446655440000 not found", "order <id> not found"},
	{"order_550E8400-E29B-41D4-A716-446655440000.json", "order_<id>.json"},
	{"commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "commit <hex>"},
	{"at 0x7fff5fbff8c0", "at <hex>"},
	{"commits deadbeef and cafebabe", "commits <hex> and <hex>"},
	{"a facade", "a facade"},
	{"object 507f1f77bcf86cd799439011", "object <hex>"},
	{"com.acme.Order@1b2c3d4 is null", "com.acme.Order@<hex> is null"},
	{"[B@6d06d69c", "[B@<hex>"},
	{"ulid 01ARZ3NDEKTSV4RRFFQ69G5FAV", "ulid <id>"},
	{"customer 'C-4711' unknown", "customer '<id>' unknown"},
	{`customer "AB12" unknown`, `customer "<id>" unknown`},
	{"customer 'Smith' unknown", "customer 'Smith' unknown"},
	{"topic 'orders-v2' unknown", "topic 'orders-v2' unknown"},
	{"sku X7Z9Q unknown", "sku <id> unknown"},
	{"token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P", "token <id>"},
	{"can't read 5 of it's", "can't read <n> of it's"},

	// Kafka.
	{"orders-3@1234 failed", "orders-<n>@<hex> failed"},
	{"Offset 17 of partition orders-3", "Offset <n> of partition orders-<n>"},

	// Times.
	{"at 2026-11-21T10:00:00.123Z it broke", "at <time> it broke"},
	{"at 2026-11-21T10:00:00.123456+01:00 it broke", "at <time> it broke"},
	{"at 2026-11-21 10:00:00,123 it broke", "at <time> it broke"},
	{"at 2026-11-21 10:00:00 UTC it broke", "at <time> it broke"},
	{"on 2026-11-21 it broke", "on <time> it broke"},
	{"on 21.11.2026 and 11/21/2026", "on <time> and <time>"},
	{"at 10:00:00.5 and 9:59:59", "at <time> and <time>"},
	{"at 20261121T100000Z it broke", "at <time> it broke"},
	{"Sat Nov 21 10:00:00 UTC 2026: it broke", "<time>: it broke"},
	{"since Sat, 21 Nov 2026 10:00:00 GMT", "since <time>"},
	{"since 21-Nov-2026 10:00", "since <time>"},
	{"may I march on Saturday", "may I march on Saturday"},
	{"took 500ms, not 1.5s, 1h30m or PT1H30M", "took <time>, not <time> or <time>"},
	{"timed out after 30000 ms", "timed out after <n> ms"},

	// Addresses.
	{"10.0.0.1:9092 is down", "<addr> is down"},
	{"10.0.0.1 is down", "<addr> is down"},
	{"net 10.0.0.0/8", "net <addr>"},
	{"/10.1.2.3:5432 refused", "/<addr> refused"},
	{"[2001:db8::1]:9092 is down", "<addr> is down"},
	{"2001:db8::8a2e:370:7334 and fe80::1%eth0 and ::1", "<addr> and <addr> and <addr>"},
	{"2001:0db8:85a3:0000:0000:8a2e:0370:7334", "<addr>"},
	{"broker-1.kafka.svc:9092 is down", "<addr> is down"},
	{"localhost:5432 refused", "<addr> refused"},
	{"waiting for 10.0.0.1", "waiting for <addr>"},
	{"waiting for db.acme.com:5432", "waiting for <addr>"},
	{"ann.other+x@example.org is unknown", "<email> is unknown"},
	{"Orders.java:42 and orders.py:17", "Orders.java:<n> and orders.py:<n>"},
	{"GET https://api.acme.com/v2/orders/4711/items?at=17&q=x#top failed", "GET https://api.acme.com/v2/orders/<n>/items?<id> failed"},
	{"GET http://10.0.0.1:8080/a failed", "GET http://<addr>/a failed"},
	{"see postgres://ann:secret@db.acme.com:5432/orders", "see postgres://<addr>/orders"},
	{"no file /var/spool/2026/11/file-17.txt", "no file /var/spool/<n>/<n>/file-<n>.txt"},

	// Lines.
	{"Validation failed\n  at line 3", "Validation failed"},
	{"\n---\nValidation failed", "Validation failed"},
	{"2 errors occurred:\n\t* no stock\n\t* no card", "<n> errors occurred: * no stock"},
	{"Traceback (most recent call last):\n  File \"x.py\", line 3\nValueError: bad 3", "ValueError: bad <n>"},
	{"{\n  \"error\": \"no stock\",\n  \"id\": 17\n}", `{ "error": "no stock", "id": <n> }`},
	{"a\x00b\tc  d", "a b c d"},
	{"bad \xff byte", "bad \uFFFD byte"},
}

func TestTitle(t *testing.T) {
	t.Parallel()
	for _, c := range titles {
		got := Title(c.message)
		if got != c.want {
			t.Errorf("Title(%q)\n got %q\nwant %q", c.message, got, c.want)
		}
		if again := Title(got); again != got {
			t.Errorf("Title(%q) = %q, want itself", got, again)
		}
	}
}

func TestTitle_IsShort(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		strings.Repeat("word ", 10_000), strings.Repeat("x", 10_000), strings.Repeat("ö", 10_000), strings.Repeat("(1)", 5000),
		strings.Repeat("<id>;", 5000),
	} {
		got := Title(message)
		if len(got) > maxTitle || len(got) < maxTitle-64 || !utf8.ValidString(got) {
			t.Errorf("Title(%.10q...) has %d bytes, want nearly %d", message, len(got), maxTitle)
		}
		if again := Title(got); again != got {
			t.Errorf("Title(%.10q...): again it is %q, want %q", message, again, got)
		}
	}
}

func TestTitle_LongIDsDoNotMoveTheEnd(t *testing.T) {
	t.Parallel()
	tail := strings.Repeat("the same words follow ", 60)
	if a, b := Title("order 1 "+tail), Title("order 123456789012345 "+tail); a != b {
		t.Errorf("got %q, want %q", b, a)
	}
}

// TestTitle_IsLinear repeats the beginning of every pattern without its end. With a quadratic scan the test would
// exceed its time limit.
func TestTitle_IsLinear(t *testing.T) {
	t.Parallel()
	for _, part := range []string{
		"a@", "a.", "1.", "1:", "a:", ":", "::", "[", "[:", "0x", "1e", "1-", "2026-", "http://", "a@b.", "'1", "\"a1", "-1", "<", "<n>,", "Mon ", "1h", "P1", "eyJ", "é", ")=(", "got 500 ", "err_1", "SQLSTATE[", "deadbeef",
	} {
		message := strings.Repeat(part, 1<<20/len(part))
		for range 20 {
			if got := Title(message); len(got) > maxTitle {
				t.Errorf("Title(%q...) has %d bytes", part, len(got))
			}
		}
	}
}

func FuzzTitle(f *testing.F) {
	for _, c := range titles {
		f.Add(c.message)
	}
	for _, s := range []string{"http://a@b/1?x", "1:2::3", "[::1", "Mon Jan 1", "'1a'2", "a@1@2", "1.2.3.4.5", "<n>, <n>", "'a1\"b2'", "eyJ" + strings.Repeat("a.", 30)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, message string) {
		got := Title(message)
		if len(got) > maxTitle || !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\n\r\t") {
			t.Fatalf("Title(%q) = %q", message, got)
		}
		if again := Title(got); again != got {
			t.Errorf("Title(%q)\n  is %q\nthen %q", message, got, again)
		}
	})
}

func BenchmarkTitle(b *testing.B) {
	for name, message := range map[string]string{
		"100Bytes": "Order 550e8400-e29b-41d4-a716-446655440000 of customer 4711 could not be booked after 3 attempts (500ms)",
		"Words":    "Listener method could not be invoked with the incoming message, because the payload is not what it says",
		"4KiB":     strings.Repeat("order 42 at 10.0.0.1:80 ", 170),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Title(message)
			}
		})
	}
}
