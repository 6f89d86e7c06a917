// Package avro translates values between Avro's binary encoding and JSON. The schema is parsed and checked by a
// library; the values are translated here, directly from bytes to bytes, because a value built in between could be
// many thousand times as large as its encoding.
//
// Reading order:
//   - schema.go: a parsed schema
//   - union.go: which values of unions name their branch
//   - decode.go: binary to JSON
//   - encode.go: JSON to binary
//   - logical.go: decimals and times
package avro

import (
	"errors"
	"fmt"
	"strconv"
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
	name    string // name of the type, by which a union names its branch
	fields  []field
	symbols []string
	items   *node // type of the items of an array, or of the values of a map
	size    int   // size of a fixed type

	precision, scale int // precision and scale of a decimal

	branches []*node
	wrapped  bool // a value of this union names its branch, unless it is null
}

type field struct {
	name     string
	quoted   []byte // "name":
	node     *node
	fallback []byte // default value as JSON; nil: none
}

// Parse parses a schema. References are the schemas that it refers to, those without references first.
func Parse(schema string, references []string) (*Schema, error) {
	var cache avro.SchemaCache
	c := compiler{types: map[string]*node{}}
	for _, text := range append(references[:len(references):len(references)], schema) {
		parsed, err := cache.Parse(text, avro.WithLaxNames(nil))
		if err != nil {
			return nil, fmt.Errorf("parse the Avro schema: %w", err)
		}
		root := parsed.Root()
		if c.root, err = c.compile(root, "", 0); err != nil {
			return nil, err
		}
	}
	for _, u := range c.unions {
		u.wrapped = ambiguous(u.branches)
	}
	return &Schema{root: c.root, name: c.root.name}, nil
}

// Name returns the full name of the schema's type.
func (s *Schema) Name() string { return s.name }

type compiler struct {
	types  map[string]*node
	unions []*node
	root   *node
}

const maxNesting = 1000

var errNesting = errors.New("the Avro schema nests too deeply")

// compile compiles a type; names without a dot are looked up in the namespace first.
func (c *compiler) compile(s *avro.SchemaNode, namespace string, depth int) (*node, error) {
	if depth > maxNesting {
		return nil, errNesting
	}
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
	if s.Name != "" {
		n.name = fullName(s.Namespace, s.Name)
		if defined := c.types[n.name]; defined != nil && len(s.Fields) == 0 && len(s.Symbols) == 0 && k != fixed {
			return defined, nil
		}
		c.types[n.name] = n
		namespace = n.name[:max(0, strings.LastIndexByte(n.name, '.'))]
	}
	return n, c.children(n, s, namespace, depth+1)
}

func (c *compiler) children(n *node, s *avro.SchemaNode, namespace string, depth int) (err error) {
	items := s.Items
	if n.kind == mapKind {
		items = s.Values
	}
	switch n.kind {
	case array, mapKind:
		if items == nil {
			return errors.New("the Avro schema has an array or map without a type of its items")
		}
		n.items, err = c.compile(items, namespace, depth)
		return err
	case union:
		c.unions = append(c.unions, n)
		for i := range s.Branches {
			branch, err := c.compile(&s.Branches[i], namespace, depth)
			if err != nil {
				return err
			}
			n.branches = append(n.branches, branch)
		}
	case record:
		for i := range s.Fields {
			f := field{name: s.Fields[i].Name}
			f.quoted = append(codec.AppendString(nil, f.name), ':')
			if f.node, err = c.compile(&s.Fields[i].Type, namespace, depth); err != nil {
				return err
			}
			if s.Fields[i].HasDefault {
				f.fallback = appendDefault(nil, s.Fields[i].Default)
			}
			n.fields = append(n.fields, f)
		}
	default: // other kinds contain no types
	}
	return nil
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

// appendDefault appends a default value, as the library returns it, as JSON.
func appendDefault(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int32:
		return strconv.AppendInt(dst, int64(v), 10)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float32:
		return appendFloat(dst, float64(v), 32)
	case float64:
		return appendFloat(dst, v, 64)
	case string:
		return codec.AppendString(dst, v)
	case []byte:
		return appendBytes(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendDefault(dst, item)
		}
		return append(dst, ']')
	case map[string]any:
		dst = append(dst, '{')
		first := true
		for name, item := range v {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = appendDefault(append(codec.AppendString(dst, name), ':'), item)
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}
