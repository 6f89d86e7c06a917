package deadletter

import (
	"encoding/json"
	"strings"
)

// kafkajsAsyncRetry is the dialect of Shutterstock's library kafkajs-async-retry. It writes a single header with a JSON
// object: {"top": original topic, "ttl": milliseconds, "att": attempts}. Its dead-letter topics have the names of
// consumer groups.
var kafkajsAsyncRetry = dialect{
	name:     "kafkajs-async-retry",
	anchors:  [][]string{{"asyncRetry"}},
	topic:    "asyncRetry",
	attempts: []string{"asyncRetry"},
	unwrap:   asyncRetry,
	refineFailure: func(_ headers, f failure) failure {
		f.Attempts = withFirst(f.Attempts)
		return f
	},
}

// maxAsyncRetry is the maximum size in bytes of a value that is parsed; a larger one is ignored.
const maxAsyncRetry = 4 << 10

func asyncRetry(f field, raw []byte) []byte {
	var v struct {
		Topic    string      `json:"top"`
		Attempts json.Number `json:"att"`
	}
	if len(raw) > maxAsyncRetry || json.Unmarshal(raw, &v) != nil {
		return nil
	}
	if f == fieldAttempts {
		return []byte(v.Attempts)
	}
	return []byte(v.Topic)
}

// kafkajsGroup returns the consumer group whose name is part of the dead-letter topic's name.
func kafkajsGroup(deadLetter string) string {
	group, ok := strings.CutSuffix(deadLetter, "-dlq")
	if !ok {
		return ""
	}
	return group
}
