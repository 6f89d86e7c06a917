package browser

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/shop"
)

// TestSchemas: an operator reads records in Avro and Protobuf whose schema has changed, finds them by decoded values,
// corrects one of them, and repairs the others by a patch.
func TestSchemas(t *testing.T) {
	t.Parallel()
	site := NewSiteWithSchemas(t)
	shipments, invoices := site.Prefix+shop.ShipmentsDeadLetters, site.Prefix+shop.InvoicesDeadLetters
	b := Open(t, site.URL)

	renamed := "?" + url.Values{"topic": {shipments}, "payload": {"$.status = SENT"}}.Encode()
	site.await("payloads are searchable", func() bool {
		var found struct {
			Messages []Stored `json:"messages"`
		}
		site.Call(http.MethodGet, "/api/v1/messages"+renamed, nil, &found)
		return len(found.Messages) > 0
	})
	b.Visit("/messages" + renamed)
	b.WaitText("S-90")
	sent := site.Messages(shipments)
	first := "/messages/" + sent[0].ID
	b.Visit(first)
	b.In("#payload").WaitText("Avro, " + site.Prefix + shop.ShipmentsTopic + "-value version 1")
	b.In("#payload").WaitText("latest is 2")
	b.In("#payload").WaitText(`"SENT"`)
	b.Look("message-avro")
	b.Click("Hex")
	b.In("#payload").WaitText("00000000  00 00 00 00")
	b.In("#payload").Click("Show the schema")
	b.WaitText("What the latest version changes")
	b.WaitText(`"SHIPPED"`)
	b.Look("schema")

	b.Visit(first + "/edit")
	b.WaitText("Valid JSON.")
	payload := b.Value("Payload")
	b.Fill("Payload", strings.Replace(payload, "SENT", "LOST", 1))
	b.Click("Check")
	b.In("#difference").WaitText("encoded as Avro")
	b.Look("edit-avro")
	b.Allow("status of 400")
	b.Click("Send it")
	b.WaitText("must be one of the enum's symbols")
	b.Fill("Payload", strings.Replace(payload, "SENT", "SHIPPED", 1))
	b.Fill("Encoded with", "the latest schema of the topic")
	b.Click("Check")
	b.In("#difference").WaitText("latest schema of the topic")
	b.Click("Send it")
	b.WaitText("The edited message was sent")

	repair(b, shipments, `[{"op": "replace", "path": "/status", "value": "LOST"}]`)
	b.WaitText("must be one of the enum's symbols")
	b.Look("redrive-patch-avro")
	repair(b, shipments, `[{"op": "replace", "path": "/status", "value": "SHIPPED"}]`)
	b.WaitText("it applies to all of them")
	startRedrive(b)
	repair(b, invoices, `[{"op": "add", "path": "/country", "value": "DE"}]`)
	b.WaitText("it applies to all of them")
	startRedrive(b)

	for _, topic := range []string{shipments, invoices} {
		site.AwaitMessages("all repaired records are consumed", topic, func(all []Stored) bool {
			for _, m := range all {
				if m.Outcome != "consumed" {
					return false
				}
			}
			return len(all) > 0
		})
	}
}

// repair previews a patch of all messages of a dead-letter topic, with the latest schema.
func repair(b *Browser, topic, patch string) {
	b.t.Helper()
	b.Visit("/redrives/new?action=retry&topic=" + topic)
	b.Click("Change every payload before sending")
	b.Fill("JSON Patch", patch)
	b.Fill("Payloads with a schema", "are encoded with the latest schema of the topic")
	b.Fill("Canary", "")
	b.Fill("Wait", "")
	b.Click("Preview the patch")
	b.WaitText("The patch applied to a sample")
}

// startRedrive clicks the button of a preview that starts the redrive, and waits until the redrive has finished.
func startRedrive(b *Browser) {
	b.t.Helper()
	b.In(".go").Click("Retry")
	b.In("#progress").WaitText("finished")
}
