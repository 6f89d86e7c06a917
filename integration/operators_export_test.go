package integration_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	client "github.com/dlq-manager/dlq-manager/clients/go"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func (o *operators) export(params client.ExportMessagesParams) (text []byte, came client.Exported) {
	o.t.Helper()
	var out bytes.Buffer
	came, err := client.Export(o.t.Context(), o, &params, &out)
	check.NoError(o.t, err)
	return out.Bytes(), came
}

// An export contains exactly the messages that the filter matches. Users of similar tools reported exports that did not
// (issues rocketmq-dashboard 3559, ServicePulse 332).
func TestOperators_AnExportIsWhatTheFilterSays(t *testing.T) {
	t.Parallel()
	o := newOperators(t)
	for n := range 30 {
		o.failing([]string{"com.acme.Timeout", "=cmd|' /C calc'!A0"}[n%2], "=1+1", fmt.Sprintf(`{"n": %d, "text": "a \"b\",\nc"}`, n))
	}
	o.takenIn()
	o.redrive(client.RedriveOrder{Action: new(client.RedriveOrderActionDead), Filter: &client.Filter{Payload: &[]string{"$.n = 4"}}})
	text, came := o.export(client.ExportMessagesParams{ErrorClass: new("com.acme.Timeout"), Status: &client.ByStatus{"PENDING"}})
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if len(lines) != 14 || came.Messages != 14 || !came.Complete {
		t.Errorf("%d lines, result %+v, want the 14 that match and complete", len(lines), came)
	}
	for _, line := range lines {
		var m client.Message
		if err := json.Unmarshal(line, &m); err != nil || *m.ErrorClass != "com.acme.Timeout" || m.Status != "PENDING" {
			t.Errorf("line %s: %v, want a message that matches", line, err)
		}
	}
	if _, came := o.export(client.ExportMessagesParams{Limit: new(7)}); came.Messages != 7 || came.Complete {
		t.Errorf("with a limit of 7: %+v, want 7, not complete", came)
	}
}

// The CSV export has the same content as the export in JSON lines, and a spreadsheet reads no text of it as a formula
// (issue ServicePulse 332).
func TestOperators_ATableSaysWhatTheLinesSay(t *testing.T) {
	t.Parallel()
	o := newOperators(t)
	for n, message := range []string{"=1+1", "+cmd", "-1", "@sum", "\tx", "\rx", `says "no", twice`, "two\nlines", "\u202egnp.exe", ""} {
		o.failing("com.acme.Failure", message, fmt.Sprintf(`{"n": %d, "text": "a \"b\", c"}`, n))
	}
	o.takenIn()
	text, _ := o.export(client.ExportMessagesParams{})
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	table, came := o.export(client.ExportMessagesParams{Format: new(client.ExportMessagesParamsFormatCsv)})
	rows, err := csv.NewReader(bytes.NewReader(table)).ReadAll()
	if err != nil || len(rows) != len(lines)+1 || came.Messages != int64(len(lines)) {
		t.Fatalf("a table of %d rows: %v, result %+v; want a header row and %d rows", len(rows), err, came, len(lines))
	}
	for n, line := range lines {
		var m map[string]json.RawMessage
		check.NoError(t, json.Unmarshal(line, &m))
		for column, name := range rows[0] {
			if got, want := rows[n+1][column], cell(t, m[name]); plain(name) && got != want {
				t.Errorf("row %d, %s = %q, want %q", n, name, got, want)
			}
			if c := rows[n+1][column]; c != "" && strings.ContainsAny(c[:1], "=+-@\t\r") {
				t.Errorf("row %d, %s = %q, which a spreadsheet treats as a formula", n, name, c)
			}
		}
	}
}

// plain reports whether a column of the CSV export contains the same text as the JSON export. When the test reads the
// CSV, encoding/csv keeps a lone carriage return, and reads "\r\n" as "\n".
func plain(column string) bool {
	switch column {
	case "key", "headers", "masked":
		return false
	}
	return true
}

// cell returns the text that the CSV export must contain for a value of the JSON export.
func cell(t *testing.T, value json.RawMessage) string {
	t.Helper()
	text := string(value)
	switch {
	case text == "null":
		text = ""
	case strings.HasPrefix(text, `"`):
		check.NoError(t, json.Unmarshal(value, &text))
	}
	if text != "" && strings.ContainsAny(text[:1], "=+-@\t\r") {
		return "'" + text
	}
	return text
}

// An export shows one snapshot of the database. A message that changes meanwhile is in the export exactly once.
func TestOperators_AnExportWhileMessagesChange(t *testing.T) {
	t.Parallel()
	o := newOperators(t)
	for n := range 200 {
		o.failing("com.acme.Timeout", "no", fmt.Sprintf(`{"n":%d}`, n))
	}
	o.takenIn()
	res, err := o.CreateRedriveWithResponse(t.Context(), nil, client.RedriveOrder{
		Filter: &client.Filter{ErrorClass: new("com.acme.Timeout")}, Rate: new(float32(400)),
	})
	wantStatus(t, res, err, 202)
	for range 5 {
		text, came := o.export(client.ExportMessagesParams{})
		seen := map[string]bool{}
		for line := range bytes.Lines(text) {
			var m client.Message
			check.NoError(t, json.Unmarshal(line, &m))
			seen[m.Id.String()] = true
		}
		if len(seen) != 200 || came.Messages != 200 || !came.Complete {
			t.Errorf("%d messages, result %+v, want each of the 200 once", len(seen), came)
		}
	}
	o.over(res.JSON202.Id)
	text, _ := o.export(client.ExportMessagesParams{Status: &client.ByStatus{"RESOLVED"}})
	if n := bytes.Count(text, []byte("\n")); n != 200 {
		t.Errorf("%d resolved, want 200", n)
	}
}
