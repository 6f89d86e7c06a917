package console

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// messageRow is a message as lists show it. Its value is not loaded.
type messageRow struct {
	ID            string    `json:"id"`
	Topic         string    `json:"original_topic"`
	Status        string    `json:"status"`
	Error         string    `json:"error_message"`
	Class         string    `json:"error_class"`
	Group         string    `json:"group_id"`
	Retries       int       `json:"retry_count"`
	MaxRetries    int       `json:"max_retries"`
	Received      time.Time `json:"created_at"`
	DLQTopic      string    `json:"dlq_topic"`
	DLQPartition  *int64    `json:"dlq_partition"`
	DLQOffset     *int64    `json:"dlq_offset"`
	ConsumerGroup string    `json:"consumer_group"`
	Dialect       string    `json:"dialect"`
	Outcome       string    `json:"outcome"`
	Key           *blob     `json:"key"`
	KeyOmitted    string    `json:"key_omitted"`
	KeySize       *int64    `json:"key_size"`
	Size          *int64    `json:"payload_size"`
}

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

// qualified is a class with the package that it is in.
var qualified = regexp.MustCompile(`^([\w$]+(?:[.\\][\w$]+)*)[.\\]([\w$]+)$`)

// ShortClass is the class without its package.
func (m messageRow) ShortClass() string {
	if parts := qualified.FindStringSubmatch(m.Class); parts != nil {
		return parts[2]
	}
	return m.Class
}

// Package is what stands before the class, or nothing.
func (m messageRow) Package() string {
	if parts := qualified.FindStringSubmatch(m.Class); parts != nil {
		return parts[1]
	}
	return ""
}

// Position is where the dead letter stands, or nothing for a row that never was one.
func (m messageRow) Position() string {
	if m.DLQPartition == nil || m.DLQOffset == nil {
		return ""
	}
	return m.DLQTopic + " " + strconv.FormatInt(*m.DLQPartition, 10) + "@" + strconv.FormatInt(*m.DLQOffset, 10)
}

// messageTable is a table of messages: the part messages-table shows it on any page.
type messageTable struct {
	Caption  string
	Path     string // of the pages of messages, live or archived
	Columns  []column
	Rows     []messageRow
	Select   bool   // rows can be chosen
	Form     string // the id of the form that chosen rows are sent with
	ClipAt   int    // characters of an error
	HideHead bool   // the caption is for who cannot see the table
}
