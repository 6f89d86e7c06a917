// Program order sends an order to the topic that the examples of docs/getting-started.md consume. It creates the topic
// and its dead-letter topic where they do not exist:
//
//	order NUMBER CURRENCY
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

const patience = 30 * time.Second

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: order NUMBER CURRENCY")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	topic := cmp.Or(os.Getenv("ORDERS"), "web-orders")
	if err := send(ctx, cmp.Or(os.Getenv("KAFKA"), "localhost:9092"), topic, os.Args[1], os.Args[2]); err != nil {
		log.Fatalf("send order: %v", err)
	}
	fmt.Printf("sent order %s to the topic %s\n", os.Args[1], topic)
}

func send(ctx context.Context, broker, topic, number, currency string) error {
	client := &kafka.Client{Addr: kafka.TCP(broker)}
	created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: topic, NumPartitions: 1, ReplicationFactor: 1},
		{Topic: topic + ".dlq.v1", NumPartitions: 1, ReplicationFactor: 1},
	}})
	if err != nil {
		return err
	}
	for name, err := range created.Errors {
		if err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", name, err)
		}
	}
	writer := &kafka.Writer{Addr: client.Addr, Topic: topic, RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond}
	defer writer.Close()
	return writer.WriteMessages(ctx, kafka.Message{
		Key: []byte(number), Value: fmt.Appendf(nil, `{"order": %s, "currency": %q}`, number, currency),
		Headers: []kafka.Header{{Key: "channel", Value: []byte("shop")}},
	})
}
