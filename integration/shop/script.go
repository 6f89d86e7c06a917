package shop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// script makes the records of the shop. Apart from its times, each record depends only on the seed and on the record's
// number. Orders, payments and users alternate.
type script struct {
	prefix string
	seed   uint64
}

func newScript(cfg Config) script { return script{prefix: cfg.Prefix, seed: cfg.Seed} }

const (
	streams        = 3
	encodedStreams = 2
)

// record returns the n-th record of the shop, as it is written at the given time.
func (s script) record(n int, at time.Time) *kgo.Record {
	// A predictable generator is right here: the records are no secrets, and they must be reproducible.
	rng := rand.New(rand.NewPCG(s.seed, uint64(n)))
	i := n / streams
	var rec *kgo.Record
	switch n % streams {
	case 0:
		rec = order(i, rng, at)
	case 1:
		rec = payment(i, rng, at)
	default:
		rec = user(i, rng, at)
	}
	rec.Topic = s.prefix + rec.Topic
	rec.Timestamp = at
	rec.Headers = append(rec.Headers, appHeaders(rng, "application/json")...)
	return rec
}

// encoded returns the n-th record in Avro or Protobuf, written at the given time. Shipments in Avro and invoices in
// Protobuf alternate.
func (s script) encoded(n int, at time.Time, shipments, invoices versions) *kgo.Record {
	rng := rand.New(rand.NewPCG(s.seed+1, uint64(n)))
	var rec *kgo.Record
	format := "application/avro"
	if i := n / encodedStreams; n%encodedStreams == 0 {
		rec = shipment(i, rng, at, shipments)
	} else {
		rec, format = invoice(i, rng, invoices), "application/protobuf"
	}
	rec.Topic = s.prefix + rec.Topic
	rec.Timestamp = at
	rec.Headers = appHeaders(rng, format)
	return rec
}

// The records of orders, payments and users that fail, by their index in the topic. The indexes repeat after every
// round records of the topic.
const round = 20

var (
	newProductTurns = map[int]bool{3: true, 9: true}
	orderDefects    = map[int]defect{6: truncated, 12: amountIsText, 16: tombstone}

	unreliableTurns = map[int]bool{1: true, 6: true, 11: true, 16: true}
	paymentDefects  = map[int]defect{4: notUTF8, 13: amountIsText}

	takenEmailTurns = map[int]bool{5: true, 14: true}
	userDefects     = map[int]defect{10: truncated, 18: tombstone}
)

func order(i int, rng *rand.Rand, at time.Time) *kgo.Record {
	items := pick(rng)
	if newProductTurns[i%round] {
		items[0].Product, items[0].Title = newProduct(i), "Spring collection"
	}
	number := rng.IntN(people)
	buyer := person(number)
	body := orderBody{
		ID: orderID(i), Customer: customer{ID: fmt.Sprintf("C-%d", 500+number), Name: buyer.name, Country: buyer.country},
		Items: items, Amount: total(items), Currency: "EUR", PlacedAt: stamp(at),
	}
	return &kgo.Record{
		Topic: OrdersTopic, Key: []byte(body.ID), Value: spoil(encode(body), orderDefects[i%round]),
		Headers: []kgo.RecordHeader{text("__TypeId__", "com.example.shop.orders.OrderPlaced")},
	}
}

func payment(i int, rng *rand.Rand, at time.Time) *kgo.Record {
	provider := [...]string{"cardworks", "eurodirect"}[rng.IntN(2)]
	if unreliableTurns[i%round] {
		provider = unreliableProvider
	}
	body := paymentBody{
		ID: fmt.Sprintf("PM-%d", 7001+i), OrderID: orderID(i), Provider: provider,
		Amount: money(500 + rng.IntN(40_000)), Currency: "EUR", RequestedAt: stamp(at),
	}
	return &kgo.Record{Topic: PaymentsTopic, Key: []byte(body.ID), Value: spoil(encode(body), paymentDefects[i%round])}
}

func user(i int, rng *rand.Rand, at time.Time) *kgo.Record {
	who, owner := person(rng.IntN(people)), i
	if takenEmailTurns[i%round] {
		owner = i - 5 // the e-mail address of an earlier user, whose own record has no defect
	}
	body := userBody{
		ID: fmt.Sprintf("U-%d", 301+i), Name: who.name, Email: fmt.Sprintf("customer%d@mail.example", 301+owner),
		Country: who.country, RegisteredAt: stamp(at),
	}
	return &kgo.Record{Topic: UsersTopic, Key: []byte(body.ID), Value: spoil(encode(body), userDefects[i%round])}
}

// spoil returns a JSON value with the given defect.
func spoil(body []byte, d defect) []byte {
	switch d {
	case tombstone:
		return nil
	case notUTF8:
		return bytes.Replace(body, []byte(`"currency":"EUR"`), []byte("\"currency\":\"\xff\xfe\""), 1)
	case truncated:
		return body[:len(body)*2/3]
	case amountIsText:
		return amountAsText(body)
	default:
		return body
	}
}

// amountAsText replaces the amount in a JSON value by a text, in the number format of another country.
func amountAsText(body []byte) []byte {
	before, rest, _ := bytes.Cut(body, []byte(`"amount":`))
	number, after, _ := bytes.Cut(rest, []byte(","))
	local := strings.ReplaceAll(string(number), ".", ",")
	return fmt.Appendf(nil, `%s"amount":%q,%s`, before, local, after)
}

// appHeaders returns the headers that applications add to every record.
func appHeaders(rng *rand.Rand, format string) []kgo.RecordHeader {
	return []kgo.RecordHeader{
		text("content-type", format),
		text("traceparent", fmt.Sprintf("00-%016x%016x-%016x-01", rng.Uint64(), rng.Uint64()|1, rng.Uint64()|1)),
		text("correlation-id", fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", rng.Uint32(), rng.IntN(1<<16), rng.IntN(1<<12), rng.IntN(1<<12), rng.Uint64()>>16)),
	}
}

func orderID(i int) string { return fmt.Sprintf("O-%d", 1001+i) }

// encode panics on an error, which cannot happen: the bodies contain only texts and numbers.
func encode(body any) []byte {
	out, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return out
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

func money(cents int) json.Number {
	return json.Number(fmt.Sprintf("%d.%02d", cents/100, cents%100))
}
