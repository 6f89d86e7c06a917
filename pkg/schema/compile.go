package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/avro"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/jsonschema"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/proto"
)

// source is a schema in the form in which the registry returned it.
type source struct {
	format entity.Format
	text   string
	refs   []reference // the schemas to which this schema refers; each comes after the schemas to which it refers
}

type reference struct{ name, text string }

func (s source) size() int {
	size := len(s.text)
	for _, r := range s.refs {
		size += len(r.text) + len(r.name)
	}
	return size
}

func (s source) byName() map[string]string {
	all := map[string]string{}
	for _, r := range s.refs {
		all[r.name] = r.text
	}
	return all
}

// compiled is the result of compiling a schema: the compiled schema, or the fault for which it cannot be used. It is
// immutable and safe for concurrent use.
type compiled struct {
	source
	id    int
	guid  string
	fault error // why the schema cannot be used; nil when it can be used

	avro  *avro.Schema
	proto *proto.Schema
	json  *jsonschema.Schema
}

const (
	// compileTime is how long a compilation may take.
	compileTime = 2 * time.Second
	// maxWeight is the maximum memory of a compiled schema, so that it leaves room in the cache for others.
	maxWeight = cacheSize/4 - entrySize
	// smallWeight is the memory of a schema that is compiled beside the large ones. Other topics wait at most smallTime
	// for its end.
	smallWeight = 1 << 20
	smallTime   = 100 * time.Millisecond
)

var (
	errSlow   = fmt.Errorf("the schema takes more than %s to compile", compileTime)
	errWeight = fmt.Errorf("the schema may need more than %d MiB of memory when it is compiled", cacheSize/4>>20)
)

// compiler compiles one large and one small schema at a time. The topics take turns. A compilation cannot be stopped:
// one that takes longer goes on in the background, and only its own topic waits for its end.
type compiler struct {
	turns        turns
	large, small chan struct{}
	build        func(id int, guid string, s source) *compiled
}

func newCompiler() *compiler {
	return &compiler{large: make(chan struct{}, 1), small: make(chan struct{}, 1), build: compile}
}

// compile compiles a schema for a topic. The error is errBusy when too many others wait.
func (c *compiler) compile(ctx context.Context, topic string, id int, guid string, s source) (*compiled, error) {
	slot, hold := c.large, compileTime
	if s.weight() <= smallWeight {
		slot, hold = c.small, smallTime
	}
	done, err := c.turns.take(ctx, topic)
	if err != nil {
		return nil, err
	}
	select {
	case slot <- struct{}{}:
	case <-ctx.Done():
		done()
		return nil, errBusy
	}
	free := time.AfterFunc(hold, func() { <-slot })
	defer func() {
		if free.Stop() {
			<-slot
		}
	}()
	result := make(chan *compiled, 1)
	go func() {
		defer done()
		result <- c.build(id, guid, s)
	}()
	timeout := time.NewTimer(compileTime)
	defer timeout.Stop()
	select {
	case v := <-result:
		return v, nil
	case <-timeout.C:
		return unusable(id, guid, s.format, errSlow), nil
	}
}

var errParser = errors.New("the schema cannot be read: its parser failed")

// unusable is remembered instead of a schema that cannot be used, without its text.
func unusable(id int, guid string, format entity.Format, fault error) *compiled {
	return &compiled{source: source{format: format}, id: id, guid: guid, fault: fault}
}

// compile compiles a schema. It returns no error: if the schema cannot be used, the result contains the fault. So the
// result can be cached, and the schema is not compiled again for every message.
func compile(id int, guid string, s source) (c *compiled) {
	defer func() {
		if fault := recover(); fault != nil {
			c = unusable(id, guid, s.format, errParser)
		}
	}()
	c = &compiled{source: s, id: id, guid: guid}
	if s.weight() <= maxWeight {
		if err := c.build(); err != nil {
			c.fault = errors.New(clip(err.Error())) // shortened, because the error may contain the whole schema
		}
		if c.weight() <= maxWeight {
			return c
		}
	}
	c = unusable(id, guid, s.format, errWeight)
	if s.format == entity.JSONSchema {
		c.fault = nil // its values are shown without a check
	}
	return c
}

// elementSize is how many bytes of memory an element of a compiled schema uses at most: a field, a type, a symbol.
// Measured with schemas of one kind of element, they were 177 for Avro (fields with a union), 1,208 for Protobuf
// (groups) and 881 for JSON Schema (true); typical schemas have half of that, and their comments use little.
var elementSize = map[entity.Format]int{entity.Avro: 250, entity.Protobuf: 1300, entity.JSONSchema: 1000}

// weight returns about how many bytes of memory the schema uses at most when it is compiled. It is known before.
func (s source) weight() int {
	total := weigh(s.format, s.text)
	for _, r := range s.refs {
		total += weigh(s.format, r.text)
	}
	return total
}

