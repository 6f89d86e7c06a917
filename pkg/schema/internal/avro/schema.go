// Package avro translates values between Avro's binary encoding and JSON. A library parses and checks the schema. This
// package translates the values, directly from bytes to bytes: a value that is built in memory in between could be many
// thousand times as large as its encoding.
//
// Reading order:
//   - schema.go: a parsed schema
//   - union.go: which values of unions name their branch
//   - decode.go: binary to JSON
//   - encode.go: JSON to binary
//   - logical.go: decimals and times
//   - names.go: the names by which masks call the members of values
package avro

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/avro"

	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// Schema is a parsed schema. It is immutable and safe for concurrent use.
type Schema struct {
	root *node
	name string
}

type kind uint8

const (
	null kind = iota
	boolean
	integer
	long
	float
	double
	bytesKind
	text
	fixed
	enum
	array
	mapKind
	record
	union
)

var kinds = map[string]kind{
	"null": null, "boolean": boolean, "int": integer, "long": long, "float": float, "double": double, "bytes": bytesKind,
	"string": text, "fixed": fixed, "enum": enum, "array": array, "map": mapKind, "record": record, "error": record, "union": union,
}

// node is a type of the schema. With recursive types, the nodes form a graph with cycles.
type node struct {
	kind    kind
	logical logical
	name    string // name of the type, which values of a union use to name their branch
	fields  []field
	symbols []string
	items   *node // type of the items of an array, or of the values of a map
	size    int   // size in bytes of the values of a fixed type

	precision, scale int // precision and scale of a decimal

	branches []*node
	wrapped  bool    // whether values of this union name their branch, unless they are null
	objects  []*node // branches of a union that are records and maps, at most maxObjects
	list     *node   // branch of a union that is an array; nil: none

	position map[string]int // by name: the position of a field, a symbol or a branch in its list
}

type field struct {
	name     string
	names    []string // the name and the aliases
	quoted   []byte   // the name as a JSON string, and a colon
	node     *node
	filled   bool // whether the field has a default
	fallback any  // the default, as codec.Value returns it
}

// Parse parses a schema. references are the schemas to which it refers; each comes after the schemas to which it
// refers.
func Parse(schema string, references []string) (*Schema, error) {
	var cache avro.SchemaCache
	c := compiler{types: map[string]*node{}}
	for _, text := range append(references[:len(references):len(references)], schema) {
		document, err := codec.Value([]byte(text))
		if err != nil {
			return nil, errors.New("parse the Avro schema: it is not JSON")
		}
		if c.names += fullNames(document, 0); c.names > maxNames {
			return nil, errNames
		}
		hideDefaults(document)
		plain, err := json.Marshal(document)
		if err != nil {
			return nil, fmt.Errorf("parse the Avro schema: %w", err)
		}
		parsed, err := cache.Parse(string(plain), avro.WithLaxNames(nil))
		if err != nil {
			return nil, fmt.Errorf("parse the Avro schema: %w", err)
		}
		root := parsed.Root()
		if c.root, err = c.compile(root, ""); err != nil {
			return nil, err
		}
	}
	for _, n := range c.named {
		n.findPositions()
	}
	for _, u := range c.unions {
		u.wrapped = ambiguous(u.branches)
		u.findObjects()
	}
	return &Schema{root: c.root, name: c.root.name}, nil
}

// Name returns the full name of the schema's type.
func (s *Schema) Name() string { return s.name }

// findPositions sets position. It is called when the types of all branches are compiled, because a branch has the name
// of its type.
func (n *node) findPositions() {
	n.position = make(map[string]int, len(n.fields)+len(n.symbols)+len(n.branches))
	for i, f := range n.fields {
		n.position[f.name] = i
	}
	for i, name := range n.symbols {
		n.position[name] = i
	}
	for i, b := range slices.Backward(n.branches) {
		if b.kind != null {
			n.position[b.name] = i
		}
	}
}

// find returns the position of the field, symbol or branch with the name; -1 when there is none.
func (n *node) find(name string) int {
	if i, ok := n.position[name]; ok {
		return i
	}
	return -1
}

type compiler struct {
	types  map[string]*node
	unions []*node
	named  []*node // nodes for which findPositions must be called
	root   *node
	names  int
}

