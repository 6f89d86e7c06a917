package shop

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const registerPatience = 30 * time.Second

// versions holds the ids of two versions of a schema: producers write with the old one, and consumers need values that
// fit the latest one.
type versions struct{ old, latest uint32 }

// register registers the schemas of shipments and invoices, both versions of each.
func (s *Shop) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, registerPatience)
	defer cancel()
	for _, subject := range []struct {
		topic, format, old, latest string
		ids                        *versions
	}{
		{ShipmentsTopic, "AVRO", shipmentSchema(oldStatuses), shipmentSchema(statuses), &s.shipments},
		{InvoicesTopic, "PROTOBUF", oldInvoiceSchema, invoiceSchema, &s.invoices},
	} {
		var err error
		if subject.ids.old, err = s.registerVersion(ctx, subject.topic, subject.format, subject.old); err != nil {
			return err
		}
		if subject.ids.latest, err = s.registerVersion(ctx, subject.topic, subject.format, subject.latest); err != nil {
			return err
		}
	}
	return nil
}

// registerVersion registers a schema for the values of a topic, and returns its id.
func (s *Shop) registerVersion(ctx context.Context, topic, format, schema string) (uint32, error) {
	subject := s.cfg.Prefix + topic + "-value"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.Registry+"/subjects/"+subject+"/versions",
		bytes.NewReader(encode(map[string]string{"schemaType": format, "schema": schema})))
	if err != nil {
		return 0, fmt.Errorf("register %s: %w", subject, err)
	}
	request.Header.Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("register %s: %w", subject, err)
	}
	defer answer.Body.Close()
	var made struct {
		ID uint32 `json:"id"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&made); err != nil || made.ID == 0 {
		return 0, fmt.Errorf("register %s: the registry answers %s: %w", subject, answer.Status, err)
	}
	return made.ID, nil
}

// framed returns a value with its prefix: the magic byte, the id of the schema and, for a Protobuf value, the index of
// its message in the schema.
func framed(id uint32, value []byte, index ...byte) []byte {
	return append(append(binary.BigEndian.AppendUint32([]byte{0}, id), index...), value...)
}

const frame = 5 // number of bytes of the prefix: one for the magic byte, four for the id

// unframed returns the id and the value; ok is false when the bytes do not begin with an id.
func unframed(value []byte, indexes int) (id uint32, body []byte, ok bool) {
	if len(value) < frame+indexes || value[0] != 0 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint32(value[1:frame]), value[frame+indexes:], true
}

// unknownFrame is the failure of a value that does not name one of the shop's schemas.
func unknownFrame() *failure {
	return &failure{thrown: deserialization(&throwable{class: "org.apache.kafka.common.errors.SerializationException", message: "Unknown magic byte!"})}
}

// deserialization returns Spring's exception about a value that cannot be read.
func deserialization(cause *throwable) *throwable {
	return &throwable{
		class:   "org.springframework.kafka.support.serializer.DeserializationException",
		message: "failed to deserialize",
		at: []string{
			"org.springframework.kafka.support.serializer.SerializationUtils.deserializationException(SerializationUtils.java:158)",
			"org.springframework.kafka.support.serializer.ErrorHandlingDeserializer.deserialize(ErrorHandlingDeserializer.java:218)",
		},
		cause: cause,
	}
}
