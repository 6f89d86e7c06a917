package browser

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/shop"
)

// night: an operator on call finds the cause, retries one message, sees it consumed, republishes the rest with a
// canary, sees the broken messages return and the redrive stop, marks these messages dead, and finds the reasons of
// these actions in the audit trail.
func night(t *testing.T, site *Site) {
	b := Open(t, site.URL)
	b.Visit("/")
	t.Logf("first paint of the overview: %.0f ms", b.FirstPaint())
	b.WaitText("Read timed out")
	b.Wait("the chart leads to the messages of a minute", `document.querySelector(".arrivals svg a[href*=created_after]")`)

	b.Wait("the groups are sorted by their arrivals in fifteen minutes",
		`(rates => rates.length > 1 && rates.every((n, i) => i === 0 || n <= rates[i-1]))([...document.querySelectorAll(".causes tbody tr > td:nth-child(3)")].map(e => Number(e.innerText)))`)
	b.In(".causes").Click("Read timed out")
	b.WaitPath("/groups/")
	b.WaitText("What fails")
	group := b.Path()
	b.Look("group")

	one := retryOne(b, site)
	b.Visit(group)
	b.WaitText("Resolved 1")
	retryTheRest(b)
	b.Visit("/messages/" + one)
	b.WaitText("committed offset")

	giveUpTheBroken(t, b, site)
}

// retryOne republishes the latest message of the error group after the provider has recovered, and
// sees it consumed.
func retryOne(b *Browser, site *Site) (id string) {
	b.Click(".latest a")
	b.WaitPath("/messages/")
	b.WaitText("com.example.shop.payments.PaymentProviderTimeoutException")
	b.WaitText("java.net.SocketTimeoutException")
	b.WaitText("Error group Read timed out")
	id = b.Path()[len("/messages/"):]

	site.Shop.Recover()
	b.Click("Retry")
	b.WaitText("The message was sent back")
	b.In("#outcome").WaitText("consumed")
	b.In("#outcome").WaitText("committed offset")
	b.Look("message-consumed")
	return id
}

// retryTheRest republishes the rest of the error group, with a canary of one message.
func retryTheRest(b *Browser) {
	b.In(".deeds").Click("Retry …")
	b.WaitPath("/redrives/new")
	b.WaitText("selected 3")
	b.WaitText("can be sent 3")
	if got := b.Value("Canary"); got != "1" {
		b.t.Errorf("a canary of %q is proposed, want 1", got)
	}
	b.In(".go").Fill("Reason", "the provider answers again")
	b.Look("redrive-new")
	b.Click("Retry 3 messages")
	b.WaitText("Redrive started")
	b.In("#progress").WaitText("finished")
	b.In("#progress").WaitText("consumed 3")
	b.In("#progress").WaitText("failed again 0")
	b.Look("redrive")
}

// giveUpTheBroken republishes the other PENDING payments, which fail again because their content is wrong. The canary
// returns, so the redrive stops and sends no further message; the operator then marks the messages dead.
func giveUpTheBroken(t *testing.T, b *Browser, site *Site) {
	t.Helper()
	const why = "the producer sends amounts as text: DEV-4711"
	b.Click("Overview")
	b.WaitPath("/")
	b.In(".topics").Click(site.Prefix + shop.PaymentsTopic)
	b.WaitPath("/topics/")
	b.WaitText("Retry all pending")
	b.In("[aria-labelledby=consumers]").WaitText(site.Prefix + shop.PaymentsGroup)
	b.Look("topic")
	b.In(".figures").Click("Pending")
	b.WaitPath("/messages?")
	b.WaitText("2 match")
	b.Click("[data-all]")
	b.Click(`.chosen [value="all"]`)
	b.WaitText("All 2 that match are selected")
	b.Click("Retry…")
	b.WaitPath("/redrives/new")
	b.WaitText("can be sent 2")
	b.Click("Retry 2 messages")
	b.WaitPath("/redrives/")
	b.In("#progress").WaitText("stopped")
	b.In("#progress").WaitText("failed again 1")
	b.In("#progress").WaitText("waiting 1")
	b.In("#progress").Click("All that failed again")
	b.In("#items").Click(".id")
	b.WaitText("Failed again as")
	b.WaitText("failed again and was stored as another message")
	b.Look("message-returned")

	b.Visit("/redrives")
	b.Look("redrives")
	b.Click("#redrive-list a")
	b.Click("Cancel")
	b.In("#moves").Fill("Reason", why)
	b.Click("Cancel the redrive")
	b.WaitText("The redrive was cancelled")
	b.In("#progress").WaitText("not sent 1")
	b.Look("redrive-not-sent")

	b.Visit("/messages?status=PENDING&topic=" + site.Prefix + shop.PaymentsTopic)
	b.WaitText("2 match")
	b.Click("[data-all]")
	b.WaitText("2 of the 2 on this page are selected")
	b.Click("Mark dead…")
	b.WaitPath("/redrives/new")
	b.WaitText("can be processed 2")
	b.Click("Confirm these 2 messages")
	b.In(".go").Fill("Reason", why)
	b.Click("Mark 2 messages dead")
	b.In("#progress").WaitText("finished")
	b.In("#progress").WaitText("marked dead 2")
	redrive := b.Path()

	b.Click("Its audit trail")
	b.WaitPath("/audit?")
	b.WaitText(why)
	b.Visit("/audit")
	for _, said := range []string{why, "the provider answers again"} {
		b.WaitText(said)
	}
	b.Look("audit")
	b.Visit(redrive)
	b.Click("#items a.id")
	b.WaitText("Dead since")
	b.WaitText(why)

	b.Visit("/")
	b.WaitText("1 failed again")
	b.Look("overview")
}
