package shop

import (
	"github.com/twmb/franz-go/pkg/kgo"
)

// newOrders returns a Spring application that checks whether the products of an order are in the catalogue. Some
// failures are dead-lettered by the application's own code, with two plain headers, and the others by Spring.
func newOrders(prefix string, w *world, log *logbook) *service {
	group, dead := prefix+OrdersGroup, prefix+OrdersDeadLetters
	return &service{
		group: group, topic: prefix + OrdersTopic, noun: "order", log: log,
		handle: func(rec *kgo.Record) *failure { return handleOrder(rec, w) },
		deadLetter: func(rec *kgo.Record, f *failure) *kgo.Record {
			headers := plainHeaders
			if f.plain == "" {
				headers = springHeaders(group, "orders.OrderListener.onOrder(com.example.shop.orders.OrderPlaced)")
			}
			return &kgo.Record{Topic: dead, Key: rec.Key, Value: rec.Value, Headers: headers(rec, f)}
		},
		accepted: newRecent[string, struct{}](acceptedIDs),
	}
}

func handleOrder(rec *kgo.Record, w *world) *failure {
	var order orderBody
	if d := read(rec.Value, &order); d != sound {
		return unreadableOrder(d)
	}
	for _, item := range order.Items {
		if !w.lists(item.Product) {
			return unknownProduct(item.Product)
		}
	}
	return nil
}

func unknownProduct(product string) *failure {
	return &failure{temporary: true, thrown: &throwable{
		class:   "com.example.shop.catalogue.UnknownProductException",
		message: "product " + product + " is not in the catalogue",
		at: []string{
			"com.example.shop.catalogue.CatalogueClient.find(CatalogueClient.java:58)",
			"com.example.shop.orders.OrderService.reserve(OrderService.java:91)",
			"com.example.shop.orders.OrderListener.onOrder(OrderListener.java:37)",
		},
	}}
}

func unreadableOrder(d defect) *failure {
	if d == tombstone {
		return &failure{plain: "order has no body"}
	}
	return &failure{thrown: deserialization(jackson(d))}
}

// jackson returns the error of Spring's JSON library about a body.
func jackson(d defect) *throwable {
	parser := []string{
		"com.fasterxml.jackson.core.base.ParserMinimalBase._reportInvalidEOF(ParserMinimalBase.java:585)",
		"com.fasterxml.jackson.databind.ObjectReader.readValue(ObjectReader.java:1526)",
	}
	switch d {
	case notUTF8:
		return &throwable{class: "com.fasterxml.jackson.core.JsonParseException", message: "Invalid UTF-8 start byte 0xff", at: parser}
	case amountIsText:
		return &throwable{
			class:   "com.fasterxml.jackson.databind.exc.InvalidFormatException",
			message: "Cannot deserialize value of type `java.math.BigDecimal` from String: not a valid representation (through reference chain: com.example.shop.orders.OrderPlaced[\"amount\"])",
			at:      parser[1:],
		}
	default:
		return &throwable{
			class:   "com.fasterxml.jackson.core.io.JsonEOFException",
			message: "Unexpected end-of-input: expected close marker for Object",
			at:      parser,
		}
	}
}
