package avro

// class is the type of JSON value in which values of an Avro type are written.
type class uint8

const (
	classNull class = iota
	classBool
	classNumber
	classString
	classArray
	classObject
)

func (n *node) class() class {
	switch n.kind {
	case null:
		return classNull
	case boolean:
		return classBool
	case integer, long:
		if n.logical != plain {
			return classString
		}
		return classNumber
	case float, double:
		return classNumber
	case array:
		return classArray
	case mapKind, record:
		return classObject
	default:
		return classString
	}
}

// ambiguous reports whether the values of a union must name their branch, because their JSON alone does not show it. It
// returns true when two branches are written as the same type of JSON value. It also returns true when a record or map
// could look like an object that names a branch.
func ambiguous(branches []*node) bool {
	seen := map[class]bool{}
	names := map[string]bool{}
	for _, b := range branches {
		if b.kind == null {
			continue
		}
		if seen[b.class()] {
			return true
		}
		seen[b.class()] = true
		names[b.name] = true
	}
	for _, b := range branches {
		switch b.kind {
		case mapKind:
			if len(names) > 1 {
				return true
			}
		case record:
			for name := range names { // with one branch per JSON type at most, names is short
				if b.find(name) >= 0 {
					return true
				}
			}
		default:
		}
	}
	return false
}

// plainMap reports whether Decode writes the maps of a union without their branch. A key may be called like the branch,
// so such an object is not read as one that names its branch.
func (n *node) plainMap() bool {
	return !n.wrapped && len(n.objects) > 0 && n.objects[0].kind == mapKind
}
