package console

import (
	"encoding/base64"
	"fmt"
	"regexp"
)

// Words returns a key as text, or in hex with its size.
func (b *blob) Words() string {
	if b.Encoding != "base64" {
		return b.Data
	}
	raw, err := base64.StdEncoding.DecodeString(b.Data)
	if err != nil {
		return b.Data
	}
	const most = 12
	if len(raw) > most {
		return fmt.Sprintf("0x%x… (%s)", raw[:most], byteSize(int64(len(raw))))
	}
	return fmt.Sprintf("0x%x", raw)
}

var qualified = regexp.MustCompile(`^([\w$]+(?:[.\\][\w$]+)*)[.\\]([\w$]+)$`)

func (m message) ShortClass() string {
	if parts := qualified.FindStringSubmatch(m.ErrorClass); parts != nil {
		return parts[2]
	}
	return m.ErrorClass
}

func (m message) Package() string {
	if parts := qualified.FindStringSubmatch(m.ErrorClass); parts != nil {
		return parts[1]
	}
	return ""
}

// Position returns where the dead letter is; "" for a message without a dead-letter record.
func (m message) Position() string {
	if m.DLQPartition == nil || m.DLQOffset == nil {
		return ""
	}
	return fmt.Sprintf("%s %d@%d", m.DLQTopic, *m.DLQPartition, *m.DLQOffset)
}

type messageTable struct {
	Caption  string
	Path     string // path of the message pages, live or archived
	Columns  []column
	Rows     []message
	Select   bool   // rows have a checkbox
	Form     string // id of the form that sends the chosen rows
	ClipAt   int    // characters of an error that are shown
	HideHead bool   // show the caption to screen readers only
}
