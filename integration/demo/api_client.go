package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	client "github.com/dlq-manager/dlq-manager/clients/go"
	"github.com/dlq-manager/dlq-manager/integration/shop"
	"github.com/dlq-manager/dlq-manager/integration/stack"
)

const (
	readyPatience   = time.Minute
	examplePatience = time.Minute
	requestPatience = 5 * time.Second
	pollPause       = 100 * time.Millisecond
)

// ready returns nil if the program at base is ready.
func ready(ctx context.Context, base string) error {
	ctx, cancel := context.WithTimeout(ctx, requestPatience)
	defer cancel()
	return stack.Ping(ctx, base+"/readyz")
}

// poll calls the function ask repeatedly. It returns when ask returns nil, when the channel ended is closed because a
// program has ended, or when ctx has ended or the time patience has passed.
func poll(ctx context.Context, patience time.Duration, ended <-chan struct{}, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pause := time.NewTicker(pollPause)
	defer pause.Stop()
	for {
		last := ask(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), last)
		case <-pause.C:
		}
	}
}

var errEnded = errors.New("ended")

// awaitReady returns when the program is ready.
func awaitReady(ctx context.Context, c *service, base string) error {
	err := poll(ctx, readyPatience, c.Done(), func(ctx context.Context) error { return ready(ctx, base) })
	switch {
	case errors.Is(err, errEnded):
		return c.ended()
	case err != nil:
		return fmt.Errorf("%s does not get ready: %w", c.name, err)
	}
	return nil
}

// example holds the fields of a message that the guide shows.
type example struct{ id, key, group, amount string }

// exampleOf converts a message of the shop: the key is text and the payload an order, whose amount
// may be a text with a comma.
func exampleOf(m client.Message) example {
	e := example{id: m.Id.String()}
	if m.Key != nil {
		e.key = m.Key.Data
	}
	if m.GroupId != nil {
		e.group = m.GroupId.String()
	}
	if order, ok := m.Payload.(map[string]any); ok {
		amount, _ := order["amount"].(string)
		e.amount = strings.ReplaceAll(amount, ",", ".")
	}
	return e
}

// searchedText is the phrase by which the guide searches for messages.
const searchedText = `"not in the catalogue"`

// searchedPath is the condition on decoded payloads by which the guide searches for messages.
const searchedPath = "$.status = SENT"

// examples are the messages that the printed guide uses in its commands, one of each kind.
type examples struct {
	curable  example // an order that is accepted later, because its failure has a temporary cause
	hopeless example // a message whose payload cannot be read and never will be
	outage   example // a payment that failed while the payment provider did not answer
	mistyped example // an order whose amount is a text, not a number
	shipment example // a shipment in Avro whose status was renamed in the new schema
	invoice  example // an invoice in Protobuf without the field that the new schema added
}

// awaitExamples waits until the API lists the expected number of messages for each topic. It then returns a message of
// each kind.
func awaitExamples(ctx context.Context, base string, expected map[string]int) (examples, error) {
	api, err := client.NewClientWithResponses(base)
	if err != nil {
		return examples{}, err
	}
	var found examples
	err = poll(ctx, examplePatience, nil, func(ctx context.Context) (err error) {
		found, err = findExamples(ctx, api, expected)
		return err
	})
	if err != nil {
		return examples{}, fmt.Errorf("the first dead letters do not show: %w", err)
	}
	return found, nil
}

func findExamples(ctx context.Context, api *client.ClientWithResponses, expected map[string]int) (examples, error) {
	ctx, cancel := context.WithTimeout(ctx, requestPatience)
	defer cancel()
	listed := map[string][]client.Message{}
	for topic, count := range expected {
		size := 100
		page, err := api.ListTopicWithResponse(ctx, topic, &client.ListTopicParams{PageSize: &size})
		switch {
		case err != nil:
			return examples{}, err
		case page.JSON200 == nil:
			return examples{}, fmt.Errorf("list %s: %s: %s", topic, page.Status(), page.Body)
		case len(page.JSON200.Messages) < count:
			return examples{}, fmt.Errorf("%d messages of %s, want %d", len(page.JSON200.Messages), topic, count)
		}
		listed[topic] = page.JSON200.Messages
	}
	var e examples
	orders, payments := listed[shop.OrdersDeadLetters], listed[shop.PaymentsDeadLetters]
	shipments, invoices := listed[shop.ShipmentsDeadLetters], listed[shop.InvoicesDeadLetters]
	err := errors.Join(
		pick(&e.curable, orders, "com.example.shop.catalogue.UnknownProductException"),
		pick(&e.hopeless, orders, "com.fasterxml.jackson.core.io.JsonEOFException"),
		pick(&e.outage, payments, "java.net.SocketTimeoutException"),
		pick(&e.mistyped, orders, "com.fasterxml.jackson.databind.exc.InvalidFormatException"),
		pick(&e.shipment, shipments, "org.apache.avro.AvroTypeException"),
		pick(&e.invoice, invoices, "java.lang.IllegalArgumentException"),
	)
	if err != nil {
		return examples{}, err
	}
	return e, searchable(ctx, api)
}

// searchable returns nil when each search of the guide finds a message: the search index is updated a moment
// after the messages.
func searchable(ctx context.Context, api *client.ClientWithResponses) error {
	limit, text, paths := 1, searchedText, []string{searchedPath}
	for _, search := range []client.SearchMessagesParams{{Q: &text, Limit: &limit}, {Payload: &paths, Limit: &limit}} {
		found, err := api.SearchMessagesWithResponse(ctx, &search)
		if err != nil {
			return err
		}
		if found.JSON200 == nil || len(found.JSON200.Messages) == 0 {
			return errors.New("not everything can be searched yet")
		}
	}
	return nil
}

func pick(into *example, from []client.Message, class string) error {
	for _, candidate := range from {
		if candidate.ErrorClass != nil && *candidate.ErrorClass == class {
			*into = exampleOf(candidate)
			return nil
		}
	}
	return fmt.Errorf("no message of class %s", class)
}
