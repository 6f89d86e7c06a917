package console

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

type blob struct {
	Encoding string `json:"encoding"`
	Data     string `json:"data"`
}

// bytes returns the decoded bytes; nil for null.
func (b *blob) bytes() []byte {
	if b == nil {
		return nil
	}
	if b.Encoding == "base64" {
		if raw, err := base64.StdEncoding.DecodeString(b.Data); err == nil {
			return raw
		}
	}
	return []byte(b.Data)
}

type header struct {
	Key       string `json:"key"`
	KeyBase64 string `json:"key_base64"`
	Value     *blob  `json:"value"`
}

type shownHeader struct {
	Name   string
	Odd    bool // its name is not text
	Value  shownBytes
	Masked bool
}

type shownBytes struct {
	Null    bool
	LeftOut bool // too long to be shown
	Hex     bool
	// Number is the big-endian number of four or eight bytes.
	Number string
	Text   string
	Brief  string // its beginning, when it is long
	Size   int64
	More   int64 // bytes that are not shown
}

const (
	longHeader = 240      // bytes of text above which it is folded
	maxHeader  = 16 << 10 // bytes of text that are shown
	hexHeader  = 256

	maxHeaders = 1000 // headers that a page shows
)

func decodeHeaders(m *message) []shownHeader {
	headers := m.Headers[:min(len(m.Headers), maxHeaders)]
	shown := make([]shownHeader, 0, len(headers))
	for _, h := range headers {
		shown = append(shown, shownHeader{
			Name: visible(h.Key), Odd: h.KeyBase64 != "", Value: showBlob(h.Value),
			Masked: m.masks(h),
		})
	}
	return shown
}

// masks reports whether the API has masked a header's value: a record may itself contain the text of the mask.
func (m *message) masks(h header) bool {
	return h.Value != nil && h.Value.Data == maskedText && slices.Contains(m.Masked, "header:"+h.Key)
}

// showBlob shows bytes in hex when they are not text or would be invisible.
func showBlob(b *blob) shownBytes {
	if b == nil {
		return shownBytes{Null: true}
	}
	raw := b.bytes()
	s := shownBytes{Size: int64(len(raw)), Hex: b.Encoding == "base64" || bytes.ContainsFunc(raw, control)}
	if s.Hex {
		part := raw[:min(len(raw), hexHeader)]
		s.Text, s.More = hexDump(part), s.Size-int64(len(part))
		if s.Number = numberIn(raw); s.Number != "" {
			s.Text = fmt.Sprintf("% x", raw)
		}
		return s
	}
	part, _ := clipText(string(raw), maxHeader)
	s.Text, s.More = visible(part), s.Size-int64(len(part))
	if len(s.Text) > longHeader || strings.Count(s.Text, "\n") > 2 {
		first, _, _ := strings.Cut(s.Text, "\n")
		s.Brief = clip(longHeader/2, first)
	}
	return s
}

func control(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }

// numberIn reads big-endian numbers as Java writes them; one of eight bytes is shown as a time if it is in this
// century.
func numberIn(raw []byte) string {
	switch len(raw) {
	case 4:
		return strconv.Itoa(int(int32(binary.BigEndian.Uint32(raw))))
	case 8:
		n := int64(binary.BigEndian.Uint64(raw))
		if t := time.UnixMilli(n); t.Year() > 2000 && t.Year() < 2100 {
			return utc(t)
		}
		return strconv.FormatInt(n, 10)
	default:
		return ""
	}
}

func (m *message) KeyShown() shownBytes {
	if m.KeyOmitted != "" && m.KeySize != nil {
		return shownBytes{Size: *m.KeySize, LeftOut: true}
	}
	return showBlob(m.Key)
}

type trace struct{ ID, URL string }

// traceOf reads the W3C trace header. The last one was added by the last sender.
func (c *Console) traceOf(headers []header) trace {
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
	if found.ID != "" && c.cfg.TraceURL != "" {
		found.URL = strings.ReplaceAll(c.cfg.TraceURL, traceID, found.ID)
	}
	return found
}
