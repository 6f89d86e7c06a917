// Program watermill books orders. Its poison queue writes an order that it cannot book to a dead-letter topic.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/message/router/plugin"
)

var (
	broker     = cmp.Or(os.Getenv("KAFKA"), "localhost:9092")
	topic      = cmp.Or(os.Getenv("ORDERS"), "web-orders")
	group      = topic + "-billing"
	currencies = strings.Split(cmp.Or(os.Getenv("CURRENCIES"), "EUR,USD"), ",")
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	logger := watermill.NewStdLogger(false, false)
	config := kafka.DefaultSaramaSubscriberConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: []string{broker}, ConsumerGroup: group, OverwriteSaramaConfig: config, Unmarshaler: kafka.DefaultMarshaler{},
	}, logger)
	if err != nil {
		return err
	}
	// The default marshaler writes records without a key; this one keeps the key of the order.
	keepKey := kafka.NewWithPartitioningMarshaler(func(_ string, msg *message.Message) (string, error) {
		key, _ := kafka.MessageKeyFromCtx(msg.Context())
		return string(key), nil
	})
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{Brokers: []string{broker}, Marshaler: keepKey}, logger)
	if err != nil {
		return err
	}
	poison, err := middleware.PoisonQueue(publisher, topic+".dlq.v1")
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		return err
	}
	router.AddPlugin(plugin.SignalsHandler)
	retry := middleware.Retry{MaxRetries: 2, InitialInterval: 200 * time.Millisecond, Logger: logger}
	router.AddMiddleware(poison, retry.Middleware) // outermost first: after two more tries the poison queue gets the order
	router.AddConsumerHandler("billing", topic, subscriber, book)
	return router.Run(context.Background())
}

func book(msg *message.Message) error {
	var order struct {
		Order    int
		Currency string
	}
	if err := json.Unmarshal(msg.Payload, &order); err != nil {
		return err
	}
	if !slices.Contains(currencies, order.Currency) {
		return fmt.Errorf("unknown currency %s", order.Currency)
	}
	replay := ""
	if id := msg.Metadata.Get("dlq-message-id"); id != "" {
		replay = ", a replay of message " + id
	}
	fmt.Printf("booked order %d%s\n", order.Order, replay)
	return nil
}
