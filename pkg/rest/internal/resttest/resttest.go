// Package resttest provides messages for the tests of package rest and of the packages below it.
package resttest

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

var (
	idA  = uuid.MustParse("550e8400-e29b-41d4-a716-446655440000")
	idB  = uuid.MustParse("550e8400-e29b-41d4-a716-446655440001")
	idC  = uuid.MustParse("550e8400-e29b-41d4-a716-4466554400ff")
	noon = time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
)

// Message returns a PENDING dead letter of orders, stored at noon.
func Message(id uuid.UUID, change ...func(*entity.Message)) entity.Message {
	m := entity.NewMessage("orders.events.v1", "processing failed", noon)
	m.ID = id
	m.Source = entity.Source{Topic: "orders.dlq.v1", Partition: 2, Offset: 41, Timestamp: noon.Add(-time.Second)}
	m.Record = entity.Record{Key: []byte("order-123"), Value: []byte(`{"order_id": "123"}`)}
	m.Origin.Confidence = entity.FromHeader
	for _, f := range change {
		f(&m)
	}
	return m
}

// WithValue changes the value of a message.
func WithValue(v string) func(*entity.Message) {
	return func(m *entity.Message) { m.Record.Value = []byte(v) }
}

// Full returns a message that has a value in almost every field.
func Full(change ...func(*entity.Message)) entity.Message {
	partition, offset, attempts := int32(0), int64(-1), 5
	m := Message(idA, func(m *entity.Message) {
		m.ErrorMessage = "bad \"quote\" \\ \x00\x01\x1f\x7f tab\t nl\n cr\r \b\f <b>&amp; \u2028\u2029 \u202eltr\u200f \u0085 修正 \U0001F600 \xff\xfe"
		m.UnconfirmedReturn = true
		m.Status, m.RetryCount, m.Group, m.Parent, m.Root = entity.Dead, 3, idB, idB, idC
		m.LastRetryAt, m.UpdatedAt, m.NextAttemptAt = noon.Add(time.Minute), noon.Add(1500*time.Millisecond), noon
		m.Origin = entity.Origin{Partition: &partition, Offset: &offset, Timestamp: noon, Confidence: entity.FromName}
		m.Failure = entity.Failure{
			Class: "java.lang.Boom", StackTrace: "at x\n\tat y", ConsumerGroup: "billing", Attempts: &attempts,
			Dialect: "spring",
		}
		m.Outcome, m.Consumption = entity.Consumed, &entity.Consumption{Group: "billing", Offset: 12}
		m.LastPublishError, m.LastPublishErrorClass = "too <large>", entity.BadRecord
		m.Record.Key = []byte{0xff, 0}
		m.Record.Headers = []entity.Header{
			{Key: "a"}, {Key: "a", Value: []byte{}}, {Key: "\xff\u202e", Value: []byte{0xfe}}, {Key: "token", Value: []byte("secret")},
		}
		m.Record.Value = []byte(`{"card": {"number":"4111"}, "n":1.0}`)
	})
	for _, f := range change {
		f(&m)
	}
	return m
}

// Kilobyte returns a message of the size that exports typically have: a kilobyte of JSON and some headers.
func Kilobyte() entity.Message {
	return Full(WithValue(`{"order_id":"123","lines":["`+strings.Repeat(`some text","`, 85)+`"]}`), func(m *entity.Message) {
		m.ErrorMessage = "could not reserve stock for order 123: connection timed out after 5000 ms"
	})
}

// Plain implements two interfaces for tests: Dialects that derive no field from headers, and DerivedMasks that hide
// nothing.
var Plain plain

type plain struct{}

func (plain) StackTraceOf(m entity.Message) string             { return m.Failure.StackTrace }
func (plain) ExplainMessage(entity.Message) entity.Explanation { return entity.Explanation{} }
func (plain) IsPointer(*entity.Message) bool                   { return false }
func (plain) ReplayHeaders(*entity.Message, string, entity.Explanation) entity.ReplayHeaders {
	return entity.ReplayHeaders{}
}
func (plain) PositionHolds(*entity.Message) bool     { return true }
func (plain) Fields() entity.MaskedFields            { return entity.MaskedFields{} }
func (plain) Of(*entity.Message) entity.MaskedFields { return entity.MaskedFields{} }
