package deadletter

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// text is the value of a header or record in a golden file. There, text is a JSON string, other bytes have the form
// {"hex":"00 01"}, and null is Kafka's null.
type text []byte

func (t *text) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		*t = nil
		return nil
	}
	if b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*t = append(text{}, s...)
		return nil
	}
	var h struct{ Hex string }
	if err := strict(b, &h); err != nil {
		return err
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(h.Hex, " ", ""))
	*t = append(text{}, raw...)
	return err
}

// pair is a header in a golden file: [name, value].
type pair entity.Header

func (p *pair) UnmarshalJSON(b []byte) error {
	var value text
	if err := json.Unmarshal(b, &[]any{&p.Key, &value}); err != nil {
		return err
	}
	p.Value = value
	return nil
}

func asHeaders(pairs []pair) []entity.Header {
	var out []entity.Header
	for _, p := range pairs {
		out = append(out, entity.Header(p))
	}
	return out
}

// golden is the content of one file in testdata: a record and its expected Reading.
type golden struct {
	About     string          `json:"about"`
	Topic     string          `json:"topic"`
	Timestamp time.Time       `json:"timestamp"`
	Patterns  []string        `json:"patterns"`
	Map       []MapRule       `json:"map"`
	Dialects  []DialectConfig `json:"dialects"`
	Uber      []string        `json:"uber_dlq_topics"`
	Exists    []string        `json:"exists"`
	Key       text            `json:"key"`
	Value     text            `json:"value"`
	Headers   []pair          `json:"headers"`

	Want struct {
		expectation
		ReplayKey text   `json:"replay_key"`
		Kept      []pair `json:"kept"`
	} `json:"want"`
}

// expectation is a Reading in the form that golden files use.
type expectation struct {
	OriginalTopic string     `json:"original_topic"`
	Confidence    string     `json:"confidence"`
	Partition     *int32     `json:"partition"`
	Offset        *int64     `json:"offset"`
	Timestamp     *time.Time `json:"timestamp"`
	Dialect       string     `json:"dialect"`
	ErrorMessage  string     `json:"error_message"`
	ErrorClass    string     `json:"error_class"`
	StackTrace    string     `json:"stack_trace"`
	ConsumerGroup string     `json:"consumer_group"`
	Attempts      *int       `json:"attempts"`
	Pointer       bool       `json:"pointer"`
	Returned      *returned  `json:"returned"`
}

type returned struct {
	MessageID  uuid.UUID `json:"message_id"`
	RootID     uuid.UUID `json:"root_id"`
	RedriveID  uuid.UUID `json:"redrive_id"`
	RetryCount int       `json:"retry_count"`
}

func expectationOf(r Reading) expectation {
	e := expectation{
		OriginalTopic: r.OriginalTopic, Confidence: string(r.Origin.Confidence),
		Partition: r.Origin.Partition, Offset: r.Origin.Offset,
		Dialect: r.Failure.Dialect, ErrorMessage: r.ErrorMessage, ErrorClass: r.Failure.Class,
		StackTrace: r.Failure.StackTrace, ConsumerGroup: r.Failure.ConsumerGroup,
		Attempts: r.Failure.Attempts, Pointer: r.Pointer,
	}
	if !r.Origin.Timestamp.IsZero() {
		e.Timestamp = &r.Origin.Timestamp
	}
	if l := r.Returned; l != nil {
		e.Returned = &returned{MessageID: l.MessageID, RootID: l.RootID, RedriveID: l.RedriveID, RetryCount: l.RetryCount}
	}
	return e
}

func strict(b []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	return dec.Decode(to)
}

func readGolden(t *testing.T, file string) golden {
	t.Helper()
	b := check.Must(os.ReadFile(file))(t)
	var g golden
	check.NoError(t, strict(b, &g))
	if g.Patterns == nil {
		g.Patterns = []string{"*.dlq.v1"}
	}
	return g
}

func TestGolden(t *testing.T) {
	t.Parallel()
	files := check.Must(filepath.Glob("testdata/*/*.json"))(t)
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(file), "testdata/"), ".json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkGolden(t, readGolden(t, file))
		})
	}
}

func (g golden) decoder(t *testing.T) *Decoder {
	t.Helper()
	patterns := check.Must(ParsePatterns(g.Patterns...))(t)
	return check.Must(New(Config{TopicMap: g.Map, Dialects: g.Dialects, UberDLQTopics: g.Uber}, patterns))(t)
}

func checkGolden(t *testing.T, g golden) {
	t.Helper()
	d := g.decoder(t)
	rec := entity.Record{Key: g.Key, Value: g.Value, Headers: asHeaders(g.Headers)}
	r := d.Decode(g.Topic, rec, g.Timestamp, func(topic string) bool { return slices.Contains(g.Exists, topic) })
	check.Equal(t, d.StackTrace(g.Topic, rec), r.Failure.StackTrace, "StackTrace(%s)", g.Topic)

	if got := expectationOf(r); !reflect.DeepEqual(got, g.Want.expectation) {
		t.Errorf("Decode(%s)\n got %s\nwant %s", g.Topic, show(t, got), show(t, g.Want.expectation))
	}
	m := messageOf(g.Topic, rec, r)
	m.Source.Timestamp = g.Timestamp
	check.Equal(t, d.Strip(&m, r.OriginalTopic, rec.Headers), asHeaders(g.Want.Kept), "Strip(%s)", r.Failure.Dialect)
	check.Equal(t, ReplayKey(r.Failure.Dialect, rec), []byte(g.Want.ReplayKey), "ReplayKey(%s)", r.Failure.Dialect)
}

// messageOf returns the message that ingest stores of a record.
func messageOf(topic string, rec entity.Record, r Reading) entity.Message {
	m := entity.Message{OriginalTopic: r.OriginalTopic, Origin: r.Origin, Failure: r.Failure, Record: rec}
	m.Source.Topic = topic
	return m
}

func show(t *testing.T, v any) string {
	t.Helper()
	b := check.Must(json.Marshal(v))(t)
	return string(b)
}

// Every dialect must have at least two cases in testdata. TestGolden alone does not fail when a dialect has no case.
func TestEveryDialectHasTwoGoldenCases(t *testing.T) {
	t.Parallel()
	for _, name := range Dialects() {
		files := check.Must(filepath.Glob(filepath.Join("testdata", name, "*.json")))(t)
		check.True(t, len(files) >= 2, "testdata/%s has %d cases, want at least 2", name, len(files))
	}
}

func TestEveryGoldenFolderNamesADialect(t *testing.T) {
	t.Parallel()
	folders := check.Must(os.ReadDir("testdata"))(t)
	known := append(Dialects(), "configured", "mixed", "none", "fuzz")
	for _, folder := range folders {
		check.True(t, slices.Contains(known, folder.Name()), "testdata/%s belongs to no dialect", folder.Name())
	}
}

func decoder(t testing.TB, patterns []string, rules ...MapRule) *Decoder {
	t.Helper()
	p := check.Must(ParsePatterns(patterns...))(t)
	return check.Must(New(Config{TopicMap: rules}, p))(t)
}
