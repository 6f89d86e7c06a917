package shop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The topics of the shop and their dead-letter topics.
const (
	OrdersTopic   = "orders.events.v1"
	PaymentsTopic = "payments.events.v1"
	UsersTopic    = "users.events.v1"

	OrdersDeadLetters   = "orders.dlq.v1"
	PaymentsDeadLetters = "payments.dlq.v1"
	UsersDeadLetters    = "users.dlq.v1"

	// Only a shop with a registry has these topics.
	ShipmentsTopic       = "shipments.events.v1"
	ShipmentsDeadLetters = "shipments.dlq.v1"
	InvoicesTopic        = "invoices.events.v1"
	InvoicesDeadLetters  = "invoices.dlq.v1"
)

// The consumer groups.
const (
	OrdersGroup   = "orders-service"
	PaymentsGroup = "payments-service"

	ShipmentsGroup = "shipments-service"
	InvoicesGroup  = "invoices-service"
)

// UsersConnector is the name of the connector that reads users.
const UsersConnector = "users-service"

// Topics returns the names of all topics of the shop, without the shop's prefix.
func (s *Shop) Topics() []string {
	list := []string{
		OrdersTopic, OrdersDeadLetters, PaymentsTopic, PaymentsDeadLetters, UsersTopic, UsersDeadLetters,
	}
	if s.cfg.Registry != "" {
		list = append(list, ShipmentsTopic, ShipmentsDeadLetters, InvoicesTopic, InvoicesDeadLetters)
	}
	return list
}

const createPatience = 30 * time.Second

// CreateTopics creates the missing topics. Run also creates them; call CreateTopics first if other programs must find
// the topics before the shop opens.
func (s *Shop) CreateTopics(ctx context.Context) error {
	client, err := s.client()
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, createPatience)
	defer cancel()
	answer, err := s.topicRequest().RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	for _, topic := range answer.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", topic.Topic, err)
		}
	}
	return nil
}

func (s *Shop) topicRequest() *kmsg.CreateTopicsRequest {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = int32(createPatience.Milliseconds())
	for _, name := range s.Topics() {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic = s.cfg.Prefix + name
		topic.NumPartitions = int32(s.cfg.Partitions)
		topic.ReplicationFactor = 1
		request.Topics = append(request.Topics, topic)
	}
	return request
}
