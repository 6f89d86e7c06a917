package deadletter

import "encoding/base64"

// knative is the dialect of Knative's delivery of CloudEvents in Kafka's binary mode. An event that a sink refused
// contains the answer of the sink, with its body in base64. The HTTP status becomes the error class. No header names a
// topic.
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

// decodeBase64 decodes base64 in either alphabet, with or without padding, because Knative may have cut the value. Any
// other text is returned unchanged.
func decodeBase64(raw []byte) []byte {
	for _, encoding := range [...]*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		out := make([]byte, encoding.DecodedLen(len(raw)))
		if n, err := encoding.Decode(out, raw); err == nil {
			return out[:n]
		}
	}
	return raw
}
