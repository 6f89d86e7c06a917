package protocol

import (
	"io"
	"time"

	kafkaprotocol "github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
)

// ClientID is the name of this client in every request.
const ClientID = "dlq-manager"

// correlation is the same for all requests: a connection carries only one request at a time.
const correlation = 1

// Versions are the versions that kafka-go agreed on with one broker.
type Versions map[kafkaprotocol.ApiKey]int16

// Request is a request whose answer is a T.
type Request[T any] struct {
	Key kafkaprotocol.ApiKey
	// Exchange writes the request to a connection and reads the answer. It may be called again.
	Exchange func(rw io.ReadWriter, v Versions) (T, error)
	// Throttle returns the pause that the broker asks for in an answer; nil for requests that have no quota of their own.
	Throttle func(T) time.Duration
}

// Message returns a request that kafka-go can encode.
func Message[T kafkaprotocol.Message](req kafkaprotocol.Message) Request[T] {
	key := req.ApiKey()
	return Request[T]{Key: key, Exchange: func(rw io.ReadWriter, v Versions) (T, error) { return RoundTrip[T](rw, v[key], req) }}
}

// RoundTrip sends a request that kafka-go can encode, and reads its answer.
func RoundTrip[T kafkaprotocol.Message](rw io.ReadWriter, version int16, req kafkaprotocol.Message) (T, error) {
	var none T
	res, err := kafkaprotocol.RoundTrip(rw, version, correlation, ClientID, req)
	if err != nil {
		return none, err
	}
	return res.(T), nil
}

// newestVersion asks the broker for the newest version of a request that it supports. kafka-go's list of versions is
// not enough, because it contains only versions that kafka-go supports too.
func newestVersion(rw io.ReadWriter, key kafkaprotocol.ApiKey) (int16, error) {
	res, err := RoundTrip[*apiversions.Response](rw, 0, &apiversions.Request{})
	if err != nil {
		return 0, err
	}
	if err := CodeError(res.ErrorCode); err != nil {
		return 0, err
	}
	for _, k := range res.ApiKeys {
		if kafkaprotocol.ApiKey(k.ApiKey) == key {
			return k.MaxVersion, nil
		}
	}
	return 0, nil
}
