package deadletter

import (
	"encoding/json"
	"strings"
)

// kafkajsAsyncRetry is Shutterstock's library. Its one header is a JSON object {"top": original topic, "ttl":
// milliseconds, "att": attempts}. Its dead-letter topics are named after consumer groups.
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

// maxAsyncRetry limits the parsed value: a topic and two numbers.
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

// kafkajsGroup returns the group that a dead-letter topic is named after.
func kafkajsGroup(deadLetter string) string {
	group, ok := strings.CutSuffix(deadLetter, "-dlq")
	if !ok {
		return ""
	}
	return group
}
