package schema

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// fakeRegistry answers requests with JSON, by path, and with 404 for all other paths. Package integration/registry has
// a complete registry.
type fakeRegistry struct {
	mu       sync.Mutex
	answers  map[string]any
	requests []string
	fail     func(w http.ResponseWriter, r *http.Request) bool
}

func (f *fakeRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r.URL.Path)
	answer, ok := f.answers[r.URL.Path]
	fail := f.fail
	f.mu.Unlock()
	if fail != nil && fail(w, r) {
		return
	}
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error_code":40403,"message":"Schema not found"}`))
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (f *fakeRegistry) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

func (f *fakeRegistry) failing(fail func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

type object = map[string]any

const (
	guid  = "123e4567-e89b-12d3-a456-426614174000"
	guid2 = "123e4567-e89b-12d3-a456-426614174002"

	oldAvro  = `{"type":"record","name":"Order","fields":[{"name":"status","type":{"type":"enum","name":"S","symbols":["NEW","PAYED"]}}]}`
	newAvro  = `{"type":"record","name":"Order","fields":[{"name":"status","type":{"type":"enum","name":"S","symbols":["NEW","PAID"]}},{"name":"n","type":"int","default":7}]}`
	protoOld = `syntax = "proto3"; message Other {} message Order { string id = 1; }`
	protoNew = `syntax = "proto3"; message Order { string id = 1; int32 n = 2; } message Other {}`
)

func newFake() *fakeRegistry {
	avro := func(id, version int, text, guid string) object {
		return object{"subject": "orders-value", "id": id, "version": version, "schema": text, "guid": guid}
	}
	f := &fakeRegistry{answers: map[string]any{}}
	f.answers["/schemas/ids/1"] = avro(1, 1, oldAvro, guid)
	f.answers["/schemas/ids/2"] = avro(2, 2, newAvro, guid2)
	f.answers["/schemas/guids/"+guid] = avro(1, 1, oldAvro, guid)
	f.answers["/schemas/ids/1/versions"] = []object{{"subject": "copies-value", "version": 4}, {"subject": "orders-value", "version": 1}}
	f.answers["/subjects/orders-value/versions/latest"] = avro(2, 2, newAvro, guid2)
	f.answers["/schemas/ids/3"] = object{"schemaType": "PROTOBUF", "schema": protoOld}
	f.answers["/schemas/ids/4"] = object{"schemaType": "PROTOBUF", "schema": protoNew}
	f.answers["/subjects/protos-value/versions/latest"] = object{"subject": "protos-value", "id": 4, "version": 2, "schemaType": "PROTOBUF", "schema": protoNew}
	f.answers["/schemas/ids/5"] = object{"schemaType": "JSON", "schema": `{"type":"object","properties":{"n":{"type":"integer"}}}`}
	f.answers["/schemas/ids/6"] = object{"schema": `{"type":"record"`}
	f.answers["/schemas/ids/7"] = object{
		"schema": `{"type":"record","name":"A","fields":[{"name":"b","type":"B"}]}`, "references": []object{{"name": "B", "subject": "b", "version": 3}},
	}
	f.answers["/subjects/b/versions/3"] = object{"subject": "b", "id": 8, "version": 3, "schema": `{"type":"record","name":"B","fields":[{"name":"x","type":"int"}]}`}
	f.answers["/subjects/legacy/versions/latest"] = object{"subject": "legacy", "id": 1, "version": 1, "schema": oldAvro}
	return f
}

type fixture struct {
	*Decoder
	fake    *fakeRegistry
	url     string
	metrics *prometheus.Registry
}

func open(t *testing.T, change ...func(*Config)) *fixture {
	t.Helper()
	f := &fixture{fake: newFake()}
	server := httptest.NewServer(f.fake)
	t.Cleanup(server.Close)
	f.url = server.URL
	cfg := DefaultConfig()
	cfg.Timeout = 30 * time.Second // for busy machines
	cfg.Registries = []RegistryConfig{{Name: "main", URL: server.URL}}
	for _, c := range change {
		c(&cfg)
	}
	check.NoError(t, cfg.Validate())
	f.Decoder = check.Must(New(cfg, prometheus.NewRegistry()))(t)
	return f
}

func framed(id uint32, data ...byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, id), data...)
}

