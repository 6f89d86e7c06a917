package browser

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/shop"
)

// archive: an operator finds an old message in the archive and restores it.
func archive(t *testing.T, site *Site) {
	payments := site.Prefix + shop.PaymentsTopic
	site.Archive(payments)
	b := Open(t, site.URL)
	b.Visit("/")
	b.Click("Archive")
	b.WaitPath("/archive")
	b.Click("Filters")
	b.Fill("Topic", payments)
	b.In("#filters").Click("dead")
	b.Click("Apply filters")
	b.WaitPath("/archive?")
	b.WaitText("2 match")
	b.Look("archive")
	b.Click("[data-open]")
	b.WaitPath("/archive/")
	b.WaitText("It was archived")
	b.WaitText("the producer sends amounts as text")
	b.Look("archived-message")
	b.Click("Restore")
	b.Fill("Reason", "the producer can be fixed")
	b.Click("Restore it")
	b.WaitPath("/messages/")
	b.WaitText("The message was restored from the archive")
	b.In("#outcome").WaitText("PENDING")
	b.Visit("/archive?status=DEAD&topic=" + payments)
	b.WaitText("1 match")
}
