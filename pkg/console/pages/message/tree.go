package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
)

const (
	maxNodes    = 2000 // nodes of a tree that are shown; further nodes are left out and counted
	maxNesting  = 48   // levels below the root that are shown; deeper values are left out and counted
	maxLeaf     = 2000 // bytes of a text that are shown; the rest is cut off
	fewNodes    = 150  // a tree with at most this many nodes is shown unfolded
	openNesting = 2    // levels of a larger tree that are shown unfolded
)

type node struct {
	Name     string // name of the member; "" when the node has no name
	Named    bool
	Kind     string // object, array, string, number, boolean, null, masked
	Text     string // source text of a value without children
	More     int    // bytes of the text that are not shown
	Count    int    // number of members or elements, shown or not
	Children []*node
	Left     int64 // number of children that are not shown
	Open     bool
}

type tree struct {
	Root  *node
	Nodes int
	Left  int64 // number of values in the whole tree that are not shown
}

// treeOf parses JSON into a tree of limited size, and counts the values that are left out. It keeps members with
// duplicate names. masked holds the paths of masked values.
func treeOf(raw []byte, masked []string) (*tree, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	b := treeBuilder{decoder: d, raw: raw, masked: maskedPaths(masked)}
	root, err := b.value(0, "$")
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errMoreJSON
	}
	t := &tree{Root: root, Nodes: b.nodes, Left: b.left}
	unfold(root, 0, b.nodes <= fewNodes)
	return t, nil
}

var errMoreJSON = errors.New("there is more after the value")

type treeBuilder struct {
	decoder *json.Decoder
	raw     []byte
	masked  maskedAt
	nodes   int
	left    int64
}

func (b *treeBuilder) value(depth int, at string) (*node, error) {
	token, err := b.decoder.Token()
	if err != nil {
		return nil, err
	}
	fits := b.nodes < maxNodes && depth <= maxNesting
	if fits {
		b.nodes++
	} else {
		b.left++
	}
	if text, ok := token.(string); ok {
		token = b.text(text)
	}
	n := leaf(token)
	if token == api.Mask && b.masked[at] {
		n.Kind = "masked"
	}
	if delim, ok := token.(json.Delim); ok {
		if err := b.fill(n, delim, depth, at); err != nil {
			return nil, err
		}
	}
	if !fits {
		return nil, nil
	}
	return n, nil
}

func (b *treeBuilder) fill(n *node, delim json.Delim, depth int, at string) error {
	n.Kind = "array"
	if delim == '{' {
		n.Kind = "object"
	}
	for b.decoder.More() {
		name, inside := strconv.Itoa(n.Count), at
		if delim == '{' {
			token, err := b.decoder.Token()
			if err != nil {
				return err
			}
			name = b.text(token.(string))
			inside = b.masked.member(at, name)
		}
		child, err := b.value(depth+1, inside)
		if err != nil {
			return err
		}
		if n.Count++; child == nil {
			n.Left++
			continue
		}
		child.Name, child.Named = format.Visible(format.Clip(200, name)), delim == '{'
		n.Children = append(n.Children, child)
	}
	_, err := b.decoder.Token()
	return err
}

// text returns the string that the decoder has read last. The decoder replaces half of a surrogate pair, which is not a
// character. In its place, text returns the escape sequence in the source.
func (b *treeBuilder) text(decoded string) string {
	if !strings.ContainsRune(decoded, utf8.RuneError) {
		return decoded
	}
	end := int(b.decoder.InputOffset())
	var whole string
	if err := json.Unmarshal(keepHalves(literalAtEnd(b.raw[:end])), &whole); err != nil {
		return decoded
	}
	return whole
}

// literalAtEnd returns the string literal at the end of raw.
func literalAtEnd(raw []byte) []byte {
	for i := len(raw) - 2; i >= 0; i-- {
		if raw[i] != '"' {
			continue
		}
		escapes := 0
		for escapes < i && raw[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return raw[i:]
		}
	}
	return raw
}

// keepHalves changes a string literal so that decoding it gives, for each half of a surrogate pair, the text of its
// escape sequence.
func keepHalves(literal []byte) []byte {
	var out []byte
	for i := 0; i < len(literal); i++ {
		n := 1
		switch high := surrogate(literal[i:]); {
		case literal[i] != '\\':
		case high == 0:
			n = min(2, len(literal)-i)
		case high < lowSurrogates && surrogate(literal[i+6:]) >= lowSurrogates:
			n = 12
		default:
			out, n = append(out, '\\'), 6
		}
		out = append(out, literal[i:i+n]...)
		i += n - 1
	}
	return out
}

const lowSurrogates = 0xdc00

// surrogate returns the number of the surrogate if the text begins with its escape; 0 otherwise.
func surrogate(text []byte) uint64 {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	if code, err := strconv.ParseUint(string(text[2:6]), 16, 16); err == nil && code >= 0xd800 && code <= 0xdfff {
		return code
	}
	return 0
}

func leaf(token json.Token) *node {
	switch value := token.(type) {
	case string:
		n := &node{Kind: "string"}
		text, all := format.ClipBytes(value, maxLeaf)
		if n.Text = format.Visible(text); !all {
			n.More = len(value) - len(text)
		}
		return n
	case json.Number:
		return &node{Kind: "number", Text: format.Clip(200, value.String())}
	case bool:
		return &node{Kind: "boolean", Text: strconv.FormatBool(value)}
	default:
		return &node{Kind: "null", Text: "null"}
	}
}

func unfold(n *node, depth int, all bool) {
	n.Open = all || depth < openNesting
	for _, child := range n.Children {
		unfold(child, depth+1, all)
	}
}

// maskedAt holds the masked paths of a payload without [*], because a mask also applies inside arrays.
type maskedAt map[string]bool

// noPath stands for the path of a value if neither the value nor anything in it is masked.
const noPath = ""

func maskedPaths(names []string) maskedAt {
	var paths maskedAt
	for _, name := range names {
		if !strings.HasPrefix(name, "$") {
			continue
		}
		if paths == nil {
			paths = maskedAt{}
		}
		paths[strings.ReplaceAll(name, "[*]", "")] = true
	}
	return paths
}

func (m maskedAt) member(at, name string) string {
	if len(m) == 0 || at == noPath || len(name) > maxMaskedName {
		return noPath
	}
	at += "." + name
	if !plainName(name) {
		at = at[:len(at)-len(name)-1] + "['" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "[*]", "").Replace(name) + "']"
	}
	for path := range m {
		if strings.HasPrefix(path, at) {
			return at
		}
	}
	return noPath
}

// maxMaskedName is longer than any name that the masking settings contain. Longer names cannot be masked, so they are
// not compared.
const maxMaskedName = 1000

func plainName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}
