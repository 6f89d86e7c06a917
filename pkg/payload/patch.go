package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const (
	// MaxOperations is the maximum number of operations in a patch.
	MaxOperations = 200
	// MaxPatched is the maximum size of a patched value, in bytes.
	MaxPatched = 32 << 20
)

// Patch is a JSON Patch (RFC 6902). It never changes and is safe for concurrent use.
type Patch struct {
	operations jsonpatch.Patch
	pointers   []string // the JSON Pointers in the members path and from of all operations
}

// CompilePatch parses a patch. Its errors are an entity.FieldError of the field "patch", or of "patch[i]" for an
// operation. Of the operations on the whole value only add, replace and test are allowed. Operations cannot name a member
// whose name is empty.
func CompilePatch(patch []byte) (*Patch, error) {
	var operations []json.RawMessage
	if err := json.Unmarshal(patch, &operations); err != nil || operations == nil {
		return nil, &entity.FieldError{Field: "patch", Reason: "must be a JSON array of operations (RFC 6902)"}
	}
	if n := len(operations); n == 0 || n > MaxOperations {
		return nil, &entity.FieldError{Field: "patch", Reason: fmt.Sprintf("must have 1 to %d operations, not %d", MaxOperations, n)}
	}
	p := &Patch{}
	for i, raw := range operations {
		pointers, err := checkOperation(raw)
		if err != nil {
			return nil, &entity.FieldError{Field: fmt.Sprintf("patch[%d]", i), Reason: err.Error()}
		}
		p.pointers = append(p.pointers, pointers...)
	}
	var err error
	if p.operations, err = jsonpatch.DecodePatch(patch); err != nil {
		return nil, &entity.FieldError{Field: "patch", Reason: "must be a JSON array of operations (RFC 6902)"}
	}
	return p, nil
}

// checkOperation rejects invalid operations, and operations that the library jsonpatch would apply in another way than
// RFC 6902 says. It returns the JSON Pointers of the operation.
func checkOperation(raw []byte) (pointers []string, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, errors.New("must be an object with op and path")
	}
	op, known := member(members, "op")
	if !known {
		return nil, errors.New("op must be add, remove, replace, move, copy or test")
	}
	path, err := pointer(members, "path")
	if err != nil {
		return nil, err
	}
	value, hasValue := members["value"]
	switch op {
	case "add", "replace", "test":
		switch {
		case !hasValue:
			return nil, fmt.Errorf("%s needs a value", op)
		case path == "" && value[0] != '{' && value[0] != '[':
			return nil, errors.New("the whole value can only be an object or an array here: send the new value itself instead")
		}
		return []string{path}, nil
	case "remove":
		return []string{path}, whole("removed", path)
	case "move", "copy":
		from, err := pointer(members, "from")
		if err == nil {
			err = whole("moved or copied", from, path)
		}
		return []string{from, path}, err
	}
	return nil, fmt.Errorf("op must be add, remove, replace, move, copy or test, not %q", op)
}

func whole(done string, pointers ...string) error {
	if slices.Contains(pointers, "") {
		return fmt.Errorf("the whole value cannot be %s", done)
	}
	return nil
}

func member(members map[string]json.RawMessage, name string) (text string, ok bool) {
	raw, ok := members[name]
	if !ok || raw[0] != '"' {
		return "", false
	}
	return unquote(raw), true
}

func pointer(members map[string]json.RawMessage, name string) (string, error) {
	text, ok := member(members, name)
	if !ok || text != "" && text[0] != '/' {
		return "", fmt.Errorf("%s must be a JSON Pointer such as /customer/id", name)
	}
	parts := strings.Split(text, "/")
	if len(parts) > maxDepth {
		return "", fmt.Errorf("%s has more than %d parts", name, maxDepth)
	}
	for _, part := range parts[1:] {
		if part == "" {
			return "", fmt.Errorf("%s has an empty part: members with an empty name cannot be reached", name)
		}
		if rest := strings.NewReplacer("~0", "", "~1", "").Replace(part); strings.Contains(rest, "~") {
			return "", fmt.Errorf("%s: ~ is written as ~0, and / within a name as ~1", name)
		}
	}
	return text, nil
}

