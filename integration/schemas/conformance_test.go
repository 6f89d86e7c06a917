package schemas_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/registry/official"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// The ways in which the conformance test retries a message: without an edit, or with an edit of its key and payload.
const (
	plain  = "plain"  // without an edit
	same   = "same"   // with the JSON that the API shows
	edited = "edited" // with JSON that is changed, encoded with the record's own schema
	latest = "latest" // with JSON that is changed, encoded with the latest schema
)

// nodePrefix means the framing official.Prefix, when the official client for Node writes the value.
const nodePrefix = "node prefix"

// specimen is an example in one framing, written as a dead letter. There is a separate message for each way in which
// the test retries the dead letter.
type specimen struct {
	example
	framing, topic string
	keys, values   specimenPart
	messages       map[string]*message
}

// specimenPart is the key or the value of a specimen.
type specimenPart struct {
	part     string // official.Key or official.Value
	question official.EncodeRequest
	encoded  official.Encoded
	decoded  any            // value that the official decoder shows, in the form that docs/schemas.md describes
	edited   map[string]any // values that the official decoder reads from the sent records, by the way of the retry
}

// message holds those fields of the API's answer about a message that the test compares, and the record that the retry
// of the message sent.
type message struct {
	ID             string          `json:"id"`
	Offset         int64           `json:"dlq_offset"`
	Payload        json.RawMessage `json:"payload"`
	PayloadFormat  string          `json:"payload_format"`
	PayloadSchema  *schemaRef      `json:"payload_schema"`
	PayloadOmitted *string         `json:"payload_omitted"`
	KeyJSON        json.RawMessage `json:"key_json"`
	KeyFormat      string          `json:"key_format"`
	KeySchema      *schemaRef      `json:"key_schema"`

	sent *kgo.Record
}

type schemaRef struct {
	Registry      string `json:"registry"`
	ID            int    `json:"id"`
	GUID          string `json:"guid"`
	Subject       string `json:"subject"`
	Version       int    `json:"version"`
	LatestVersion int    `json:"latest_version"`
}

// formats are the names of the formats in the API.
var formats = map[string]string{official.Avro: "avro", official.Protobuf: "protobuf", official.JSON: "json_schema"}

// The API shows the JSON that the official decoder returns for the records of the official encoders. A retry without
// changes sends the same bytes, and the official decoder reads an edited payload as it was edited. The test compares
// numbers by their value, and objects without the order of their members.
//
// The client for Node writes Protobuf in a form that no other client reads. The API shows an error for a value in this
// form, and a retry sends it unchanged.
func TestRecordsOfOfficialClients(t *testing.T) {
	s := newSite(t, "")
	s.start("ingester")
	s.start("api")
	python := check.Must(official.Python(t.Context()))(t)
	all := s.specimens()
	s.encode(python, all)
	s.ingest(all)
	for _, x := range all {
		for way, m := range x.messages {
			s.retry(x, way, m)
		}
	}
	s.readSent(all)
	decode(t, python, all)
	for _, x := range all {
		t.Run(x.name+" "+x.framing, x.check)
	}
}

// specimens returns each example in each of its framings. Each example has a topic, and a second topic if the clients
// for Python and Node both write the example.
func (s *site) specimens() (all []*specimen) {
	for _, e := range examples {
		framings := []string{official.Prefix, official.Header}
		switch {
		case e.node:
			framings = append(framings, nodePrefix)
		case e.onlyNode:
			framings = []string{nodePrefix}
		}
		topic := s.topic(e.name)
		for _, framing := range framings {
			x := &specimen{example: e, framing: framing, topic: topic, messages: map[string]*message{plain: {}}}
			if !e.onlyNode {
				x.messages[same], x.messages[edited] = &message{}, &message{}
			}
			if e.evolved != "" {
				x.messages[latest] = &message{}
			}
			if framing == nodePrefix && !e.onlyNode {
				x.topic = s.topic(e.name + "-node") // the client for Node registers another text of this schema
			}
			x.keys, x.values = x.part(s, official.Key), x.part(s, official.Value)
			all = append(all, x)
		}
	}
	return all
}