func message(value []byte, headers ...entity.Header) *entity.Message {
	return &entity.Message{
		OriginalTopic: "orders", Source: entity.Source{Topic: "orders.dlq.v1"}, Record: entity.Record{Value: value, Headers: headers},
	}
}

func (f *fixture) decode(t *testing.T, m *entity.Message) entity.Decoded {
	t.Helper()
	return f.Reader(t.Context()).Decode(m, entity.ValuePart, 1<<20)
}

func TestDecodeByFormatAndFrame(t *testing.T) {
	t.Parallel()
	raw := check.Must(uuid.Parse(guid))(t)
	header := entity.Header{Key: "__value_schema_id", Value: append([]byte{1}, raw[:]...)}
	for _, tt := range []struct {
		name   string
		m      *entity.Message
		format entity.Format
		want   string
	}{
		{"AvroWithPrefix", message(framed(1, 2)), entity.Avro, `{"status":"PAYED"}`},
		{"AvroWithHeader", message([]byte{2}, header), entity.Avro, `{"status":"PAYED"}`},
		{"AvroWithReference", message(framed(7, 2)), entity.Avro, `{"b":{"x":1}}`},
		{"ProtobufSecondMessage", message(framed(3, append([]byte{2, 2}, "\x0a\x01x"...)...)), entity.Protobuf, `{"id":"x"}`},
		{"ProtobufFirstMessage", message(framed(4, append([]byte{0}, "\x0a\x01x"...)...)), entity.Protobuf, `{"id":"x"}`},
		{"JSONSchema", message(framed(5, []byte(`{"n":1}`)...)), entity.JSONSchema, `{"n":1}`},
		{"PlainJSON", message([]byte(`{"n":1}`)), entity.NoFormat, ``},
		{"Text", message([]byte("text")), entity.NoFormat, ``},
		{"Null", message(nil), entity.NoFormat, ``},
		{"OtherHeader", message([]byte(`{}`), entity.Header{Key: "__value_schema_id", Value: []byte("7")}), entity.NoFormat, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := open(t).decode(t, tt.m)
			check.True(t, d.Format == tt.format && string(d.JSON) == tt.want && d.Omitted == "", "got %+v, JSON %s", d, d.JSON)
		})
	}
	var none *Decoder
	check.Equal(t, none.Reader(t.Context()).Decode(message(framed(1, 2)), entity.ValuePart, 9), entity.Decoded{}, "without a registry")
}

func TestKeyAndTopicWithoutFrames(t *testing.T) {
	t.Parallel()
	f := open(t, func(c *Config) {
		c.Topics = []TopicConfig{{Topic: "legacy", Registry: "main", Subject: "legacy"}, {Topic: "legacy", Part: "key", Registry: "main", Subject: "legacy"}, {Topic: "protos", Registry: "main", Subject: "protos-value"}}
	})
	m := message([]byte{0})
	m.OriginalTopic, m.Record.Key = "legacy", []byte{2}
	check.Equal(t, string(f.decode(t, m).JSON), `{"status":"NEW"}`, "value")
	check.Equal(t, string(f.Reader(t.Context()).Decode(m, entity.KeyPart, 99).JSON), `{"status":"PAYED"}`, "key")
	check.Equal(t, f.decode(t, message([]byte{2})).Format, entity.NoFormat, "format of another topic")

	m = message([]byte("\x0a\x01x\x10\x01"))
	m.OriginalTopic = "protos"
	check.Equal(t, string(f.decode(t, m).JSON), `{"id":"x","n":1}`, "Protobuf")
}

func TestWhyThereIsNoJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		value            []byte
		omitted, reasons string
		temporary        bool
	}{
		{"UnknownID", framed(99, 1), entity.SchemaUnavailable, "schema 99 of registry main: the registry does not have it", false},
		{"InvalidSchema", framed(6, 1), entity.SchemaError, "parse the Avro schema", false},
		{"InvalidData", framed(1, 9), entity.SchemaError, "$.status: the enum does not have the symbol", false},
		{"DataIsLeft", framed(1, 2, 2), entity.SchemaError, "1 bytes are left", false},
		{"NoIndexes", framed(3), entity.SchemaError, "message indexes", false},
		{"NotJSON", framed(5, '{'), entity.SchemaError, "is not JSON", false},
	} {
		d := open(t).decode(t, message(tt.value))
		check.True(t, d.JSON == nil && d.Omitted == tt.omitted && strings.Contains(d.Reason, tt.reasons) && d.Temporary == tt.temporary, "%s: got %+v", tt.name, d)
	}
}

