package message

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
)

type shownHeader struct {
	Name   string
	Odd    bool // the header's name is not text
	Value  shownBytes
	Masked bool
	Stays  bool // a replay has the header
}

type shownBytes struct {
	Null    bool
	LeftOut bool // the value is too long to be shown
	Hex     bool
	// Number is the big-endian number in a value of four or eight bytes.
	Number string
	Text   string
	Brief  string // beginning of the value, if it is long
	Size   int64
	More   int64 // number of bytes that are not shown
}

const (
	longHeader = 240      // a header with more bytes of text than this, or with more than three lines, is folded
	maxHeader  = 16 << 10 // bytes of a header's text that are shown; the rest is cut off
	hexHeader  = 256

	maxHeaders = 1000 // headers that a page shows; further headers are left out
)

func decodeHeaders(m *api.Message) []shownHeader {
	headers := m.Headers[:min(len(m.Headers), maxHeaders)]
	shown := make([]shownHeader, 0, len(headers))
	for _, h := range headers {
		shown = append(shown, shownHeader{
			Name: format.Visible(h.Key), Odd: h.KeyBase64 != "", Value: showBlob(h.Value),
			Masked: m.Masks(h), Stays: !slices.Contains(m.ReplayRemoves, h.Key),
		})
	}
	return shown
}

// showBlob shows bytes as text, and in hex if they are not text or would be invisible.
func showBlob(b *api.Blob) shownBytes {
	if b == nil {
		return shownBytes{Null: true}
	}
	raw := b.Bytes()
	s := shownBytes{Size: int64(len(raw)), Hex: b.Encoding == "base64" || bytes.ContainsFunc(raw, control)}
	if s.Hex {
		part := raw[:min(len(raw), hexHeader)]
		s.Text, s.More = format.HexDump(part), s.Size-int64(len(part))
		if s.Number = numberIn(raw); s.Number != "" {
			s.Text = fmt.Sprintf("% x", raw)
		}
		return s
	}
	return showText(string(raw))
}

func showText(text string) shownBytes {
	s := shownBytes{Size: int64(len(text))}
	part, _ := format.ClipBytes(text, maxHeader)
	s.Text, s.More = format.Visible(part), s.Size-int64(len(part))
	if len(s.Text) > longHeader || strings.Count(s.Text, "\n") > 2 {
		first, _, _ := strings.Cut(s.Text, "\n")
		s.Brief = format.Clip(longHeader/2, first)
	}
	return s
}

func control(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }

// numberIn reads big-endian numbers, which Java programs write. It shows a number of eight bytes as a time if the time
// is in this century.
func numberIn(raw []byte) string {
	switch len(raw) {
	case 4:
		return strconv.Itoa(int(int32(binary.BigEndian.Uint32(raw))))
	case 8:
		n := int64(binary.BigEndian.Uint64(raw))
		if t := time.UnixMilli(n); t.Year() > 2000 && t.Year() < 2100 {
			return format.UTC(t)
		}
		return strconv.FormatInt(n, 10)
	default:
		return ""
	}
}

func keyOf(m *api.Message) shownBytes {
	if m.KeyOmitted != "" && m.KeySize != nil {
		return shownBytes{Size: *m.KeySize, LeftOut: true}
	}
	if decoded := m.DecodedKey(); decoded != nil {
		s := showText(string(decoded))
		s.Size = *m.KeySize
		return s
	}
	return showBlob(m.Key)
}

type trace struct{ ID, URL string }

// traceOf reads the W3C trace header. Of several valid ones it reads the last, which the last sender has added.
func traceOf(headers []api.Header, traceURL func(id string) string) trace {
	var found trace
	for _, h := range headers {
		if h.Value == nil || !strings.EqualFold(h.Key, "traceparent") {
			continue
		}
		parts := strings.Split(h.Value.Data, "-")
		if len(parts) < 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" || strings.Trim(parts[1], "0") == "" {
			continue
		}
		found.ID = parts[1]
	}
	if found.ID != "" {
		found.URL = traceURL(found.ID)
	}
	return found
}

type fact struct {
	Name  string
	Value string
	Time  time.Time // Value as a time, if it is one
	Topic bool      // Value is a topic
	Sure  string    // high, medium or low; "" when unknown
	How   string
	Above bool // the top of the page shows the same value
}

func originOf(m *api.Message) []fact {
	var shown []fact
	group, attempts := "Consumer group", "Consumer attempts"
	if m.OfShareGroup() {
		group, attempts = "Share group", "Deliveries"
	}
	for _, f := range []struct {
		key string
		fact
	}{
		{"original_topic", fact{Name: "Original topic", Value: m.OriginalTopic, Topic: true, Above: true}},
		{"original_partition", fact{Name: "Partition", Value: known(m.OrigPartition), Above: true}},
		{"original_offset", fact{Name: "Offset", Value: known(m.OrigOffset), Above: true}},
		{"original_timestamp", fact{Name: "Written", Time: m.OrigTimestamp}},
		{"consumer_group", fact{Name: group, Value: m.ConsumerGroup, Above: true}},
		{"consumer_attempts", fact{Name: attempts, Value: known(m.ConsumerTries)}},
		{"error_class", fact{Name: "Error class", Value: m.ErrorClass, Above: true}},
		{"error_message", fact{Name: "Error message", Value: format.Middle(120, m.ErrorMessage), Above: true}},
	} {
		if d := m.Derived[f.key]; f.Topic || f.Value != "" || !f.Time.IsZero() {
			f.Sure, f.How = confidence(d), source(d, m.Dialect)
			shown = append(shown, f.fact)
		}
	}
	return shown
}

func known[T any](n *T) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

func confidence(d api.Derived) string {
	if d.Confidence == "none" {
		return ""
	}
	return d.Confidence
}

// source says from which header, and of which dialect, a field was read; "" when that is unknown. It names the dialect
// only if it differs from the message's dialect.
func source(d api.Derived, dialect string) string {
	of := ""
	if d.Dialect != "" && d.Dialect != dialect {
		of = " of dialect " + d.Dialect
	}
	switch d.Source {
	case "header", "companion":
		from := "from header " + d.Header
		if d.Occurrence != nil && *d.Occurrence > 0 {
			from += " (number " + strconv.Itoa(*d.Occurrence+1) + " of that name)"
		}
		if d.Source == "companion" {
			return from + of + ", a name that several dialects use"
		}
		return from + of
	case "mapping":
		return "by a rule of the topic mapping"
	case "name":
		return "from the name of the dead-letter topic" + of
	case "operator":
		return "set by an operator"
	case "record":
		return "from the dead-letter record itself" + of
	default:
		return ""
	}
}
