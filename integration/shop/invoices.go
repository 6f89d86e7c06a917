package shop

import (
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"
)

// The schemas of an invoice. The new version contains the country, which the consumer of invoices needs for the tax.
const (
	oldInvoiceSchema = `syntax = "proto3";
package com.example.shop.invoices;
message InvoiceIssued {
  string invoice_id = 1;
  string order_id = 2;
  int64 total_cents = 3;
}
`
	invoiceSchema = `syntax = "proto3";
package com.example.shop.invoices;
message InvoiceIssued {
  string invoice_id = 1;
  string order_id = 2;
  int64 total_cents = 3;
  string country = 4;
}
`
)

const countryField = 4

// firstMessage is the byte between the id of a schema and a Protobuf value. It says that the value is the first message
// of the schema.
const firstMessage = 0

// invoice returns the i-th invoice, in Protobuf with the old schema.
func invoice(i int, rng *rand.Rand, ids versions) *kgo.Record {
	id := fmt.Sprintf("I-%d", 4001+i)
	var value []byte
	for field, text := range []string{id, orderID(i)} {
		value = protowire.AppendString(protowire.AppendTag(value, protowire.Number(field+1), protowire.BytesType), text)
	}
	value = protowire.AppendVarint(protowire.AppendTag(value, 3, protowire.VarintType), uint64(500+rng.IntN(40_000)))
	return &kgo.Record{Topic: InvoicesTopic, Key: []byte(id), Value: framed(ids.old, value, firstMessage)}
}

// newInvoicesService returns a Spring application that fails on an invoice without a country.
func newInvoicesService(prefix string, ids versions, log *logbook) *service {
	group, dead := prefix+InvoicesGroup, prefix+InvoicesDeadLetters
	headers := springHeaders(group, "invoices.InvoiceListener.onInvoice(com.example.shop.invoices.InvoiceIssued)")
	return &service{
		group: group, topic: prefix + InvoicesTopic, noun: "invoice", log: log,
		handle: func(rec *kgo.Record) *failure { return handleInvoice(rec, ids) },
		deadLetter: func(rec *kgo.Record, f *failure) *kgo.Record {
			return &kgo.Record{Topic: dead, Key: rec.Key, Value: rec.Value, Headers: headers(rec, f)}
		},
		accepted: newRecent[string, struct{}](acceptedIDs),
	}
}

func handleInvoice(rec *kgo.Record, ids versions) *failure {
	id, value, ok := unframed(rec.Value, 1)
	if !ok || id != ids.old && id != ids.latest {
		return unknownFrame()
	}
	country, err := stringField(value, countryField)
	switch {
	case err != nil:
		return &failure{thrown: deserialization(&throwable{class: "com.google.protobuf.InvalidProtocolBufferException", message: err.Error()})}
	case country == "":
		return &failure{thrown: &throwable{
			class: "java.lang.IllegalArgumentException", message: "invoice has no country",
			at: []string{"com.example.shop.invoices.TaxRates.of(TaxRates.java:31)", "com.example.shop.invoices.InvoiceListener.onInvoice(InvoiceListener.java:52)"},
		}}
	default:
		return nil
	}
}

// stringField returns a field of a Protobuf message, "" when it is not set.
func stringField(message []byte, number protowire.Number) (string, error) {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return "", protowire.ParseError(size)
		}
		message = message[size:]
		if n == number && kind == protowire.BytesType {
			text, size := protowire.ConsumeString(message)
			return text, protowire.ParseError(size)
		}
		if size = protowire.ConsumeFieldValue(n, kind, message); size < 0 {
			return "", protowire.ParseError(size)
		}
		message = message[size:]
	}
	return "", nil
}
