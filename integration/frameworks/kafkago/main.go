// Program kafkago books orders. It writes an order that it cannot book to a dead-letter topic, and continues.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
)

var (
	broker     = cmp.Or(os.Getenv("KAFKA"), "localhost:9092")
	topic      = cmp.Or(os.Getenv("ORDERS"), "web-orders")
	group      = topic + "-billing"
	currencies = strings.Split(cmp.Or(os.Getenv("CURRENCIES"), "EUR,USD"), ",")
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{broker}, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset, MaxWait: time.Second,
	})
	defer reader.Close()
	deadLetters := &kafka.Writer{
		Addr: kafka.TCP(broker), Topic: topic + ".dlq.v1", Balancer: &kafka.Hash{},
		RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond,
	}
	defer deadLetters.Close()
	if err := consume(ctx, reader, deadLetters); ctx.Err() == nil {
		log.Fatal(err)
	}
}

// consume commits a record only after it is booked or is in the dead-letter topic.
func consume(ctx context.Context, reader *kafka.Reader, deadLetters *kafka.Writer) error {
	for {
		record, err := reader.FetchMessage(ctx)
		if err != nil {
			return err
		}
		if err := book(record); err != nil {
			log.Printf("order %s is a dead letter: %v", record.Key, err)
			if err := deadLetters.WriteMessages(ctx, deadLetter(record, err)); err != nil {
				return err
			}
		}
		if err := reader.CommitMessages(ctx, record); err != nil {
			return err
		}
	}
}

// deadLetter returns the record with headers that say where and why it failed. Key, value and headers stay as they are.
func deadLetter(record kafka.Message, failure error) kafka.Message {
	class := fmt.Sprintf("%T", failure)
	for cause := failure; cause != nil; cause = errors.Unwrap(cause) {
		class = fmt.Sprintf("%T", cause) // the innermost error
	}
	header := func(name, value string) kafka.Header { return kafka.Header{Key: name, Value: []byte(value)} }
	return kafka.Message{Key: record.Key, Value: record.Value, Headers: append(slices.Clone(record.Headers),
		header("x-original-topic", record.Topic),
		header("x-original-partition", strconv.Itoa(record.Partition)),
		header("x-original-offset", strconv.FormatInt(record.Offset, 10)),
		header("x-original-timestamp", strconv.FormatInt(record.Time.UnixMilli(), 10)),
		header("x-consumer-group", group),
		header("x-error-type", class),
		header("x-error-message", failure.Error()),
	)}
}

// unknownCurrency is the error of an order that has a currency which this program does not book.
type unknownCurrency string

func (c unknownCurrency) Error() string { return "unknown currency " + string(c) }

func book(record kafka.Message) error {
	var order struct{ Currency string }
	if err := json.Unmarshal(record.Value, &order); err != nil {
		return err
	}
	if !slices.Contains(currencies, order.Currency) {
		return fmt.Errorf("book order %s: %w", record.Key, unknownCurrency(order.Currency))
	}
	fmt.Printf("booked order %s%s\n", record.Key, replayOf(record))
	return nil
}

// replayOf says which message of dlq-manager was sent, if this record is a replay.
func replayOf(record kafka.Message) string {
	for _, header := range record.Headers {
		if header.Key == "dlq-message-id" {
			return ", a replay of message " + string(header.Value)
		}
	}
	return ""
}
