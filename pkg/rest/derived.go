package rest

import (
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// appendExplanation writes what a single message has beside what it has in lists,
// without the braces around it.
func appendExplanation(dst []byte, e entity.Explanation) []byte {
	dst = append(dst, `"derived":{"consumer_attempts":`...)
	dst = appendDerived(dst, e.ConsumerAttempts)
	dst = appendDerived(member(dst, "consumer_group"), e.ConsumerGroup)
	dst = appendDerived(member(dst, "error_class"), e.ErrorClass)
	dst = appendDerived(member(dst, "error_message"), e.ErrorMessage)
	dst = appendDerived(member(dst, "original_offset"), e.OriginalOffset)
	dst = appendDerived(member(dst, "original_partition"), e.OriginalPartition)
	dst = appendDerived(member(dst, "original_timestamp"), e.OriginalTimestamp)
	dst = appendDerived(member(dst, "original_topic"), e.OriginalTopic)
	dst = appendDerived(member(dst, "stack_trace"), e.StackTrace)
	dst = append(dst, `},"hops":[`...)
	for i, h := range e.Hops {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendHop(dst, h)
	}
	return append(dst, ']')
}

// appendDerived says where a value was learnt.
func appendDerived(dst []byte, d entity.Derived) []byte {
	if d.Source == "" {
		d = entity.NotDerived()
	}
	occurrence := &d.Occurrence
	if d.Header == "" {
		occurrence = nil
	}
	dst = append(dst, `{"source":`...)
	dst = appendText(dst, d.Source)
	dst = memberText(dst, "dialect", d.Dialect)
	dst = memberText(dst, "header", d.Header)
	dst = memberInt(dst, "occurrence", occurrence)
	dst = appendText(member(dst, "confidence"), d.Confidence)
	return append(dst, '}')
}

func appendHop(dst []byte, h entity.Hop) []byte {
	dst = append(dst, `{"dialect":`...)
	if h.Dialect == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendText(dst, h.Dialect)
	}
	dst = memberText(dst, "topic", h.Topic)
	dst = memberInt(dst, "partition", h.Partition)
	dst = memberInt(dst, "offset", h.Offset)
	return append(dst, '}')
}

// writeMessage sends one message with everything that is known of it.
func (s *Server) writeMessage(w http.ResponseWriter, r *http.Request, m *entity.Message, archived bool) error {
	v, err := s.viewOf(r, false)
	if err != nil {
		return err
	}
	v.limit, v.archived = maxPayload, archived
	unmask, err := boolParameter(r.URL.Query(), "unmask")
	if err != nil {
		return err
	}
	if unmask {
		if err := s.mayMessage(r, auth.Unmask, m); err != nil {
			return err
		}
		if err := s.noteMessage(r, m); err != nil {
			return err
		}
		v.unmasked = func(*entity.Message) bool { return true }
	}
	buffer, body := pageBuffer()
	body = s.appendMessage(body, m, v)
	body[len(body)-1] = ','
	body = append(appendExplanation(body, s.dialects.ExplainMessage(*m)), '}')
	writeBody(w, http.StatusOK, "application/json", body)
	keepBuffer(buffer, body)
	return nil
}
