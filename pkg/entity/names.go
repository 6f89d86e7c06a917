package entity

// Names say how a schema calls the members of a decoded value, so that masks match whatever its JSON calls them. A nil
// Names knows no names but those of the text.
type Names interface {
	// Member describes the member of an object whose JSON name is name. all are the names by which a mask may call it,
	// with name itself; value has the names in its value (nil: none known). branch says that the member only names a
	// branch of a union, and is no step of a path.
	Member(name string) (all []string, value Names, branch bool)
	// Element has the names in the elements of an array.
	Element() Names
}
