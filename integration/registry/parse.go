package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Types of schemas.
const (
	kindAvro     = "AVRO"
	kindProtobuf = "PROTOBUF"
	kindJSON     = "JSON"
)

// parse checks a submitted schema, and returns it without the id and the GUID, which only a registered schema has.
func (s *store) parse(body submission, normalize bool) (schema, error) {
	parsed := schema{kind: body.SchemaType, references: slices.Clone(body.References)}
	if parsed.kind == "" {
		parsed.kind = kindAvro
	}
	if strings.TrimSpace(body.Schema) == "" {
		return schema{}, invalid(errors.New("the schema is empty"))
	}
	if normalize {
		slices.SortFunc(parsed.references, func(a, b reference) int { return strings.Compare(a.Name, b.Name) })
	}
	used := map[string]string{}
	if err := s.collect(parsed.references, used); err != nil {
		return schema{}, err
	}
	identity, err := parsed.check(body.Schema, used, normalize)
	if err != nil {
		return schema{}, invalid(err)
	}
	parsed.key = identityKey(parsed.kind, identity, parsed.references)
	return parsed, nil
}

// check sets the text of the schema. It returns a text by which equal schemas are recognized: it is the same for all of
// them.
func (p *schema) check(text string, used map[string]string, normalize bool) (identity string, err error) {
	switch p.kind {
	case kindAvro, kindJSON:
		p.text, err = canonicalJSON(text, normalize)
		if err == nil && p.kind == kindAvro {
			err = checkAvro(p.text, used)
		}
		return p.text, err
	case kindProtobuf:
		p.text, identity, err = canonicalProtobuf(text, used, normalize)
		return identity, err
	default:
		return "", fmt.Errorf("unknown schema type %q", p.kind)
	}
}

// identityKey joins the type, the text and the references of a schema; schemas with the same key are equal.
func identityKey(kind, text string, references []reference) string {
	key, err := json.Marshal([]any{kind, text, append([]reference{}, references...)})
	if err != nil {
		panic(err) // cannot happen: texts and numbers can always be encoded
	}
	return string(key)
}

// collect adds the texts of the referenced schemas to the map into, by name, and also the texts of the schemas that
// those reference.
func (s *store) collect(references []reference, into map[string]string) error {
	for _, ref := range references {
		if _, ok := into[ref.Name]; ok {
			continue
		}
		v, err := s.version(ref.Subject, strconv.Itoa(ref.Version), true)
		if err != nil {
			return failure(http.StatusUnprocessableEntity, 42201,
				"Invalid schema: No schema reference found for subject %q and version %d", ref.Subject, ref.Version)
		}
		into[ref.Name] = v.schema.text
		if err := s.collect(v.schema.references, into); err != nil {
			return err
		}
	}
	return nil
}

// canonicalJSON returns the JSON text without white space. If normalize is set, it also sorts the members of objects by
// name.
func canonicalJSON(text string, normalize bool) (string, error) {
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(text)); err != nil {
		return "", err
	}
	if !normalize {
		return out.String(), nil
	}
	decoder := json.NewDecoder(&out)
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", err
	}
	var sorted bytes.Buffer
	encoder := json.NewEncoder(&sorted)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSpace(sorted.String()), err
}
