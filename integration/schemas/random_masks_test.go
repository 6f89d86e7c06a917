package schemas_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dlq-manager/dlq-manager/integration/registry/official"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// randomMasks are the masked paths of TestMaskedFieldsAreNowhereWhateverTheSchema.
const randomMasks = `[$.card.number, $.ssn, $.secrets, "$.list[*].pin", $.next.ssn, $.note.card]`

// randomCases is how many schemas of each format the test makes.
const randomCases = 8

// Whatever a schema does with the name of a masked field, a branch of a union, an alias, a json_name, a map, an import,
// JSON within a string: no surface shows a viewer, an operator or somebody with the role edit its value, and neither a
// search, a facet nor a patch finds it. Those with the role unmask find it by the path of the mask.
func TestMaskedFieldsAreNowhereWhateverTheSchema(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, seed))
	tokens := tokensFile(t, map[string][]string{"admin": {"admin", "unmask"}, "viewer": {"viewer"}, "operator": {"operator"}, "editor": {"operator", "edit"}})
	s := newSite(t, fmt.Sprintf("masking: {payload: %s}\nauth: {mode: token, tokens_file: %q}\n", randomMasks, tokens))
	source, dead := s.topic("random"), s.topic("random.dlq.v1")
	n := 0
	send := func(key, value []byte) {
		s.produce(&kgo.Record{Topic: dead, Key: key, Value: value, Headers: []kgo.RecordHeader{{Key: "kafka_dlt-original-topic", Value: []byte(source)}}})
		n++
	}
	for i := range randomCases {
		subject := fmt.Sprintf("%s-%d", source, i)
		schema, value := randomAvro(r)
		encoded := framed(s.register(subject+"-avro", official.Avro, schema, nil), check.Must(check.Must(avro.Parse(schema))(t).Encode(value))(t))
		send(encoded, encoded)
		schema, encoded = randomProto(r)
		encoded = framed(s.register(subject+"-proto", official.Protobuf, schema, nil), append([]byte{0}, encoded...))
		send(encoded, encoded)
		text := randomJSON(r)
		send([]byte(text), framed(s.register(subject+"-json", official.JSON, `{"type": "object"}`, nil), []byte(text)))
		send([]byte(text), []byte(text))
		quoted := check.Must(json.Marshal(text))(t)
		send(quoted, quoted)
	}
	s.start("ingester")
	s.start("api")
	s.token = tokenOf("admin")
	var found []map[string]any
	check.Eventually(t, "all messages are indexed and found by their topic", func() bool {
		found = s.pages("/api/v1/messages?unmask=true&topic="+source, "messages")
		return len(found) == n && len(s.pages("/api/v1/messages?payload=%24.open", "messages")) == n-randomCases
	})
	secrets := 0
	for _, m := range found {
		places := secretPlaces(m["payload"], "$", "")
		secrets += len(places)
		check.True(t, len(places) > 0, "the payload has no secret: %v", m["payload"])
		for _, who := range []string{"viewer", "operator", "editor"} {
			s.token = tokenOf(who)
			s.wantNoSecret(m, places, who)
		}
	}
	t.Logf("%d messages with %d secrets", n, secrets)
	s.token = tokenOf("admin")
	byMask := 0
	for _, path := range []string{"$.card.number", "$.ssn"} {
		byMask += len(s.pages("/api/v1/messages?payload="+url.QueryEscape(path), "messages"))
	}
	check.True(t, byMask > n/2, "the paths of the masks find %d of %d messages", byMask, n)
	for _, who := range []string{"viewer", "operator", "editor"} {
		s.token = tokenOf(who)
		for _, path := range []string{
			"/api/v1/messages?topic=" + source, "/api/v1/export?topic=" + source, "/api/v1/export?format=csv&topic=" + source,
			"/api/v1/messages/facets?by=key&by=$.open&topic=" + source, "/messages?topic=" + source,
		} {
			status, body := s.get(path)
			check.Equal(t, status, http.StatusOK, "status of "+path)
			check.True(t, !leaks(body), "%s sees a secret at %s: %s", who, path, around(body))
		}
		check.Equal(t, len(s.pages("/api/v1/messages?q="+hidden, "messages")), 0, "messages found by a secret")
	}
}

// place is where a decoded payload has a secret.
type place struct{ path, pointer, secret string }

// secretPlaces returns the places in JSON that have a secret.
func secretPlaces(v any, path, pointer string) (all []place) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			all = append(all, secretPlaces(inner, path+"['"+name+"']", pointer+"/"+escaped)...)
			if leaks([]byte(name)) {
				all = append(all, place{path, pointer, name})
			}
		}
	case []any:
		for i, inner := range v {
			all = append(all, secretPlaces(inner, path+"[*]", pointer+"/"+strconv.Itoa(i))...)
		}
	case string:
		if leaks([]byte(v)) {
			all = append(all, place{path, pointer, v})
		}
	}
	return all
}

