package entity

// Names say how a schema calls the members of a decoded value, so that masks match whatever its JSON calls them. They
// are safe for concurrent use. A nil Names knows only the names in the JSON.
type Names interface {
	// Member describes the member of an object whose name in the JSON is name. all are the names by which a mask may call
	// it, with name itself; nil without branch means that any mask may. value has the names in its value. branch says that
	// the member only names a branch of a union, or may do so, and is no step of a path.
	Member(name string) (all []string, value Names, branch bool)
	// Element has the names in the elements of an array; nil when none are known.
	Element() Names
	// Known are the names in the JSON of the members that the schema declares; nil for a map and an array.
	Known() []string
}
