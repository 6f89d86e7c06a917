package browser

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/shop"
)

// archive: what is over for long enough is found in the archive, and brought back.
func archive(t *testing.T, site *Site) {
	payments := site.Prefix + shop.PaymentsTopic
	site.Archive(payments)
	b := Open(t, site.URL)
	b.Visit("/")
	b.Click("Archive")
	b.WaitPath("/archive")
	b.Fill("Topic", payments)
	b.Click("Search")
	b.WaitPath("/archive?")
	b.WaitText("match")
	b.Look("archive")
	b.Click(".messages td.c-status")
}
