package browser

import (
	"strings"
	"testing"
)

// auditing: when a person changes many messages at once, the audit trail shows one row, which opens to show each
// change. The trail shows changes that dlq-manager itself made after a click on "People and machines".
func auditing(t *testing.T, site *Site) {
	const why = "the truck is gone: OPS-12"
	original, _ := site.Topics("trail")
	site.Fail("trail", late(1), late(2))
	carol := aToken("operator")
	carol.name, carol.secret = "carol", carol.secret[:len(carol.secret)-1]+"A"
	address := site.Another("DLQ_AUTH_MODE=token", "DLQ_AUTH_TOKENS_FILE="+tokensFile(t, carol))

	b := Open(t, address)
	b.Allow("status of 401")
	b.Visit("/messages?topic=" + original)
	signIn(b, carol.secret)
	b.WaitText("2 match")
	b.Click("[data-all]")
	b.Click(`.chosen [value="all"]`)
	b.Click("Mark dead…")
	b.WaitPath("/redrives/new")
	b.Click("Confirm these 2 messages")
	b.In(".go").Fill("Reason", why)
	b.Click("Mark 2 messages dead")
	b.In("#progress").WaitText("finished")

	b.Visit("/audit?actor=carol")
	b.WaitText("marked 2 messages dead")
	b.WaitText(why)
	if rows := b.Count(".trail > tbody > tr"); rows != 1 {
		t.Errorf("carol has %d rows, want one for her one request", rows)
	}
	b.Wait("names and ids are not broken", `[...document.querySelectorAll(".trail td.fit")].every((e) => e.getClientRects().length === 1 && e.clientHeight < 60)`)
	b.Click("3 entries")
	b.WaitText("marked a message dead")
	b.Look("audit-people")

	b.Click("People and machines")
	b.WaitText("finished a redrive")
	b.WaitText("dlq-manager, for carol")
	b.Click("Yesterday")
	b.WaitText("No entries match")
	b.Click("Today")
	b.WaitText("marked 2 messages dead")
	b.Fill("Until", "2020-02-29T10:30")
	b.Click("Show")
	b.WaitText("No entries match")
	if path := b.Path(); !strings.Contains(path, "until=2020-02-29T10%3A30") || !strings.Contains(path, "actor=carol") {
		t.Errorf("the address is %s, want the person and the end of the time in it", path)
	}
}