func TestSubjectAndVersions(t *testing.T) {
	t.Parallel()
	f := open(t)
	m := message(framed(1, 2))
	d := f.decode(t, m)
	f.Reader(t.Context()).Complete(m, entity.ValuePart, &d)
	check.Equal(t, d.Schema, entity.SchemaRef{Registry: "main", ID: 1, Subject: "orders-value", Version: 1, LatestVersion: 2}, "schema")
	c, ok, err := f.Compare(t.Context(), m, entity.ValuePart, nil)
	check.True(t, ok && err == nil && c.Writer == oldAvro && c.Latest == newAvro, "got %+v, %v", c, err)
}

// A record can name any schema of the registry. Callers who may see only some topics must not read others' schemas
// through it: neither texts, nor names of subjects, nor what an error quotes of them.
func TestForeignSchemasAreNotShown(t *testing.T) {
	t.Parallel()
	const all, none = "", "-"
	for name, tt := range map[string]struct {
		strategy, original, dlq, visible string
		registryTopics                   []string
		want                             string // subject that the caller learns; "" for none
	}{
		"Everything":              {"", "payments", "payments.dlq", all, nil, "copies-value"},
		"ItsOriginalTopic":        {"", "orders", "x.dlq", "orders", nil, "orders-value"},
		"ItsDeadLetterTopic":      {"", "x", "orders", "^x$ orders", nil, "orders-value"},
		"DeadLetterTopicOfOthers": {"", "x", "orders", "x*", nil, ""},
		"ClaimedTopicOfOthers":    {"", "orders", "x.dlq", "x*", nil, ""},
		"ForgedID":                {"", "payments", "payments.dlq", "payments*", nil, ""},
		"NoRight":                 {"", "orders", "orders", none, nil, ""},
		"TopicAndRecord":          {"topic_record_name", "orders", "orders.dlq", "orders", nil, "orders-Order"},
		"TopicAndRecordForged":    {"topic_record_name", "payments", "payments.dlq", "payments*", nil, ""},
		"RecordOfAll":             {"record_name", "orders", "orders.dlq", "orders*", nil, ""},
		"RecordOfItsTopics":       {"record_name", "orders", "orders.dlq", "orders*", []string{"orders*"}, "Order"},
		"RecordOfNamedTopics":     {"record_name", "orders", "orders.dlq", "^o.*$", []string{"orders", "others"}, "Order"},
		"RecordOfMoreTopics":      {"record_name", "orders", "orders.dlq", "orders*", []string{"orders*", "payments*"}, ""},
		"RecordOfWiderTopics":     {"record_name", "orders", "orders.dlq", "orders", []string{"orders*"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, func(c *Config) {
				c.Registries[0].SubjectStrategy, c.Registries[0].Topics = tt.strategy, tt.registryTopics
			})
			f.fake.answers["/schemas/ids/1/versions"] = []object{
				{"subject": "copies-value", "version": 4}, {"subject": "orders-value", "version": 1}, {"subject": "Order", "version": 1}, {"subject": "orders-Order", "version": 1},
			}
			f.fake.answers["/schemas/ids/9"] = object{"schema": `{"type":"record","name":"Top","fields":[{"name":"a","type":"Secret"}]}`}
			visible := &entity.TopicPatterns{}
			if tt.visible == all {
				visible = nil
			} else if tt.visible != none {
				*visible = check.Must(entity.ParseTopicPatterns("topics", strings.Fields(tt.visible)...))(t)
			}
			m := message(framed(1, 2))
			m.OriginalTopic, m.Source.Topic = tt.original, tt.dlq
			d := f.decode(t, m)
			f.ReaderFor(t.Context(), visible).Complete(m, entity.ValuePart, &d)
			c, ok, err := f.Compare(t.Context(), m, entity.ValuePart, visible)
			check.True(t, ok && err == nil && d.Schema.Subject == tt.want && c.Schema.Subject == tt.want, "got %q, %+v, %v, want subject %q", d.Schema.Subject, c, err, tt.want)
			check.True(t, c.Format == entity.Avro && c.Schema.ID == 1 && (c.Writer == "") == (tt.want == "") && (c.Hidden == "") == (tt.want != "") && (tt.want != "" || c.Latest == ""), "got %+v", c)
			m.Record.Value = framed(9, 2)
			d = f.decode(t, m)
			f.ReaderFor(t.Context(), visible).Complete(m, entity.ValuePart, &d)
			c, _, err = f.Compare(t.Context(), m, entity.ValuePart, visible)
			check.True(t, err == nil && (visible == nil) == strings.Contains(d.Reason+c.Fault+c.Writer, "Secret"), "got %q and %+v, %v", d.Reason, c, err)
		})
	}
}