func (x *specimen) part(s *site, part string) specimenPart {
	framing := x.framing
	if framing == nodePrefix {
		framing = official.Prefix
	}
	return specimenPart{part: part, edited: map[string]any{}, question: official.EncodeRequest{
		Connection: official.Connection{RegistryURL: s.registryURL}, Topic: x.topic, Part: part, Format: x.format,
		Framing: framing, Schema: x.schema, References: x.references, Message: x.message,
		Value: json.RawMessage(x.value),
	}}
}

func (x *specimen) parts() []*specimenPart { return []*specimenPart{&x.keys, &x.values} }

// encode encodes the keys and values of all specimens with the official encoders, then registers the later versions
// of their schemas.
func (s *site) encode(python *official.PythonClient, all []*specimen) {
	s.t.Helper()
	var questions, nodeQuestions []official.EncodeRequest
	for _, x := range all {
		for _, p := range x.parts() {
			if x.framing == nodePrefix {
				nodeQuestions = append(nodeQuestions, p.question)
			} else {
				questions = append(questions, p.question)
			}
		}
	}
	fromPython := check.Must(python.Encode(s.t.Context(), questions...))(s.t)
	fromNode := check.Must(check.Must(official.Node(s.t.Context()))(s.t).Encode(s.t.Context(), nodeQuestions...))(s.t)
	for _, x := range all {
		from := &fromPython
		if x.framing == nodePrefix {
			from = &fromNode
		}
		for _, p := range x.parts() {
			p.encoded, *from = (*from)[0], (*from)[1:]
			check.Require(s.t, p.encoded.Error == "", "encode %s %s: %s", x.name, p.part, p.encoded.Error)
			if x.evolved != "" {
				s.register(x.topic+"-"+p.part, x.format, x.evolved, x.references)
			}
		}
	}
}

// deadLetter returns the specimen as a dead letter. The parameter way says how the test will retry this dead letter:
// plain, same, edited or latest.
func (x *specimen) deadLetter(s *site, way string) *kgo.Record {
	r := &kgo.Record{
		Topic: s.prefix + "-all.dlq.v1", Key: x.keys.encoded.Value, Value: x.values.encoded.Value,
		Headers: []kgo.RecordHeader{
			{Key: "specimen", Value: []byte(x.id(way))},
			{Key: "kafka_dlt-original-topic", Value: []byte(x.topic)},
			{Key: "kafka_dlt-exception-fqcn", Value: []byte("com.acme.Timeout")},
		},
	}
	for _, p := range x.parts() {
		for _, h := range p.encoded.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
	}
	return r
}

func (x *specimen) id(way string) string { return x.name + "/" + x.framing + "/" + way }

// ingest writes the dead letters of all specimens, and reads the API's answer for each message.
func (s *site) ingest(all []*specimen) {
	s.t.Helper()
	s.topic("all.dlq.v1")
	var records []*kgo.Record
	var messages []*message
	for _, x := range all {
		for way, m := range x.messages {
			records, messages = append(records, x.deadLetter(s, way)), append(messages, m)
		}
	}
	s.produce(records...)
	var found struct{ Messages []message }
	check.Eventually(s.t, "all dead letters are stored", func() bool {
		s.call(http.MethodGet, "/api/v1/messages?omit=payload&limit=1000", nil, http.StatusOK, &found)
		return len(found.Messages) == len(records)
	})
	for _, m := range found.Messages {
		messages[m.Offset].ID = m.ID
	}
	for _, m := range messages {
		check.Eventually(s.t, "the registry has answered", func() bool {
			s.call(http.MethodGet, "/api/v1/dlq/messages/"+m.ID, nil, http.StatusOK, m)
			return m.PayloadSchema.complete() && m.KeySchema.complete()
		})
	}
}

// complete reports whether the API already knows the latest version of the schema too. This may take time, because the
// API sends a registry only some requests a second.
func (r *schemaRef) complete() bool { return r != nil && r.LatestVersion != 0 }