// maxNames is the maximum size in bytes of the full names of all types. A long namespace can make these names many
// thousand times as long as the schema.
const maxNames = 16 << 20

var errNames = fmt.Errorf("the full names of the Avro schema have more than %d bytes", maxNames)

// fullNames returns the approximate size in bytes of the full names in a schema.
func fullNames(v any, namespace int) (sum int) {
	switch v := v.(type) {
	case string:
		return namespace + len(v)
	case []any:
		for _, item := range v {
			sum += fullNames(item, namespace)
		}
	case map[string]any:
		if name, ok := v["namespace"].(string); ok {
			namespace = len(name)
		}
		if name, ok := v["name"].(string); ok {
			namespace = max(namespace, strings.LastIndexByte(name, '.'))
		}
		for _, item := range v {
			sum += fullNames(item, namespace)
		}
	}
	return sum
}

// compile compiles a type, whose nesting the library has limited. A name without a dot is looked up in the namespace
// first.
func (c *compiler) compile(s *avro.SchemaNode, namespace string) (*node, error) {
	k, known := kinds[s.Type]
	if !known {
		for _, name := range []string{fullName(namespace, s.Type), s.Type} {
			if n := c.types[name]; n != nil {
				return n, nil
			}
		}
		return nil, fmt.Errorf("the Avro schema refers to %.200q, which is not defined", s.Type)
	}
	n := &node{kind: k, name: s.Type, symbols: s.Symbols, size: s.Size, precision: s.Precision, scale: s.Scale}
	n.logical = logicalOf(n, s.LogicalType)
	if k == record || k == enum || k == union {
		c.named = append(c.named, n)
	}
	if s.Name != "" {
		n.name = fullName(s.Namespace, s.Name)
		if defined := c.types[n.name]; defined != nil && len(s.Fields) == 0 && len(s.Symbols) == 0 && k != fixed {
			return defined, nil
		}
		c.types[n.name] = n
		namespace = n.name[:max(0, strings.LastIndexByte(n.name, '.'))]
	}
	return n, c.children(n, s, namespace)
}

func (c *compiler) children(n *node, s *avro.SchemaNode, namespace string) (err error) {
	items := s.Items
	if n.kind == mapKind {
		items = s.Values
	}
	switch n.kind {
	case array, mapKind:
		if items == nil {
			return errors.New("the Avro schema has an array or map without a type of its items")
		}
		n.items, err = c.compile(items, namespace)
		return err
	case union:
		c.unions = append(c.unions, n)
		for i := range s.Branches {
			branch, err := c.compile(&s.Branches[i], namespace)
			if err != nil {
				return err
			}
			n.branches = append(n.branches, branch)
		}
	case record:
		for i := range s.Fields {
			f := field{name: s.Fields[i].Name, names: append([]string{s.Fields[i].Name}, s.Fields[i].Aliases...)}
			f.quoted = append(codec.AppendString(nil, f.name), ':')
			if f.node, err = c.compile(&s.Fields[i].Type, namespace); err != nil {
				return err
			}
			if value, ok := s.Fields[i].Props[defaultName].(string); ok {
				if f.fallback, err = codec.Value([]byte(value)); err != nil {
					return err
				}
				f.filled = true
			}
			n.fields = append(n.fields, f)
		}
	default: // types of other kinds do not contain types to compile
	}
	return nil
}

// defaultName is the property to which hideDefaults moves the JSON of a field's default.
const defaultName = "dlq-manager.default"

// hideDefaults moves the defaults of fields to properties that the library ignores. Otherwise the library would encode
// the defaults. In a short schema whose records contain each other, these encodings could have 2^100 bytes.
func hideDefaults(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			hideDefaults(item)
		}
	case map[string]any:
		fields, _ := v["fields"].([]any)
		for _, f := range fields {
			f, ok := f.(map[string]any)
			if !ok {
				continue
			}
			delete(f, defaultName)
			if value, has := f["default"]; has {
				text, _ := json.Marshal(value) // cannot fail, because the value was parsed from JSON
				f[defaultName] = string(text)
				delete(f, "default")
			}
		}
		for _, item := range v {
			hideDefaults(item)
		}
	}
}

func fullName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	if strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}
