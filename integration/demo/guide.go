package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dlq-manager/dlq-manager/integration/shop"
)

// try is one thing to try: what it shows and the arguments of curl for it. Without
// words of its own it belongs to the one before.
type try struct{ about, command string }

// commandIndent begins every line that can be copied into a shell.
const commandIndent = "  curl "

// guide is what the demo prints when all is up.
func guide(s site, folder string, e examples) string {
	var text strings.Builder
	fmt.Fprintf(&text, `
dlq-manager is running. Ctrl-C stops everything.

  API         %s   (log: %s)
  ingester    %s   (probes and metrics only; log: %s)
  PostgreSQL  %s:%s, database %s
  Kafka       %s
  settings    %s
  sample shop %s, %s and %s work on orders, payments and
              users, and dead-letter some. Its lines below begin with "shop:".

Try next, in another terminal:
`,
		s.api, filepath.Join(folder, "api.log"), s.ingester, filepath.Join(folder, "ingester.log"),
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
	message := func(m example, rest string) string { return topic("messages/"+m.ID, rest) }
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
			"send an order back: its product is in the catalogue now, so \"accepted order " + e.curable.Key.Data + "\" shows below",
			"-sS -X POST " + message(e.curable, "/retry"),
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
			s.redrive(`"dry_run": true`),
		},
		{
			"send them back, two first: the provider answers again, so only broken ones return; with too many of them it stops itself",
			s.redrive(`"canary": 2, "max_return_share": 0.5`),
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

// redrive sends all payments back under the given options.
func (s site) redrive(options string) string {
	return fmt.Sprintf(`-sS -X POST %s/api/v1/redrives -H 'Content-Type: application/json' -d '{"filter": {"topic": "%s"}, %s}'`,
		s.api, shop.PaymentsDeadLetters, options)
}
