package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// avroTypes holds the full names of the types that a schema may use.
type avroTypes map[string]bool

// checkAvro checks the structure of an Avro schema, and that the schema uses only types that it or its references
// define.
func checkAvro(text string, used map[string]string) error {
	types := avroTypes{}
	for _, name := range []string{"null", "boolean", "int", "long", "float", "double", "bytes", "string"} {
		types[name] = true
	}
	for name := range used {
		types[name] = true
	}
	// A schema may also use the types of the schemas that it references, which were checked when they were registered.
	// The map has no order, so a schema may be read before another one that defines its types. Therefore all referenced
	// schemas are read as many times as there are schemas.
	for range used {
		for _, referenced := range used {
			_ = types.checkText(referenced)
		}
	}
	return types.checkText(text)
}

func (t avroTypes) checkText(text string) error {
	var schema any
	if err := json.Unmarshal([]byte(text), &schema); err != nil {
		return err
	}
	return t.check(schema, "")
}

func (t avroTypes) check(schema any, namespace string) error {
	switch s := schema.(type) {
	case string:
		if !t[s] && !t[fullName(s, namespace)] {
			return fmt.Errorf("unknown type %q", s)
		}
		return nil
	case []any:
		return t.checkUnion(s, namespace)
	case map[string]any:
		return t.checkComplex(s, namespace)
	default:
		return fmt.Errorf("%v is no type", schema)
	}
}

func (t avroTypes) checkUnion(branches []any, namespace string) error {
	for _, branch := range branches {
		if _, nested := branch.([]any); nested {
			return errors.New("a union is directly in a union")
		}
		if err := t.check(branch, namespace); err != nil {
			return err
		}
	}
	return nil
}

func (t avroTypes) checkComplex(s map[string]any, namespace string) error {
	switch s["type"] {
	case "record", "error":
		name, err := t.define(s, namespace)
		if err != nil {
			return err
		}
		return t.checkFields(s, name)
	case "enum":
		if _, ok := s["symbols"].([]any); !ok {
			return errors.New("an enum has no symbols")
		}
		_, err := t.define(s, namespace)
		return err
	case "fixed":
		if _, ok := s["size"].(float64); !ok {
			return errors.New("a fixed has no size")
		}
		_, err := t.define(s, namespace)
		return err
	case "array":
		return t.check(s["items"], namespace)
	case "map":
		return t.check(s["values"], namespace)
	default:
		return t.check(s["type"], namespace)
	}
}

// define adds the name of a new type to the known names, and returns the full name with the namespace.
func (t avroTypes) define(s map[string]any, namespace string) (string, error) {
	name, _ := s["name"].(string)
	if name == "" {
		return "", fmt.Errorf("a type %v has no name", s["type"])
	}
	if own, ok := s["namespace"].(string); ok {
		namespace = own
	}
	name = fullName(name, namespace)
	t[name] = true
	return name, nil
}

func (t avroTypes) checkFields(s map[string]any, record string) error {
	fields, ok := s["fields"].([]any)
	if !ok {
		return fmt.Errorf("record %s has no fields", record)
	}
	namespace := record[:max(0, strings.LastIndexByte(record, '.'))]
	for _, f := range fields {
		field, _ := f.(map[string]any)
		name, _ := field["name"].(string)
		if name == "" {
			return fmt.Errorf("a field of record %s has no name", record)
		}
		if err := t.check(field["type"], namespace); err != nil {
			return fmt.Errorf("field %s of record %s: %w", name, record, err)
		}
	}
	return nil
}

func fullName(name, namespace string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}