// retry asks the API to retry the message m. The parameter way says with which edit.
func (s *site) retry(x *specimen, way string, m *message) {
	s.t.Helper()
	edit := map[string]any{"payload": m.Payload, "key_json": m.KeyJSON}
	switch way {
	case plain:
		s.call(http.MethodPost, "/api/v1/dlq/messages/"+m.ID+"/retry", nil, http.StatusOK, nil)
		return
	case same:
	default:
		edit["payload"], edit["key_json"] = x.merged(m.Payload, x.edit), x.merged(m.KeyJSON, x.edit)
	}
	if way == latest {
		edit["schema"] = "latest"
	}
	s.call(http.MethodPost, "/api/v1/dlq/messages/"+m.ID+"/retry", map[string]any{"edit": edit}, http.StatusOK, nil)
}

// merged returns the JSON value with the changes of an edit: members of the edit replace members of the value.
func (x *specimen) merged(text json.RawMessage, edit string) any {
	value, changes := parse(text), parse([]byte(edit))
	return merge(value, changes, x.format == official.Protobuf)
}

func merge(value, changes any, nullRemoves bool) any {
	members, isObject := value.(map[string]any)
	changed, areMembers := changes.(map[string]any)
	if !isObject || !areMembers {
		return changes
	}
	members = maps.Clone(members)
	for name, v := range changed {
		if v == nil && nullRemoves {
			delete(members, name)
		} else {
			members[name] = v
		}
	}
	return members
}

// readSent finds, for each message, the record that the retry of the message sent to the original topic.
func (s *site) readSent(all []*specimen) {
	s.t.Helper()
	messages, count := map[string]*message{}, map[string]int{}
	for _, x := range all {
		for way, m := range x.messages {
			messages[x.id(way)] = m
			count[x.topic]++
		}
	}
	for topic, n := range count {
		for _, r := range s.consume(topic, n) {
			messages[string(header(r, "specimen"))].sent = r
		}
	}
}

func header(r *kgo.Record, name string) []byte {
	for _, h := range r.Headers {
		if h.Key == name {
			return h.Value
		}
	}
	return nil
}

// decode lets the official decoder read the values that the official encoders wrote and the values that dlq-manager
// encoded.
func decode(t *testing.T, python *official.PythonClient, all []*specimen) {
	t.Helper()
	var questions []official.DecodeRequest
	var take []func(value any)
	for _, x := range all {
		if x.onlyNode {
			continue
		}
		for _, p := range x.parts() {
			questions = append(questions, x.question(p, p.encoded.Value, p.encoded.Headers))
			take = append(take, func(value any) { p.decoded = x.named(value) })
			for way, m := range x.messages {
				if way != edited && way != latest {
					continue
				}
				data := m.sent.Value
				if p.part == official.Key {
					data = m.sent.Key
				}
				var headers []official.RecordHeader
				for _, h := range m.sent.Headers {
					headers = append(headers, official.RecordHeader{Name: h.Key, Value: h.Value})
				}
				question := x.question(p, data, headers)
				if x.reader != "" {
					question.Schema = x.reader
				}
				questions = append(questions, question)
				take = append(take, func(value any) { p.edited[way] = x.named(value) })
			}
		}
	}
	for i, d := range check.Must(python.Decode(t.Context(), questions...))(t) {
		if d.Error != "" {
			t.Errorf("official decoder: %s %s: %s", questions[i].Topic, questions[i].Part, d.Error)
			continue
		}
		take[i](parse(d.Value))
	}
}

func (x *specimen) question(p *specimenPart, data []byte, headers []official.RecordHeader) official.DecodeRequest {
	return official.DecodeRequest{
		Connection: p.question.Connection, Topic: x.topic, Part: p.part, Format: x.format, Value: data,
		Headers: headers, Schema: x.schema, References: x.references, Message: x.message,
	}
}