// Two names of one registry in the configuration do not make its schemas the topics' of one of them.
func TestForeignSchemasOfARegistryWithTwoNames(t *testing.T) {
	t.Parallel()
	f := open(t, func(c *Config) {
		r := c.Registries[0]
		c.Registries = []RegistryConfig{{Name: "a", URL: r.URL + "/", Topics: []string{"orders*"}, SubjectStrategy: "record_name"}, {Name: "b", URL: r.URL, Topics: []string{"payments*"}}}
	})
	f.fake.answers["/schemas/ids/1/versions"] = []object{{"subject": "Order", "version": 1}}
	visible := check.Must(entity.ParseTopicPatterns("topics", "orders*"))(t)
	c, _, err := f.Compare(t.Context(), message(framed(1, 2)), entity.ValuePart, &visible)
	check.True(t, err == nil && c.Hidden != "" && c.Writer == "", "got %+v, %v", c, err)
}

// Some clients write Protobuf values without valid message indexes. Such a value does not name its message type, but
// its subject is found.
func TestSubjectOfProtobufWithoutIndexes(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.fake.answers["/schemas/ids/3/versions"] = []object{{"subject": "protos-value", "version": 1}}
	for _, data := range [][]byte{nil, {8, 5}, {2, 40}} {
		m := message(framed(3, data...))
		d := f.decode(t, m)
		f.Reader(t.Context()).Complete(m, entity.ValuePart, &d)
		check.True(t, d.Omitted == entity.SchemaError && d.Schema.Subject == "protos-value" && d.Schema.LatestVersion == 2, "%x: got %+v", data, d)
		_, ok, err := f.Compare(t.Context(), m, entity.ValuePart, nil)
		check.True(t, ok && err == nil, "%x: Compare = %v, %v", data, ok, err)
	}
}

// A registry fails if it does not answer in time, redirects, or gives an invalid answer. After three such answers to
// different questions, it gets no further request for some time.
func TestRegistryThatFails(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	for name, fail := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"Closed":       func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		"Unauthorized": func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusUnauthorized); return true },
		"Broken": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		},
		"Garbage": func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write([]byte("<html>")); return true },
		"Redirect": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
			return true
		},
		"Silent": func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, func(c *Config) { c.Timeout = 100 * time.Millisecond })
			f.fake.failing(fail)
			down := func() bool { return f.registries[0].health.down() == 1 }
			for id := range uint32(50) {
				d := f.decode(t, message(framed(id+1, 2)))
				check.True(t, d.Omitted == entity.SchemaUnavailable && d.Temporary && d.Reason != "", "got %+v", d)
				if id == downQuestions-1 { // the reader may have returned before its request failed
					check.Eventually(t, "the registry counts as down", down)
				}
			}
			check.Equal(t, f.fake.count(), downQuestions, "requests")
			f.fake.failing(nil)
			health := f.registries[0].health
			health.mu.Lock()
			health.next = time.Time{}
			health.mu.Unlock()
			check.Eventually(t, "it is asked again", func() bool { return f.decode(t, message(framed(7, 2))).JSON != nil })
		})
	}
}

// An answer that is too large does not count as a failure of the registry. It is requested again after a minute,
// because it may have been wrong.
func TestAnswerThatIsTooLarge(t *testing.T) {
	t.Parallel()
	hour(t, func(t *testing.T, f *fixture) {
		f.fake.answers["/schemas/ids/9"] = object{"schema": strings.Repeat(" ", 3<<20)}
		f.wantUnavailable(t, "alpha", 9, false, "too large")
		f.wantDecoded(t, "alpha", 1, "the registry works")
		f.fake.answers["/schemas/ids/9"] = object{"schema": oldAvro}
		f.wantUnavailable(t, "alpha", 9, false, "too large")
		check.Equal(t, f.asked(), ids(9, 1), "requests for two ids")
		pass(unknownAge)
		f.wantDecoded(t, "alpha", 9, "after a minute")
	})
}

