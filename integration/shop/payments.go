package shop

import (
	"github.com/twmb/franz-go/pkg/kgo"
)

// newPayments returns a Quarkus application that charges payments at a provider.
func newPayments(prefix string, w *world, log *logbook) *service {
	dead := prefix + PaymentsDeadLetters
	return &service{
		group: prefix + PaymentsGroup, topic: prefix + PaymentsTopic, noun: "payment", log: log,
		handle: func(rec *kgo.Record) *failure { return handlePayment(rec, w) },
		deadLetter: func(rec *kgo.Record, f *failure) *kgo.Record {
			return &kgo.Record{Topic: dead, Key: rec.Key, Value: rec.Value, Headers: smallryeHeaders(rec, f)}
		},
		accepted: newRecent[string, struct{}](acceptedIDs),
	}
}

func handlePayment(rec *kgo.Record, w *world) *failure {
	var payment paymentBody
	if d := read(rec.Value, &payment); d != sound {
		return unreadablePayment(d)
	}
	if !w.answers(payment.Provider) {
		return providerTimeout(payment.Provider)
	}
	return nil
}

func providerTimeout(provider string) *failure {
	return &failure{temporary: true, thrown: &throwable{
		class:   "com.example.shop.payments.PaymentProviderTimeoutException",
		message: "provider " + provider + " did not answer within 5000 ms",
		cause:   &throwable{class: "java.net.SocketTimeoutException", message: "Read timed out"},
	}}
}

func unreadablePayment(d defect) *failure {
	decode := func(message string, cause *throwable) *failure {
		return &failure{thrown: &throwable{class: "io.vertx.core.json.DecodeException", message: message, cause: cause}}
	}
	switch d {
	case tombstone:
		return &failure{thrown: &throwable{class: "java.lang.NullPointerException", message: "Cannot invoke \"com.example.shop.payments.PaymentRequested.provider()\" because \"payment\" is null"}}
	case notUTF8:
		return decode("Failed to decode: Invalid UTF-8 start byte 0xff",
			&throwable{class: "com.fasterxml.jackson.core.JsonParseException", message: "Invalid UTF-8 start byte 0xff"})
	case amountIsText:
		return decode("Failed to decode: amount must be a number, was text",
			&throwable{class: "com.fasterxml.jackson.databind.exc.InvalidFormatException", message: "Cannot deserialize value of type `java.math.BigDecimal` from String"})
	default:
		return decode("Failed to decode: Unexpected end-of-input",
			&throwable{class: "com.fasterxml.jackson.core.io.JsonEOFException", message: "Unexpected end-of-input"})
	}
}
