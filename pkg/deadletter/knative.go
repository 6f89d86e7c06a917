package deadletter

import "encoding/base64"

// knative is the delivery of CloudEvents in Kafka's binary mode: an event that a sink refused carries the sink's
// answer, its body in base64. The class is the HTTP status. Its headers name no topic.
var knative = dialect{
	name:     "knative",
	anchors:  [][]string{{"ce_knativeerrordest"}, {"ce_knativeerrorcode"}, {knativeBody}},
	classes:  []string{"ce_knativeerrorcode"},
	messages: []string{knativeBody},
	unwrap: func(f field, raw []byte) []byte {
		if f != fieldMessage {
			return raw
		}
		return decodeBase64(raw)
	},
}

const knativeBody = "ce_knativeerrordata"

// decodeBase64 reads either alphabet, padded or not (it may be cut off); other text is returned unchanged.
func decodeBase64(raw []byte) []byte {
	for _, encoding := range [...]*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		out := make([]byte, encoding.DecodedLen(len(raw)))
		if n, err := encoding.Decode(out, raw); err == nil {
			return out[:n]
		}
	}
	return raw
}