// An answer without a schema, which a proxy may give, counts as a failure: the schema is requested again after a second.
func TestAnswerWithoutSchema(t *testing.T) {
	t.Parallel()
	raw := check.Must(uuid.Parse(guid))(t)
	for path, m := range map[string]*entity.Message{
		"/schemas/ids/1":         message(framed(1, 2)),
		"/schemas/guids/" + guid: message([]byte{2}, entity.Header{Key: "__value_schema_id", Value: append([]byte{1}, raw[:]...)}),
		"/subjects/b/versions/3": message(framed(7, 2)),
	} {
		hour(t, func(t *testing.T, f *fixture) {
			right := f.fake.answers[path]
			f.fake.answers[path] = object{"id": 1}
			d := f.decode(t, m)
			check.True(t, d.Omitted == entity.SchemaUnavailable && d.Temporary, "%s: got %+v", path, d)
			f.fake.answers[path] = right
			check.True(t, f.decode(t, m).JSON == nil, "%s is asked for again at once", path)
			pass(firstPause)
			check.True(t, f.decode(t, m).JSON != nil, "%s is not asked for again", path)
		})
	}
}

func TestReferencesThatNeverEnd(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.registries[0].limiter.SetLimit(1e6)
	for i := range 300 {
		f.fake.answers[fmt.Sprintf("/subjects/r%d/versions/1", i)] = object{
			"id": 1000 + i, "version": 1, "schema": "{}", "references": []object{{"name": "x", "subject": fmt.Sprintf("r%d", i+1), "version": 1}},
		}
	}
	f.fake.answers["/schemas/ids/9"] = object{"schema": "{}", "references": []object{{"name": "x", "subject": "r0", "version": 1}}}
	d := f.decode(t, message(framed(9, 1)))
	check.True(t, d.Omitted == entity.SchemaError && strings.Contains(d.Reason, "references"), "got %+v", d)
}

// A known id is requested only once, and an unknown id once a minute.
func TestLookupsAreFew(t *testing.T) {
	t.Parallel()
	hour(t, func(t *testing.T, f *fixture) {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				f.decode(t, message(framed(1, 2)))
				f.decode(t, message(framed(99, 2)))
			})
		}
		all.Wait()
		check.Len(t, f.asked(), 2, "requests for two ids")
		pass(unknownAge)
		f.decode(t, message(framed(99, 2)))
		f.decode(t, message(framed(1, 2)))
		check.Equal(t, f.asked(), ids(99), "requests after a minute")
		a := asker{f.registries[0], "alpha"}
		for id, want := range map[int]error{1: nil, 99: errUnknown} {
			a.cache = newCache(cacheSize)
			_, err := a.byID(lateCaller{t.Context(), sync.OnceFunc(func() { _, _ = a.byID(t.Context(), id) })}, id)
			check.True(t, errors.Is(err, want), "id %d: %v, want %v", id, err, want)
			check.Equal(t, f.asked(), ids(id), "requests of two callers")
		}
	})
}

// lateCaller is the context of a caller that finds nothing in the cache, and goes on after the function other has
// looked the value up.
type lateCaller struct {
	context.Context
	other func()
}

func (c lateCaller) Err() error {
	c.other()
	return c.Context.Err()
}

func TestTenLookupsASecond(t *testing.T) {
	t.Parallel()
	hour(t, func(t *testing.T, f *fixture) {
		a := asker{f.registries[0], "alpha"}
		began, asked := time.Now(), 0
		for i := range 600 {
			check.NoError(t, check.Err(request(t.Context(), a, fmt.Sprint(i), func(context.Context) (int, error) { asked++; return 0, nil })))
		}
		perSecond := float64(asked) / time.Since(began).Seconds()
		check.True(t, asked == 600 && perSecond < 10.5, "%.1f requests a second", perSecond)
	})
}

