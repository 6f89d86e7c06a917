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
  sample shop %s, %s and %s work on orders, payments and
              users, and dead-letter some. Its lines below begin with "shop:".

Try next, in another terminal:
`,
		s.api, s.api, filepath.Join(folder, "api.log"), s.ingester, filepath.Join(folder, "ingester.log"),
		s.database.host, s.database.port, s.database.name, strings.Join(s.brokers, ","), s.config,
		shop.OrdersGroup, shop.PaymentsGroup, shop.UsersGroup)
	for _, t := range tries(s, e) {
		if t.about != "" {
			fmt.Fprintf(&text, "\n  # %s\n", t.about)
		}
		fmt.Fprintf(&text, "%s%s\n", commandIndent, t.command)
	}
	return text.String() + "\n" + guideEnd + "\n"
}

const guideEnd = "The shop goes on: a record a second, a dead letter now and then."

func tries(s site, e examples) []try {
	topic := func(name, rest string) string { return "'" + s.api + "/api/v1/dlq/" + name + rest + "'" }
	message := func(m example, rest string) string { return topic("messages/"+m.id, rest) }
	return []try{
		{
			"what failed, newest first: orders by their dead-letter topic, payments by their original one",
			"-sS " + topic(shop.OrdersDeadLetters, "?page_size=3"),
		},
		{"", "-sS " + topic(shop.PaymentsTopic, "?page=1&page_size=3")},
		{
			"one message with everything known about its failure: an order cut off in the middle",
			"-sS " + message(e.hopeless, ""),
		},
		{
			"its value, byte for byte",
			"-sS " + message(e.hopeless, "/payload"),
		},
		{
			"what failed for the same reason, counted once, and one of the reasons",
			"-sS '" + s.api + "/api/v1/groups?open=true&limit=3'",
		},
		{"", "-sS " + s.api + "/api/v1/groups/" + e.curable.group},
		{
			"messages with these words, in the error or in the record, in any topic",
			"-sSG " + s.api + "/api/v1/messages --data-urlencode 'q=" + searchedText + "' -d limit=2",
		},
		{
			"every topic, and whether sending back can work: does it exist, how far is its consumer",
			"-sS " + s.api + "/api/v1/topics",
		},
		{
			"the orders as a table for a spreadsheet",
			"-sS '" + s.api + "/api/v1/export?format=csv&topic=" + shop.OrdersDeadLetters + "&limit=3' | cut -c 1-150",
		},
		{
			"send an order back: its product is in the catalogue now, so \"accepted order " + e.curable.key + "\" shows below",
			"-sS -X POST " + message(e.curable, "/retry"),
		},
		{
			"an order whose amount is a text goes back with a number, so \"accepted order " + e.mistyped.key + "\" shows below; what is stored stays as it was",
			s.order(fmt.Sprintf(`"ids": [%q], "patch": [{"op": "replace", "path": "/amount", "value": %s}]`, e.mistyped.id, e.mistyped.amount)),
		},
		{
			"send the broken order back: it fails again and is listed again, with this message as its parent_id",
			"-sS -X POST " + message(e.hopeless, "/retry"),
		},
		{
			"what was tried with it",
			"-sS " + message(e.hopeless, "/history"),
		},
		{
			"would all payments go, if they were sent back",
			s.order(fmt.Sprintf(`"filter": {"topic": %q}, "dry_run": true`, shop.PaymentsDeadLetters)),
		},
		{
			"send back those that failed for one reason, the outage, two first: were more than half of them to return, the rest would stay",
			s.order(fmt.Sprintf(`"filter": {"group_id": %q}, "canary": 2, "max_return_share": 0.5`, e.outage.group)),
		},
		{"", "-sS '" + s.api + "/api/v1/redrives?limit=1'"},
		{
			"who did what",
			"-sS '" + s.api + "/api/v1/audit?limit=5'",
		},
		{
			"delete a message",
			"-sS -X DELETE " + message(e.outage, ""),
		},
		{
			"is the API well, and what has it counted",
			"-sS " + s.api + "/readyz",
		},
		{"", "-sS " + s.api + "/metrics | grep '^dlq_'"},
		{
			"how far the ingester is",
			"-sS " + s.ingester + "/metrics | grep '^dlq_ingest_'",
		},
	}
}

// order returns the curl arguments that create a redrive.
func (s site) order(fields string) string {
	return fmt.Sprintf(`-sS -X POST %s/api/v1/redrives -H 'Content-Type: application/json' -d '{%s}'`, s.api, fields)
}
