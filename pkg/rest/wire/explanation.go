package wire

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// appendExplanation writes the members "derived", "hops" and "envelope", which only the answer for a single message
// has. It does not write the braces around them.
func appendExplanation(dst []byte, e entity.Explanation) []byte {
	fields := e.Fields()
	r := row{dst: append(dst, `"derived":{`...)}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		r.name(name)
		r.dst = appendDerived(r.dst, fields[name])
	}
	dst = append(r.dst, `},"hops":[`...)
	for i, h := range e.Hops {
		if i > 0 {
			dst = append(dst, ',')
		}
		r := row{dst: append(dst, '{')}
		r.text("dialect", h.Dialect)
		r.text("topic", h.Topic)
		number(&r, "partition", h.Partition)
		number(&r, "offset", h.Offset)
		dst = append(r.dst, '}')
	}
	if dst = append(dst, `],"envelope":`...); e.Envelope == nil {
		return append(dst, "null"...)
	}
	members, _ := json.Marshal(e.Envelope) // strings cannot fail
	return append(append(append(dst, `{"members":`...), members...), '}')
}

func appendDerived(dst []byte, d entity.Derived) []byte {
	if d.Source == "" {
		d = entity.NotDerived()
	}
	occurrence := &d.Occurrence
	if d.Header == "" {
		occurrence = nil
	}
	r := row{dst: append(dst, '{')}
	r.word("source", string(d.Source))
	r.text("dialect", d.Dialect)
	r.text("header", d.Header)
	number(&r, "occurrence", occurrence)
	r.word("confidence", string(d.Confidence))
	return append(r.dst, '}')
}