func TestRegistryIsChosenByTopic(t *testing.T) {
	t.Parallel()
	f := open(t, func(c *Config) {
		c.Registries = []RegistryConfig{
			{Name: "dlq", URL: c.Registries[0].URL, Topics: []string{"*.dlq.v1"}}, {Name: "orders", URL: c.Registries[0].URL, Topics: []string{"orders"}},
		}
	})
	for topic, want := range map[string]string{"orders": "orders", "": "dlq", "payments": "dlq"} {
		m := message(framed(1, 2))
		m.OriginalTopic = topic
		check.Equal(t, f.decode(t, m).Schema.Registry, want, "registry of %q", topic)
	}
	m := message(framed(1, 2))
	m.OriginalTopic, m.Source.Topic = "x", "y"
	check.Equal(t, f.decode(t, m).Format, entity.NoFormat, "format without a registry")
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	check.NoError(t, os.WriteFile(file, []byte("s3cret\n"), 0o600))
	for want, change := range map[string]func(*RegistryConfig){
		"Bearer s3cret": func(c *RegistryConfig) { c.TokenFile = file },
		"Basic " + base64.StdEncoding.EncodeToString([]byte("dlq:s3cret")): func(c *RegistryConfig) { c.Username, c.PasswordFile = "dlq", file },
	} {
		f := open(t, func(c *Config) { change(&c.Registries[0]) })
		got := make(chan string, 9)
		f.fake.failing(func(_ http.ResponseWriter, r *http.Request) bool { got <- r.Header.Get("Authorization"); return false })
		f.decode(t, message(framed(1, 2)))
		check.Equal(t, <-got, want, "Authorization")
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	raw := check.Must(uuid.Parse(guid))(t)
	raw2 := check.Must(uuid.Parse(guid2))(t)
	header := entity.Header{Key: "__value_schema_id", Value: append([]byte{1}, raw[:]...)}
	latest := entity.EncodeTarget{Schema: entity.LatestSchema}
	odd := framed(1, 0x82, 0x80, 0x00) // the number 1, which stands for a symbol, in more bytes than encoders write
	withExtra := framed(3, append([]byte{2, 2}, "\x0a\x01x\x9a\x06\x01u"...)...)
	for _, tt := range []struct {
		name   string
		m      *entity.Message
		text   string
		to     entity.EncodeTarget
		want   []byte
		header []byte
	}{
		{"Changed", message(framed(1, 2)), `{"status":"NEW"}`, entity.EncodeTarget{}, framed(1, 0), nil},
		{"UnchangedKeepsItsBytes", message(odd), ` { "status" : "PAYED" } `, entity.EncodeTarget{}, odd, nil},
		{"Latest", message(framed(1, 2)), `{"status":"PAID"}`, latest, framed(2, 2, 14), nil},
		{"LatestOfTheTarget", message(framed(1, 2)), `{"status":"PAID"}`, entity.EncodeTarget{Topic: "orders", Schema: entity.LatestSchema}, framed(2, 2, 14), nil},
		{"Header", message([]byte{2}, header), `{"status":"NEW"}`, entity.EncodeTarget{}, []byte{0}, nil},
		{"HeaderLatest", message([]byte{2}, header), `{"status":"PAID"}`, latest, []byte{2, 14}, append([]byte{1}, raw2[:]...)},
		{"ProtobufKeepsUnknownFields", message(withExtra), `{"id":"y"}`, entity.EncodeTarget{}, framed(3, append([]byte{2, 2}, "\x0a\x01y\x9a\x06\x01u"...)...), nil},
		{
			"ProtobufLatestFindsTheMessage", message(framed(3, append([]byte{2, 2}, "\x0a\x01x"...)...)), `{"id":"x","n":1}`,
			entity.EncodeTarget{Topic: "protos", Schema: entity.LatestSchema},
			framed(4, append([]byte{0}, "\x0a\x01x\x10\x01"...)...), nil,
		},
		{"JSONSchema", message(framed(5, []byte(`{"n":1}`)...)), `{"n":2}`, entity.EncodeTarget{}, framed(5, []byte(`{"n":2}`)...), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e, ok, err := open(t).Encode(t.Context(), tt.m, entity.ValuePart, []byte(tt.text), tt.to, "payload")
			check.True(t, ok && err == nil, "got %v, %v", ok, err)
			check.Equal(t, e.Data, tt.want, "data")
			check.True(t, (e.Header == nil) == (tt.header == nil), "header %v", e.Header)
			if e.Header != nil {
				check.Equal(t, e.Header.Value, tt.header, "header")
			}
		})
	}
}

