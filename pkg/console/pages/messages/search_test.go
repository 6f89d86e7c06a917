package messages

import (
	"net/url"
	"testing"
)

func TestSearchInput(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]struct{ words, conditions string }{
		// Words stay as they were typed.
		"boom":                    {"boom", ""},
		`SHIP-0003 "two words"`:   {`SHIP-0003 "two words"`, ""},
		`"no end`:                 {`"no end`, ""},
		"http://host/path":        {"http://host/path", ""},
		"at 10:30 a=b [ERROR] :-": {"at 10:30 a=b [ERROR] :-", ""},
		"注文":                      {"注文", ""},

		// Tokens become conditions. A token without a valid value remains words.
		"topic:orders.* boom":                {"boom", "topic=orders.*"},
		"status:dead,Pending":                {"", "status=DEAD&status=PENDING"},
		"class:com.acme.Late key:\"a b\" ":   {"", "error_class=com.acme.Late&key=a b"},
		"payload.order.id:42":                {"", "payload=$.order.id = 42"},
		`payload.note:"two words"`:           {"", "payload=$.note = two words"},
		"payload:order_id=7 $.a[*].b=c":      {"", "payload=$.order_id = 7&payload=$.a[*].b = c"},
		"$.customer":                         {"", "payload=$.customer"},
		`header:a=b header:c header:d="e f"`: {"", "header=a=b&header=c&header=d=e f"},
		"group:0190 consumer:billing":        {"", "consumer_group=billing&group_id=0190"},
		"origin:unknown since:1h":            {"", "origin=unknown&since=1h"},
		"after:2026-02-20 before:2026-02-21": {"", "created_after=2026-02-20&created_before=2026-02-21"},
		"status:500":                         {"status 500", ""},
		"topic:":                             {"topic:", ""},

		// Text copied from JSON or from a log becomes words. Only true, false and null become a condition, because the
		// search index has no words for them.
		`"order_id":"SHIP-00042"`:                          {"order_id SHIP-00042", ""},
		`"order_id" : "SHIP-00042",`:                       {"order_id SHIP-00042", ""},
		"order_id: SHIP-00042":                             {"order_id SHIP-00042", ""},
		"order_id=SHIP-00042,":                             {"order_id SHIP-00042", ""},
		"order_id:SHIP-00042":                              {"order_id SHIP-00042", ""},
		`order_id="SHIP 42"`:                               {`order_id "SHIP 42"`, ""},
		`{"order_id":"SHIP-00042","amount":12.50,"n": 7}`:  {`order_id SHIP-00042 amount 12.50 "n 7"`, ""},
		`{"order":{"lines":[{"sku":"P-NEW-1"},{"sku":1}]}`: {`order lines sku P-NEW-1 "sku 1"`, ""},
		`"paid": true`:                                     {"", "payload=$.paid = true"},
		`"note":"say \"hello\" twice"`:                     {"note say hello twice", ""},
		"Caused by: java.sql.SQLException: down":           {"Caused java.sql.SQLException down", ""},
		`"name":"注文番号"`:                                    {"name 注文番号", ""},
	} {
		words, conditions, changed := readSearch(typed)
		got, err := url.QueryUnescape(conditions.Encode())
		if words != want.words || got != want.conditions || err != nil {
			t.Errorf("%s: got words %q and %q, want %q and %q", typed, words, got, want.words, want.conditions)
		}
		if again, more, _ := readSearch(words); changed && (again != words || len(more) > 0) {
			t.Errorf("%s: its words %q are read again as %q and %v, want them unchanged", typed, words, again, more)
		}
	}
}

func TestTokensReplaceTheirParameters(t *testing.T) {
	t.Parallel()
	for before, want := range map[string]string{
		"q=topic:new+boom&topic=old&status=DEAD": "q=boom&status=DEAD&topic=new",
		"q=status:dead&status=PENDING":           "q=&status=DEAD",
		"q=header:a&header=b&header=a":           "header=b&header=a&q=",
		"q=one&q=two":                            "q=one two",
		"q=order_id=SHIP-1":                      "q=order_id SHIP-1&typed=order_id=SHIP-1",
		`q="order_id=SHIP-1"`:                    `q="order_id=SHIP-1"`,
		"q=one&topic=t":                          "q=one&topic=t",
	} {
		query, err := url.ParseQuery(before)
		if err != nil {
			t.Fatal(err)
		}
		takeTokens(query)
		if got, _ := url.QueryUnescape(query.Encode()); got != want {
			t.Errorf("%s: got %s, want %s", before, got, want)
		}
	}
}