// weigh counts the elements of a text by the signs that separate them. Libraries store the full name of each element,
// or its path, so the longest name counts too, as often as names are joined.
func weigh(format entity.Format, text string) int {
	size, elements, depth, deepest, word, longest := len(text), 0, 0, 0, 0, 0
	raw, descriptor := proto.Raw(text)
	if descriptor = descriptor && format == entity.Protobuf; descriptor {
		text = string(raw)
	}
	for i := range len(text) {
		c := text[i]
		switch c {
		case '{', '[', '(', '<':
			depth++
			elements, deepest = elements+1, max(deepest, depth)
		case '}', ']', ')', '>':
			depth--
		case ',', ';':
			elements++
		}
		if word++; c <= ' ' || c >= 0x7f || strings.IndexByte("\"{}[](),;:=", c) >= 0 {
			word = 0
		}
		longest = max(longest, word)
	}
	joined := deepest + 1 // of a field also the name of its type
	switch {
	case descriptor: // a message has 8 bytes or more
		elements, joined = len(text)/8, proto.MaxNesting
	case format == entity.Avro:
		joined = 2 // the namespace and the name
	}
	return 3*size + elements*(elementSize[format]+joined*longest)
}

// weight returns about how many bytes of memory the compiled schema uses at most.
func (c *compiled) weight() int {
	if c.fault != nil {
		return c.size()
	}
	weight := c.source.weight()
	if c.json != nil {
		weight += instructionSize * c.json.Instructions()
	}
	return weight
}

// instructionSize is the memory of one instruction of a regular expression; measured 11 bytes for .{1000}.
const instructionSize = 24

func (c *compiled) build() (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = errParser
		}
	}()
	switch c.format {
	case entity.Avro:
		texts := make([]string, len(c.refs))
		for i, r := range c.refs {
			texts[i] = r.text
		}
		c.avro, err = avro.Parse(c.text, texts)
	case entity.Protobuf:
		c.proto, err = proto.Parse(c.text, c.byName())
	case entity.JSONSchema:
		c.json, err = jsonschema.Parse(c.text, c.byName())
	default:
		return errors.New("the schema has a format that is not Avro, Protobuf or JSON Schema")
	}
	return err
}

var errNotJSON = &codec.Error{Path: "$", Reason: "is not JSON"}

// decode returns the JSON of an encoded part, of at most limit bytes.
func (c *compiled) decode(f frame, limit int) (text []byte, err error) {
	defer recoverError(&err)
	switch c.format {
	case entity.Avro:
		return c.avro.Decode(f.data, limit)
	case entity.Protobuf:
		indexes, data, err := f.indexes()
		if err != nil {
			return nil, err
		}
		return c.proto.Decode(indexes, data, limit)
	default:
		return decodeJSON(f.data, limit)
	}
}

// names returns the names of the members of a decoded part; nil when its schema gives them no others than the JSON has.
func (c *compiled) names(f frame) entity.Names {
	switch {
	case c.avro != nil:
		return c.avro.Names()
	case c.proto != nil:
		indexes, _, _ := f.indexes()
		return c.proto.Names(indexes)
	}
	return nil
}

// decodeJSON returns a value that has a JSON Schema unchanged, because it is JSON already. It returns an error if the
// value is not valid JSON or exceeds the limits.
func decodeJSON(data []byte, limit int) ([]byte, error) {
	switch form := payload.Scan(data); {
	case form.Depth > codec.MaxDepth:
		return nil, &codec.LimitError{Kind: codec.TooDeep}
	case !form.Valid:
		return nil, errNotJSON
	case len(data) > limit:
		return nil, &codec.LimitError{Kind: codec.TooLarge}
	}
	return data, nil
}

// encode returns the encoding of the JSON in text, without a frame. For Protobuf it keeps the fields of original that
// the schema does not know.
func (c *compiled) encode(indexes []int, text []byte, original *proto.Original, limit int) (data []byte, err error) {
	defer recoverError(&err)
	switch c.format {
	case entity.Avro:
		return c.avro.Encode(text, limit)
	case entity.Protobuf:
		return c.proto.Encode(indexes, text, original, limit)
	default:
		if c.json == nil {
			return nil, &codec.Error{Path: "$", Reason: "cannot be checked: " + errWeight.Error()}
		}
		return text, c.json.Check(text)
	}
}

func recoverError(err *error) {
	if fault := recover(); fault != nil {
		*err = &codec.Error{Path: "$", Reason: "cannot be read with its schema"}
	}
}

// name returns the full name of the record type or message type. Some producers use this name in the names of subjects.
func (c *compiled) name(indexes []int) string {
	switch {
	case c.avro != nil:
		return c.avro.Name()
	case c.proto != nil:
		return c.proto.Name(indexes)
	}
	return ""
}
