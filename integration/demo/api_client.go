package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/shop"
)

const (
	readyPatience   = time.Minute
	examplePatience = time.Minute
	requestPatience = 5 * time.Second
	pollPause       = 100 * time.Millisecond
)

// get returns the body of a 200 answer.
func get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %d: %s", url, answer.StatusCode, body)
	}
	return body, err
}

// poll asks until the answer is nil, a program has ended, or patience has.
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

// awaitReady returns when a program says that it is ready.
func awaitReady(ctx context.Context, c *service, base string) error {
	err := poll(ctx, readyPatience, c.Done(), func(ctx context.Context) error {
		_, err := get(ctx, base+"/readyz")
		return err
	})
	switch {
	case errors.Is(err, errEnded):
		return c.ended()
	case err != nil:
		return fmt.Errorf("%s does not get ready: %w", c.name, err)
	}
	return nil
}

// example is what the guide needs to know of a message.
type example struct {
	ID    string `json:"id"`
	Class string `json:"error_class"`
	Key   struct {
		Data string `json:"data"` // text, as the shop's keys are
	} `json:"key"`
	Group   string          `json:"group_id"`
	Payload json.RawMessage `json:"payload"`
}

// amount is that of an order which has it as a text, with a comma.
func (e example) amount() string {
	var order struct {
		Amount string `json:"amount"`
	}
	_ = json.Unmarshal(e.Payload, &order) // it was picked for being such an order
	return strings.ReplaceAll(order.Amount, ",", ".")
}

// searchedText is what the guide searches: three words that stand together.
const searchedText = `"not in the catalogue"`

// examples are the messages that the guide shows something with.
type examples struct {
	curable  example // its cause can end
	hopeless example // its body is broken for good
	outage   example // a payment that ran into the outage
	mistyped example // an order whose amount is a text
}

// awaitExamples returns when the API lists as many messages of each topic as
// are expected, and one of each kind.
func awaitExamples(ctx context.Context, api string, expected map[string]int) (examples, error) {
	var found examples
	err := poll(ctx, examplePatience, nil, func(ctx context.Context) (err error) {
		found, err = findExamples(ctx, api, expected)
		return err
	})
	if err != nil {
		return examples{}, fmt.Errorf("the first dead letters do not show: %w", err)
	}
	return found, nil
}

func findExamples(ctx context.Context, api string, expected map[string]int) (examples, error) {
	listed := map[string][]example{}
	for topic, count := range expected {
		messages, err := list(ctx, api, topic)
		if err != nil {
			return examples{}, err
		}
		if len(messages) < count {
			return examples{}, fmt.Errorf("%d messages of %s, want %d", len(messages), topic, count)
		}
		listed[topic] = messages
	}
	var e examples
	orders, payments := listed[shop.OrdersDeadLetters], listed[shop.PaymentsDeadLetters]
	err := errors.Join(
		pick(&e.curable, orders, "com.example.shop.catalogue.UnknownProductException"),
		pick(&e.hopeless, orders, "com.fasterxml.jackson.core.io.JsonEOFException"),
		pick(&e.outage, payments, "java.net.SocketTimeoutException"),
		pick(&e.mistyped, orders, "com.fasterxml.jackson.databind.exc.InvalidFormatException"),
	)
	if err != nil {
		return examples{}, err
	}
	return e, searchable(ctx, api)
}

// searchable is nil when a search finds what the guide searches: the catalogue
// follows a moment behind the messages.
func searchable(ctx context.Context, api string) error {
	body, err := get(ctx, api+"/api/v1/messages?limit=1&q="+url.QueryEscape(searchedText))
	if err == nil && !bytes.Contains(body, []byte(`"id":`)) {
		err = errors.New("nothing can be searched yet")
	}
	return err
}

func list(ctx context.Context, api, topic string) ([]example, error) {
	body, err := get(ctx, api+"/api/v1/dlq/"+topic+"?page_size=100")
	if err != nil {
		return nil, err
	}
	var page struct {
		Messages []example `json:"messages"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, fmt.Errorf("list %s: %w", topic, err)
	}
	return page.Messages, nil
}

func pick(into *example, from []example, class string) error {
	for _, candidate := range from {
		if candidate.Class == class {
			*into = candidate
			return nil
		}
	}
	return fmt.Errorf("no message of class %s", class)
}