func (s *site) wantNoSecret(m map[string]any, places []place, who string) {
	s.t.Helper()
	id := m["id"].(string)
	for _, path := range []string{"/api/v1/dlq/messages/" + id, "/messages/" + id, "/messages/" + id + "/edit", "/messages/" + id + "/schema"} {
		_, body := s.get(path)
		check.True(s.t, !leaks(body), "%s sees a secret at %s: %s, of %v", who, path, around(body), m["payload"])
	}
	key, _ := m["key"].(map[string]any)
	data, _ := key["data"].(string)
	condition := url.Values{"key": {data}}
	if key["encoding"] == "base64" {
		condition = url.Values{"key_base64": {data}}
	}
	s.wantNotFound(condition, who, m)
	if decoded, ok := m["key_json"]; ok && decoded != nil {
		s.wantNotFound(url.Values{"key": {string(check.Must(json.Marshal(decoded))(s.t))}}, who, m)
	}
	for _, p := range places {
		s.wantNotFound(url.Values{"payload": {p.path + "=" + string(check.Must(json.Marshal(p.secret))(s.t))}}, who, m)
		_, body := s.get("/api/v1/messages/facets?by=" + url.QueryEscape(p.path))
		check.True(s.t, !leaks(body) || leaks([]byte(p.path)), "%s sees a secret in a facet of %s: %s", who, p.path, around(body))
		if who != "editor" || p.pointer == "" {
			continue
		}
		for _, patch := range []string{
			fmt.Sprintf(`[{"op":"test","path":%q,"value":%q},{"op":"add","path":"/open","value":"x"}]`, p.pointer, p.secret),
			fmt.Sprintf(`[{"op":"copy","from":%q,"path":"/open"}]`, p.pointer),
			fmt.Sprintf(`[{"op":"copy","from":%q,"path":"/open"}]`, p.pointer[:strings.LastIndex(p.pointer, "/")]),
		} {
			order := fmt.Sprintf(`{"ids":[%q],"dry_run":true,"patch":%s}`, id, patch)
			_, body := s.send(http.MethodPost, "/api/v1/redrives", strings.NewReader(order))
			check.True(s.t, !leaks(body) || leaks([]byte(p.pointer)), "%s sees a secret by the patch %s: %s", who, patch, around(body))
			var preview struct{ Sendable int }
			check.True(s.t, json.Unmarshal(body, &preview) != nil || preview.Sendable == 0, "%s may send the patch %s: %s", who, patch, body)
		}
	}
}

// wantNotFound checks that a search neither finds the message nor tells whether it could.
func (s *site) wantNotFound(condition url.Values, who string, m map[string]any) {
	s.t.Helper()
	status, body := s.get("/api/v1/messages?" + condition.Encode())
	check.True(s.t, status == http.StatusForbidden || bytes.Contains(body, []byte(`"messages":[]`)), "%s finds by %v: %d %s, of %v", who, condition, status, around(body), m["payload"])
}

// around returns the part of a text that has a secret, for errors.
func around(text []byte) string {
	at := max(0, bytes.Index(text, []byte(hidden)))
	return string(text[max(0, at-200):min(len(text), at+200)])
}

var secretNumber int

// secret returns a text that leaks recognises, and that no other call returns.
func secret() string {
	secretNumber++
	return hidden + strconv.Itoa(secretNumber)
}

