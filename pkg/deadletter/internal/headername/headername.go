// Package headername makes lists of headers' names, and brings different spellings of a name into one form (Fold).
package headername

// Prefixes are the words that Fold removes from the beginnings of names.
var Prefixes = []string{"x", "dlq", "dlt", "kafka", "krafka"}

// Fold appends a name to the slice to, in lower case, without separators and without leading words of Prefixes, and
// returns the extended slice.
func Fold(to []byte, name string) []byte {
	start := len(to)
	for i := range len(name) {
		b := name[i]
		if b != '-' && b != '_' && b != '.' {
			if 'A' <= b && b <= 'Z' {
				b += 'a' - 'A'
			}
			to = append(to, b)
			continue
		}
		switch string(to[start:]) {
		case "x", "dlq", "dlt", "kafka", "krafka": // the words in Prefixes
			to = to[:start]
		}
	}
	return to
}

// Family returns a name for each text in rest: the prefix followed by the text.
func Family(prefix string, rest ...string) []string {
	names := make([]string, len(rest))
	for i, name := range rest {
		names[i] = prefix + name
	}
	return names
}

// Set returns the names of all lists as a set.
func Set(lists ...[]string) map[string]bool {
	set := make(map[string]bool)
	for _, list := range lists {
		for _, name := range list {
			set[name] = true
		}
	}
	return set
}
