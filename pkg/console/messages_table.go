package console

import (
	"encoding/base64"
	"fmt"
	"regexp"
)

// Words shows bytes as text, or says how many there are.
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

// Position is where the dead letter is; "" for a message that never was one.
func (m message) Position() string {
	if m.DLQPartition == nil || m.DLQOffset == nil {
		return ""
	}
	return fmt.Sprintf("%s %d@%d", m.DLQTopic, *m.DLQPartition, *m.DLQOffset)
}

type messageTable struct {
	Caption  string
	Path     string // of the pages of messages, live or archived
	Columns  []column
	Rows     []message
	Select   bool   // rows can be chosen
	Form     string // the id of the form that chosen rows are sent with
	ClipAt   int    // characters of an error
	HideHead bool   // the caption is for who cannot see the table
}
