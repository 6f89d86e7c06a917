package avro

import (
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Names returns the names that the schema has for the members of its values; nil when its values have no members. A
// field is called by its name and its aliases. A member that names a branch of a union is no step of a path, also where
// Decode names the branch only for some of its values. The key of an entry of a map is a step, or none, so that a mask can
// name a field of all entries.
//
// For a member that only names a branch, Member returns no names. It returns names, and branch, when the union also has
// a record with a field, or a map with a key, of the same name. Decode writes such a union with its branches named.
// The names are of the other reading, and the value has the names of both.
//
// Callers must not change the lists of names: the schema owns them.
func (s *Schema) Names() entity.Names { return s.root.named() }

// named returns the node as Names; nil when no value of the node has names in it.
func (n *node) named() entity.Names {
	switch n.kind {
	case record, array, mapKind, union:
		return n
	default:
		return nil
	}
}

// Member implements entity.Names.
func (n *node) Member(name string) (all []string, value entity.Names, branch bool) {
	switch n.kind {
	case record:
		if i := n.find(name); i >= 0 {
			return n.fields[i].names, n.fields[i].node.named(), false
		}
	case mapKind:
		return []string{name}, n.items.named(), true
	case union:
		return n.unionMember(name)
	default: // other values have no members
	}
	return []string{name}, nil, false
}

// unionMember is Member of a union.
func (n *node) unionMember(name string) (all []string, value entity.Names, branch bool) {
	i := n.find(name)
	if !n.wrapped {
		// at most one branch is written as an object; no field of a record is called like a branch
		switch {
		case i >= 0 && !n.plainMap():
			return nil, n.branches[i].named(), true
		case len(n.objects) > 0:
			return n.objects[0].Member(name)
		}
		return []string{name}, nil, false
	}
	var nodes nodes
	if i >= 0 {
		nodes.add(n.branches[i])
	}
	for _, o := range n.objects {
		switch at := o.find(name); {
		case o.kind == mapKind:
			all = addNames(all, []string{name})
			nodes.add(o.items)
		case at >= 0:
			all = addNames(all, o.fields[at].names)
			nodes.add(o.fields[at].node)
		}
	}
	if i < 0 && len(all) == 0 {
		all = []string{name}
	}
	return all, nodes.named(), i >= 0
}

// Element implements entity.Names.
func (n *node) Element() entity.Names {
	switch {
	case n.kind == array:
		return n.items.named()
	case n.kind == union && n.list != nil:
		return n.list.items.named()
	}
	return nil
}

// maxObjects is the largest number of branches of a union, and of readings of a value, that are searched for a member.
// It is exceeded only by unions whose branches Decode names, so the names of decoded values are found.
const maxObjects = 32

// findObjects sets objects and list.
func (n *node) findObjects() {
	for _, b := range n.branches {
		switch {
		case b.kind == array:
			n.list = b
		case (b.kind == record || b.kind == mapKind) && len(n.objects) < maxObjects:
			n.objects = append(n.objects, b)
		}
	}
}

// nodes are the types that a value may have, where its JSON alone does not show which.
type nodes []*node

func (s *nodes) add(n *node) {
	if n.named() != nil && len(*s) < maxObjects && !slices.Contains(*s, n) {
		*s = append(*s, n)
	}
}

func (s nodes) named() entity.Names {
	switch len(s) {
	case 0:
		return nil
	case 1:
		return s[0]
	}
	return s
}

// Member implements entity.Names.
func (s nodes) Member(name string) (all []string, value entity.Names, branch bool) {
	var values nodes
	for _, n := range s {
		names, inner, named := n.Member(name)
		all = addNames(all, names)
		branch = branch || named
		values.addNames(inner)
	}
	return all, values.named(), branch
}

// Element implements entity.Names.
func (s nodes) Element() entity.Names {
	var values nodes
	for _, n := range s {
		values.addNames(n.Element())
	}
	return values.named()
}

func (s *nodes) addNames(names entity.Names) {
	switch names := names.(type) {
	case *node:
		s.add(names)
	case nodes:
		for _, n := range names {
			s.add(n)
		}
	}
}

// addNames returns a list of the names in both lists, which stay as they are.
func addNames(to, more []string) []string {
	to = to[:len(to):len(to)]
	for _, name := range more {
		if !slices.Contains(to, name) {
			to = append(to, name)
		}
	}
	return to
}

// Known implements entity.Names.
func (n *node) Known() (all []string) {
	for i := range n.fields {
		all = append(all, n.fields[i].name)
	}
	for _, b := range n.branches {
		all = append(append(all, b.name), b.Known()...)
	}
	return all
}

// Known implements entity.Names.
func (s nodes) Known() (all []string) {
	for _, n := range s {
		all = append(all, n.Known()...)
	}
	return all
}
