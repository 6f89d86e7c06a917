package auth

import "strings"

// textsAt returns the text, or the texts of the list, that stand at a path. A
// claim may also be called by a name that has dots.
func textsAt(claims map[string]any, path string) []string {
	value, found := claims[path]
	if !found {
		value = walk(claims, strings.Split(path, "."))
	}
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		var texts []string
		for _, item := range value {
			if text, ok := item.(string); ok {
				texts = append(texts, text)
			}
		}
		return texts
	default:
		return nil
	}
}

func walk(claims map[string]any, names []string) any {
	var value any = claims
	for _, name := range names {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[name]
	}
	return value
}
