package shop

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The symbols of a shipment's status. SENT was renamed to SHIPPED.
var (
	oldStatuses = []string{"PACKED", "SENT"}
	statuses    = []string{"PACKED", "SHIPPED"}
)

func shipmentSchema(symbols []string) string {
	return `{"type": "record", "name": "ShipmentUpdated", "namespace": "com.example.shop.shipments", "fields": [
  {"name": "shipment_id", "type": "string"},
  {"name": "order_id", "type": "string"},
  {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["` + strings.Join(symbols, `", "`) + `"]}},
  {"name": "weight_kg", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 3}},
  {"name": "updated_at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}`
}

var (
	oldShipments = avro.MustParse(shipmentSchema(oldStatuses))
	newShipments = avro.MustParse(shipmentSchema(statuses))
)

type shipmentBody struct {
	ID        string    `avro:"shipment_id"`
	OrderID   string    `avro:"order_id"`
	Status    string    `avro:"status"`
	Weight    *big.Rat  `avro:"weight_kg"`
	UpdatedAt time.Time `avro:"updated_at"`
}

// shipment returns the i-th shipment, in Avro with the old schema.
func shipment(i int, rng *rand.Rand, at time.Time, ids versions) *kgo.Record {
	body := shipmentBody{
		ID: fmt.Sprintf("S-%d", 9001+i), OrderID: orderID(i), Status: oldStatuses[rng.IntN(len(oldStatuses))],
		Weight: big.NewRat(int64(200+rng.IntN(20_000)), 1000), UpdatedAt: at,
	}
	value, err := oldShipments.Encode(&body)
	if err != nil {
		panic(err) // cannot happen: the body contains the fields of the schema
	}
	return &kgo.Record{Topic: ShipmentsTopic, Key: []byte(body.ID), Value: framed(ids.old, value)}
}

// newShipmentsService returns a Spring application whose schema contains the new symbols.
func newShipmentsService(prefix string, ids versions, log *logbook) *service {
	group, dead := prefix+ShipmentsGroup, prefix+ShipmentsDeadLetters
	headers := springHeaders(group, "shipments.ShipmentListener.onShipment(com.example.shop.shipments.ShipmentUpdated)")
	return &service{
		group: group, topic: prefix + ShipmentsTopic, noun: "shipment", log: log,
		handle: func(rec *kgo.Record) *failure { return handleShipment(rec, ids) },
		deadLetter: func(rec *kgo.Record, f *failure) *kgo.Record {
			return &kgo.Record{Topic: dead, Key: rec.Key, Value: rec.Value, Headers: headers(rec, f)}
		},
		accepted: newRecent[string, struct{}](acceptedIDs),
	}
}

func handleShipment(rec *kgo.Record, ids versions) *failure {
	id, value, ok := unframed(rec.Value, 0)
	writer := map[uint32]*avro.Schema{ids.old: oldShipments, ids.latest: newShipments}[id]
	if !ok || writer == nil {
		return unknownFrame()
	}
	var body shipmentBody
	if _, err := writer.Decode(value, &body); err != nil {
		return &failure{thrown: deserialization(&throwable{class: "org.apache.avro.AvroRuntimeException", message: "Malformed data"})}
	}
	if !slices.Contains(statuses, body.Status) {
		return &failure{thrown: deserialization(&throwable{
			class: "org.apache.avro.AvroTypeException", message: "No match for " + body.Status,
			at: []string{"org.apache.avro.io.ResolvingDecoder.readEnum(ResolvingDecoder.java:268)"},
		})}
	}
	return nil
}