// Paths returns the paths that the patch reads or changes, in the order of its operations. A number in a path is
// returned as [*]. Masks.CoversPatch reports whether the patch touches masked paths.
func (p *Patch) Paths() []Path {
	var all []Path
	for _, text := range p.pointers {
		var path Path
		for _, name := range tokens(text) {
			next := step{name: name}
			if isIndex(name) {
				next = step{each: true}
			}
			path.steps = append(path.steps, next)
		}
		all = append(all, path)
	}
	return all
}

// Apply returns the patched value. Where the patch changes nothing, numbers, strings and the order of members stay the
// same; white space is removed. When an operation cannot be applied, the error is an entity.FieldError of the field
// "patch[i]". When the value is not a JSON object or array, has a duplicate member, or would exceed MaxPatched bytes,
// the error is an entity.FieldError of the field "patch". The texts of errors contain no part of the value.
func (p *Patch) Apply(value []byte) ([]byte, error) {
	c, ok := open(value)
	if !ok || c.kind() != '{' && c.kind() != '[' {
		return nil, &entity.FieldError{Field: "patch", Reason: "the payload is not a JSON object or array"}
	}
	if c.repeats() {
		return nil, &entity.FieldError{Field: "patch", Reason: "the payload has an object with two members of the same name"}
	}
	value = bytes.TrimSpace(value)
	switch result, err := p.apply(value, len(p.operations)); {
	case err != nil:
		return nil, p.explain(value, err)
	case len(result) > MaxPatched:
		return nil, tooLarge()
	default:
		return result, nil
	}
}

func tooLarge() error {
	return &entity.FieldError{Field: "patch", Reason: fmt.Sprintf("the patched payload would be larger than %d bytes", MaxPatched)}
}

func (p *Patch) apply(value []byte, n int) (result []byte, err error) {
	defer func() {
		// The library jsonpatch panics when an operation's pointer leads to a member of a value that an earlier
		// operation has set to null.
		if fault := recover(); fault != nil {
			result, err = nil, jsonpatch.ErrMissing
		}
	}()
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false
	options.EscapeHTML = false
	options.AccumulatedCopySizeLimit = MaxPatched
	return p.operations[:n].ApplyWithOptions(value, options)
}

// explain returns the error for the first operation that cannot be applied. To find it, explain applies beginnings of
// the patch of different lengths.
func (p *Patch) explain(value []byte, err error) error {
	var large *jsonpatch.AccumulatedCopySizeError
	if errors.As(err, &large) {
		return tooLarge()
	}
	at := sort.Search(len(p.operations)-1, func(i int) bool {
		_, err := p.apply(value, i+1)
		return err != nil
	})
	op := p.operations[at]
	path, _ := op.Path()
	reason := fmt.Sprintf("%s %s does not fit the payload", op.Kind(), path)
	switch {
	case errors.Is(err, jsonpatch.ErrTestFailed):
		reason = fmt.Sprintf("test %s: the payload has something else there", path)
	case errors.Is(err, jsonpatch.ErrMissing):
		reason += ": there is nothing at one of its places"
	}
	return &entity.FieldError{Field: fmt.Sprintf("patch[%d]", at), Reason: reason}
}

// repeats reports whether an object has two members of the same name, which JSON readers interpret in different ways.
func (c *cursor) repeats() bool {
	switch c.kind() {
	case '{':
		seen := map[string]bool{}
		return !c.object(func(name []byte) bool {
			text := unquote(name)
			again := seen[text]
			seen[text] = true
			return !again && !c.repeats()
		})
	case '[':
		return !c.array(func() bool { return !c.repeats() })
	}
	c.scalar()
	return false
}
