package console

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
)

const (
	maxNodes    = 2000 // of a tree that is shown
	maxNesting  = 48   // of it
	maxLeaf     = 2000 // bytes of a text in it
	fewNodes    = 150  // a tree of so many is unfolded from the start
	openNesting = 2    // so deep is any other
)

// node is a value of JSON, with what is in it.
type node struct {
	Name     string // of a member; empty for what has none
	Named    bool
	Kind     string // object, array, string, number, boolean, null, masked
	Text     string // of what has nothing in it, as it is written
	More     int    // bytes of a text that are not shown
	Count    int    // members or elements, shown or not
	Children []*node
	Left     int64 // of these, how many are not shown
	Open     bool
}

// tree is a payload to look into.
type tree struct {
	Root  *node
	Nodes int
	Left  int64 // values that are not shown
}

// treeOf reads JSON into a tree of bounded size: what is behind the bound is read,
// and only counted. Names that are given twice stay two. masked are the names of what
// the API has hidden.
func treeOf(raw []byte, masked []string) (*tree, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	b := treeBuilder{decoder: d, masked: maskedPlaces(masked)}
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

type jsonError string

func (e jsonError) Error() string { return string(e) }

const errMoreJSON = jsonError("there is more behind the value")

type treeBuilder struct {
	decoder *json.Decoder
	masked  maskedAt
	nodes   int
	left    int64
}

// value reads one value; nil when there is no room for it any more.
func (b *treeBuilder) value(depth int, at string) (*node, error) {
	token, err := b.decoder.Token()
	if err != nil {
		return nil, err
	}
	room := b.nodes < maxNodes && depth <= maxNesting
	if room {
		b.nodes++
	} else {
		b.left++
	}
	n := leaf(token)
	if token == maskedText && b.masked[at] {
		n.Kind = "masked"
	}
	if delim, ok := token.(json.Delim); ok {
		if err := b.fill(n, delim, depth, at); err != nil {
			return nil, err
		}
	}
	if !room {
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
			name, _ = token.(string)
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
		child.Name, child.Named = visible(clip(200, name)), delim == '{'
		n.Children = append(n.Children, child)
	}
	_, err := b.decoder.Token()
	return err
}

func leaf(token json.Token) *node {
	switch value := token.(type) {
	case string:
		n := &node{Kind: "string"}
		text, all := clipText(value, maxLeaf)
		if n.Text = visible(text); !all {
			n.More = len(value) - len(text)
		}
		return n
	case json.Number:
		return &node{Kind: "number", Text: clip(200, value.String())}
	case bool:
		return &node{Kind: "boolean", Text: strconv.FormatBool(value)}
	default:
		return &node{Kind: "null", Text: "null"}
	}
}

// maskedText is what the API shows in place of what is masked.
const maskedText = "***"

func unfold(n *node, depth int, all bool) {
	n.Open = all || depth < openNesting
	for _, child := range n.Children {
		unfold(child, depth+1, all)
	}
}
