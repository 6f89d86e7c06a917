package deadletter

import (
	"encoding/json"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
)

// nserviceBus is the dialect of NServiceBus, which writes headers to queues of other kinds of brokers. Bridges copy
// these headers to Kafka, some as JSON strings. FailedQ names a queue, which is used as a topic only if the cluster has
// a topic with this name. The header with the time at which the application sent the record stays in the replay.
var nserviceBus = dialect{
	name:     "nservicebus",
	anchors:  [][]string{{"NServiceBus.FailedQ"}, {"NServiceBus.ExceptionInfo.ExceptionType"}},
	queues:   true,
	topic:    "NServiceBus.FailedQ",
	causes:   []string{"NServiceBus.ExceptionInfo.InnerExceptionType"},
	classes:  []string{"NServiceBus.ExceptionInfo.ExceptionType"},
	messages: []string{"NServiceBus.ExceptionInfo.Message"},
	stacks:   []string{"NServiceBus.ExceptionInfo.StackTrace"},
	attempts: []string{"NServiceBus.Retries"},
	unwrap:   jsonString,
	refinePlace: func(h headers, p place) place {
		if i := h.lastIndex(nserviceBusSent); i >= 0 {
			p.timestamp, p.at[fieldTimestamp] = headervalue.Timestamp(jsonString(fieldTimestamp, h[i].Value)), int32(i+1)
		}
		return p
	},
}

// nserviceBusSent is a header of every record that NServiceBus sends, so a replay keeps it.
const nserviceBusSent = "NServiceBus.TimeSent"

// jsonString returns the text of a JSON string, and other values unchanged.
func jsonString(_ field, raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return raw
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return raw
	}
	return []byte(s)
}