func TestEncodeSaysWhyNot(t *testing.T) {
	t.Parallel()
	f := open(t)
	encode := func(m *entity.Message, text string, to entity.EncodeTarget) (bool, error) {
		_, ok, err := f.Encode(t.Context(), m, entity.ValuePart, []byte(text), to, "edit.payload")
		return ok, err
	}
	for _, tt := range []struct{ text, topic, want string }{
		{`{"status":"PAID"}`, "", "edit.payload: $.status: must be one of the enum's symbols: NEW, PAYED"},
		{`{"status":"NEW"}`, "others", "edit.payload: $: registry main has no subject others-value"},
	} {
		to := entity.EncodeTarget{Topic: tt.topic}
		if tt.topic != "" {
			to.Schema = entity.LatestSchema
		}
		_, err := encode(message(framed(1, 2)), tt.text, to)
		invalid := check.As[*entity.FieldError](t, err, tt.text)
		check.Equal(t, invalid.Field+": "+invalid.Reason, tt.want, tt.text)
	}
	_, err := encode(message(framed(5, []byte(`{"n":1}`)...)), `{"n":"x"}`, entity.EncodeTarget{})
	check.Says(t, err, "$.n: does not fit the JSON Schema", "JSON Schema")
	_, err = encode(message(framed(1, make([]byte, 256<<10+1)...)), `{"status":"NEW"}`, entity.EncodeTarget{})
	check.Says(t, err, "larger than the limit", "an Avro value of more than 256 KiB")
	ok, err := encode(message([]byte(`{}`)), `{}`, entity.EncodeTarget{})
	check.True(t, !ok && err == nil, "plain JSON: got %v, %v", ok, err)

	f.fake.failing(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true })
	_, err = encode(message(framed(2, 2)), `{}`, entity.EncodeTarget{})
	check.True(t, errors.Is(err, entity.ErrUnavailable), "registry down: got %v", err)
}

func TestReaderEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := f.Reader(ctx).Decode(message(framed(1, 2)), entity.ValuePart, 99)
	check.True(t, d.Temporary && f.fake.count() == 0, "got %+v after %d requests", d, f.fake.count())
}

func TestConfig(t *testing.T) {
	t.Parallel()
	valid := RegistryConfig{Name: "main", URL: "https://registry:8081"}
	with := func(change func(*RegistryConfig)) Config {
		c := valid
		change(&c)
		return Config{Timeout: time.Second, MaxBytes: 1 << 20, Registries: []RegistryConfig{c}}
	}
	for want, c := range map[string]Config{
		"timeout":                    {Timeout: time.Hour},
		"max_bytes":                  {MaxBytes: 100},
		"registries[0].name":         with(func(c *RegistryConfig) { c.Name = "" }),
		"registries[1].name":         {Timeout: time.Second, Registries: []RegistryConfig{valid, valid}},
		"registries[0].url":          with(func(c *RegistryConfig) { c.URL = "ftp://x" }),
		"without user":               with(func(c *RegistryConfig) { c.URL = "http://u:p@x" }),
		"registries[0].topics":       with(func(c *RegistryConfig) { c.Topics = []string{"^("} }),
		"need each other":            with(func(c *RegistryConfig) { c.Username = "u" }),
		"token_file excludes":        with(func(c *RegistryConfig) { c.TokenFile, c.Username, c.PasswordFile = "f", "u", "f" }),
		"subject_strategy":           with(func(c *RegistryConfig) { c.SubjectStrategy = "x" }),
		"schemas.topics[0].registry": {Timeout: time.Second, Topics: []TopicConfig{{Topic: "t", Registry: "x", Subject: "s"}}},
		"schemas.topics[0].part":     {Timeout: time.Second, Registries: []RegistryConfig{valid}, Topics: []TopicConfig{{Topic: "t", Part: "p", Registry: "main", Subject: "s"}}},
	} {
		check.Says(t, c.Validate(), want, "error")
	}
	check.NoError(t, with(func(*RegistryConfig) {}).Validate())
}
