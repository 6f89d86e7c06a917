package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dlq-manager/dlq-manager/integration/shop"
)

// try is a step of the guide: its explanation and the arguments of curl. A step without explanation
// belongs to the step before it.
type try struct{ about, command string }

// commandIndent starts every line that a user can copy into a shell.
const commandIndent = "  curl "

// guide returns the text that the demo prints when everything runs.
func guide(s site, folder string, e examples) string {
	var text strings.Builder
	fmt.Fprintf(&text, `
dlq-manager is running. Ctrl-C stops everything.

  console     %s/   (open it in a browser)
  API         %s   (to read about: /docs; log: %s)
  ingester    %s   (probes and metrics only; log: %s)
  PostgreSQL  %s:%s, database %s
  Kafka       %s
  settings    %s
  registry    %s   (schemas of the shop's shipments and invoices)
  sample shop consumers of orders, payments, users, shipments in Avro and invoices
              in Protobuf dead-letter some. Its lines below begin with "shop:".

Try next, in another terminal:
`,
		s.api, s.api, filepath.Join(folder, "api.log"), s.ingester, filepath.Join(folder, "ingester.log"),
		s.database.host, s.database.port, s.database.name, strings.Join(s.brokers, ","), s.config, s.registry)
	for _, t := range tries(s, e) {
		if t.about != "" {
			fmt.Fprintf(&text, "\n  # %s\n", t.about)
		}
		fmt.Fprintf(&text, "%s%s\n", commandIndent, t.command)
	}
	return text.String() + "\n" + guideEnd + "\n"
}

const guideEnd = "The shop continues: one record per second, and sometimes a dead letter."

// renamed is the part of a request body that repairs a shipment: a patch that replaces the old name of its status by
// the new one.
const renamed = `"patch": [{"op": "replace", "path": "/status", "value": "SHIPPED"}], "schema": "latest"`

func tries(s site, e examples) []try {
	topic := func(name, rest string) string { return "'" + s.api + "/api/v1/dlq/" + name + rest + "'" }
	message := func(m example, rest string) string { return topic("messages/"+m.id, rest) }
	return []try{
		{
			"failed records, newest first: orders by their dead-letter topic, payments by their original topic",
			"-sS " + topic(shop.OrdersDeadLetters, "?page_size=3"),
		},
		{"", "-sS " + topic(shop.PaymentsTopic, "?page=1&page_size=3")},
		{
			"one message with all details of its failure: an order with a truncated body",
			"-sS " + message(e.hopeless, ""),
		},
		{
			"its value, byte for byte",
			"-sS " + message(e.hopeless, "/payload"),
		},
		{
			"the error groups, which combine messages with the same cause, and one of them",
			"-sS '" + s.api + "/api/v1/groups?open=true&limit=3'",
		},
		{"", "-sS " + s.api + "/api/v1/groups/" + e.curable.group},
		{
			"messages with these words, in the error or in the record, in any topic",
			"-sSG " + s.api + "/api/v1/messages --data-urlencode 'q=" + searchedText + "' -d limit=2",
		},
		{
			"every topic, and whether a retry can work: does the topic exist, how far is its consumer",
			"-sS " + s.api + "/api/v1/topics",
		},
		{
			"the orders as CSV for a spreadsheet",
			"-sS '" + s.api + "/api/v1/export?format=csv&topic=" + shop.OrdersDeadLetters + "&limit=3' | cut -c 1-150",
		},
		{
			"retry an order: its product is in the catalogue now, so \"accepted order " + e.curable.key + "\" shows below",
			"-sS -X POST " + message(e.curable, "/retry"),
		},
		{
			"retry an order whose amount is a text, with a number instead, so \"accepted order " + e.mistyped.key + "\" shows below; the stored message is unchanged",
			s.order(fmt.Sprintf(`"ids": [%q], "patch": [{"op": "replace", "path": "/amount", "value": %s}]`, e.mistyped.id, e.mistyped.amount)),
		},
		{
			"a shipment in Avro: its payload is decoded with the schema of its producer",
			"-sS " + message(e.shipment, ""),
		},
		{
			"that schema and the latest one, in which SENT is called SHIPPED",
			"-sS " + message(e.shipment, "/schema"),
		},
		{
			"shipments by their decoded payload",
			"-sSG " + s.api + "/api/v1/messages --data-urlencode 'payload=" + searchedPath + "' -d limit=2",
		},
		{
			"would the new name fit the latest schema in all of them",
			s.order(fmt.Sprintf(`"filter": {"group_id": %q}, %s, "dry_run": true`, e.shipment.group, renamed)),
		},
		{
			"rename and retry them all: \"accepted shipment " + e.shipment.key + "\" shows below",
			s.order(fmt.Sprintf(`"filter": {"group_id": %q}, %s`, e.shipment.group, renamed)),
		},
		{
			"the same for an invoice in Protobuf, which lacks a field of the latest schema: \"accepted invoice " + e.invoice.key + "\" shows below",
			s.order(fmt.Sprintf(`"ids": [%q], "patch": [{"op": "add", "path": "/country", "value": "DE"}], "schema": "latest"`, e.invoice.id)),
		},
		{
			"retry the broken order: it fails again and is listed again, with this message as its parent_id",
			"-sS -X POST " + message(e.hopeless, "/retry"),
		},
		{
			"the history of its attempts",
			"-sS " + message(e.hopeless, "/history"),
		},
		{
			"preview: would a redrive send all payments",
			s.order(fmt.Sprintf(`"filter": {"topic": %q}, "dry_run": true`, shop.PaymentsDeadLetters)),
		},
		{
			"redrive the messages of one error group, the outage, with two as a canary: if more than half of them returned, the rest would not be sent",
			s.order(fmt.Sprintf(`"filter": {"group_id": %q}, "canary": 2, "max_return_share": 0.5`, e.outage.group)),
		},
		{"", "-sS '" + s.api + "/api/v1/redrives?limit=1'"},
		{
			"the audit trail",
			"-sS '" + s.api + "/api/v1/audit?limit=5'",
		},
		{
			"delete a message",
			"-sS -X DELETE " + message(e.outage, ""),
		},
		{
			"readiness and metrics of the API",
			"-sS " + s.api + "/readyz",
		},
		{"", "-sS " + s.api + "/metrics | grep '^dlq_'"},
		{
			"metrics of the ingester",
			"-sS " + s.ingester + "/metrics | grep '^dlq_ingest_'",
		},
	}
}

// order returns the arguments of the curl command that creates a redrive with the given JSON fields.
func (s site) order(fields string) string {
	return fmt.Sprintf(`-sS -X POST %s/api/v1/redrives -H 'Content-Type: application/json' -d '{%s}'`, s.api, fields)
}