func either[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

// randomAvro returns a schema with some of the masked fields under one of their names, and a value of it.
func randomAvro(r *rand.Rand) (schema string, value map[string]any) {
	called := func(name string) (string, string) { // a field with that name, or with another one of which it is an alias
		if r.IntN(2) == 0 {
			return name, fmt.Sprintf(`"name": %q`, name)
		}
		return name + "_new", fmt.Sprintf(`"name": %q, "aliases": [%q]`, name+"_new", name)
	}
	value = map[string]any{"open": "yes"}
	number, numberField := called("number")
	card := `{"type": "record", "name": "Card", "namespace": "pay", "fields": [{` + numberField + `, "type": "string"}, {"name": "open", "type": "string"}]}`
	bank := `{"type": "record", "name": "Bank", "namespace": "pay", "fields": [{"name": "iban", "type": "string"}]}`
	cardType := either(r, card, `["null", `+card+`]`, `["null", `+card+`, `+bank+`]`, `["null", `+bank+`, `+card+`, {"type": "map", "values": "string"}]`,
		`{"type": "array", "items": [`+bank+`, `+card+`]}`)
	cardValue := any(map[string]any{number: secret(), "open": "yes"})
	switch {
	case strings.HasPrefix(cardType, `{"type": "array"`):
		value["card"] = []any{map[string]any{"pay.Card": cardValue}}
	case strings.HasPrefix(cardType, "["):
		value["card"] = map[string]any{"pay.Card": cardValue}
	default:
		value["card"] = cardValue
	}
	fields := []string{`{"name": "open", "type": "string"}`, `{"name": "card", "type": ` + cardType + `}`}
	add := func(name, field, kind string, v any) {
		fields = append(fields, "{"+field+`, "type": `+kind+"}")
		value[name] = v
	}
	ssn, ssnField := called("ssn")
	switch r.IntN(3) {
	case 0:
		add(ssn, ssnField, `"string"`, secret())
	case 1:
		add(ssn, ssnField, `["null", "string", "long", "bytes"]`, map[string]any{"string": secret()})
	}
	if secrets, field := called("secrets"); r.IntN(2) == 0 {
		add(secrets, field, `{"type": "map", "values": "string"}`, map[string]any{secret(): secret()})
	}
	if list, field := called("list"); r.IntN(2) == 0 {
		pin, pinField := called("pin")
		add(list, field, `{"type": "array", "items": {"type": "record", "name": "Item", "fields": [{`+pinField+`, "type": "string"}]}}`,
			[]any{map[string]any{pin: secret()}, map[string]any{pin: secret()}})
	}
	if next, field := called("next"); r.IntN(2) == 0 {
		inner, innerField := called("ssn")
		add(next, field, `["null", {"type": "record", "name": "Next", "fields": [{`+innerField+`, "type": "string"}, {"name": "again", "type": ["null", "Next"]}]}]`,
			map[string]any{"Next": map[string]any{inner: secret(), "again": nil}})
	}
	if note, field := called("note"); r.IntN(2) == 0 {
		add(note, field, `"string"`, `{"card":"`+secret()+`","a":1}`)
	}
	return `{"type": "record", "name": "Root", "namespace": "com.acme", "fields": [` + strings.Join(fields, ", ") + `]}`, value
}

// randomProto returns a schema with some of the masked fields under one of their names, and an encoded message of it.
func randomProto(r *rand.Rand) (schema string, encoded []byte) {
	called := func(name string) string { // the declaration of a field without its type and number
		return either(r, name+` = %d`, name+` = %d [json_name = "`+name[:2]+`x"]`, name+` = %d [json_name = "other_`+name+`"]`)
	}
	text := func(to []byte, field int, v string) []byte {
		return protowire.AppendString(protowire.AppendTag(to, protowire.Number(field), protowire.BytesType), v)
	}
	card := text(text(nil, 1, secret()), 2, "yes")
	encoded = text(encoded, 1, "yes")
	encoded = text(encoded, 2, string(card))
	fields := []string{"string open = 1;"}
	if declared := fmt.Sprintf("Card "+called("card")+";", 2); r.IntN(2) == 0 {
		fields = append(fields, "oneof means { "+declared+" Bank bank = 3; }")
	} else {
		fields = append(fields, declared)
	}
	add := func(kind, name string, number int, v string) (added bool) {
		if added = r.IntN(2) == 0; added {
			fields = append(fields, fmt.Sprintf(kind+" "+called(name)+";", number))
			encoded = text(encoded, number, v)
		}
		return added
	}
	if add("string", "ssn", 4, secret()) {
		add("Root", "next", 7, string(text(nil, 4, secret())))
	}
	add("map<string, string>", "secrets", 5, string(text(text(nil, 1, secret()), 2, secret())))
	add("repeated Item", "list", 6, string(text(nil, 1, secret())))
	add("string", "note", 8, `{"card":"`+secret()+`","a":1}`)
	return `syntax = "proto3"; package com.acme; message Root { ` + strings.Join(fields, " ") + ` }
message Card { ` + fmt.Sprintf("string "+called("number")+";", 1) + ` string open = 2; }
message Bank { string iban = 1; }
message Item { ` + fmt.Sprintf("string "+called("pin")+";", 1) + ` }`, encoded
}

// randomJSON returns JSON with some of the masked fields, some of them within strings.
func randomJSON(r *rand.Rand) string {
	within := func(text string) string {
		for range r.IntN(4) {
			text = strconv.Quote(text)
		}
		return text
	}
	members := []string{`"open":"yes"`, `"card":` + within(`{"number":"`+secret()+`","open":"yes"}`)}
	for _, m := range []string{
		`"ssn":"` + secret() + `"`, `"secrets":` + within(`{"`+secret()+`":"`+secret()+`"}`), `"list":` + within(`[{"pin":"`+secret()+`"},{"pin":"`+secret()+`"}]`),
		`"next":` + within(`{"ssn":"`+secret()+`"}`), `"note":` + within(`{"card":"`+secret()+`"}`),
	} {
		if r.IntN(2) == 0 {
			members = append(members, m)
		}
	}
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(slices.Compact(members), ",") + "}"
}