func (x *specimen) check(t *testing.T) {
	for way, m := range x.messages {
		if x.onlyNode {
			check.Equal(t, *m.PayloadOmitted, "schema_error", "payload_omitted")
			x.checkUnchanged(t, way, m.sent)
			continue
		}
		x.checkShown(t, &x.values, m.Payload, m.PayloadFormat, m.PayloadSchema)
		x.checkShown(t, &x.keys, m.KeyJSON, m.KeyFormat, m.KeySchema)
		switch way {
		case plain, same:
			x.checkUnchanged(t, way, m.sent)
		default:
			x.checkEdited(t, &x.values, way, m.Payload)
			x.checkEdited(t, &x.keys, way, m.KeyJSON)
		}
	}
}

// checkShown checks that the API shows the JSON that the official decoder returns, and the schema that the prefix or
// the header of the value names.
func (x *specimen) checkShown(t *testing.T, p *specimenPart, shown json.RawMessage, format string, ref *schemaRef) {
	t.Helper()
	check.Equal(t, format, formats[x.format], "format of the "+p.part)
	wantSame(t, p.part, parse(shown), p.decoded)
	want := schemaRef{
		Registry: "main", ID: ref.ID, GUID: ref.GUID, Subject: x.topic + "-" + p.part, Version: 1, LatestVersion: 1,
	}
	if x.evolved != "" {
		want.LatestVersion = 2
	}
	if x.framing == official.Header {
		want.GUID = uuid.UUID(p.encoded.Headers[0].Value[1:17]).String()
	} else {
		want.ID = int(binary.BigEndian.Uint32(p.encoded.Value[1:5]))
	}
	check.Equal(t, *ref, want, "schema of the "+p.part)
}

// checkUnchanged checks that the sent record has the dead letter's key and value, and those of its headers that name a
// schema.
func (x *specimen) checkUnchanged(t *testing.T, way string, sent *kgo.Record) {
	t.Helper()
	for _, p := range x.parts() {
		data := sent.Value
		if p.part == official.Key {
			data = sent.Key
		}
		if !bytes.Equal(data, p.encoded.Value) {
			t.Errorf("%s %s was sent as %x, want %x", way, p.part, data, p.encoded.Value)
		}
		for _, h := range p.encoded.Headers {
			if got := header(sent, h.Name); !bytes.Equal(got, h.Value) {
				t.Errorf("%s header %s was sent as %x, want %x", way, h.Name, got, h.Value)
			}
		}
	}
}

// checkEdited checks the record that a retry with an edit sent: the official decoder must read the edited JSON from it.
func (x *specimen) checkEdited(t *testing.T, p *specimenPart, way string, shown json.RawMessage) {
	t.Helper()
	want := x.merged(shown, x.edit)
	if way == latest {
		want = merge(want, parse([]byte(x.inLatest)), false)
	}
	if x.unknown != "" {
		want = merge(want, parse([]byte(x.unknown)), false)
	}
	wantSame(t, way+" "+p.part, p.edited[way], want)
}

// named changes a value that the official decoder returned: it adds the names of the branches to the values of unions,
// as dlq-manager does.
func (x *specimen) named(value any) any {
	for _, b := range x.branches {
		value = nameBranch(value, strings.Split(b.pointer, "/")[1:], b.name)
	}
	return value
}

func nameBranch(value any, path []string, name string) any {
	if len(path) == 0 {
		return map[string]any{name: value}
	}
	members := value.(map[string]any)
	members[path[0]] = nameBranch(members[path[0]], path[1:], name)
	return members
}

func parse(text []byte) (value any) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		panic(fmt.Sprintf("%v in %s", err, text))
	}
	return value
}

// wantSame compares JSON values. Numbers are the same if they have the same value, however they are written.
func wantSame(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(exact(got), exact(want)) {
		t.Errorf("%s: got  %s\nwant %s", what, check.Must(json.Marshal(got))(t), check.Must(json.Marshal(want))(t))
	}
}

// exact returns a copy of a JSON value in which every number is an exact fraction, for comparisons.
func exact(value any) any {
	switch v := value.(type) {
	case map[string]any:
		all := map[string]any{}
		for name, item := range v {
			all[name] = exact(item)
		}
		return all
	case []any:
		return check.Each(v, exact)
	case json.Number:
		if r, ok := new(big.Rat).SetString(string(v)); ok {
			return r.RatString() + " as a number"
		}
	}
	return value
}
