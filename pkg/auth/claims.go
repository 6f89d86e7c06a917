package auth

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// registered are the claims that this package or its JWT library evaluates. They are refused in another letter case,
// because the library ignores the case of names.
var registered = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "nonce", "azp", "at_hash", "_claim_names", "_claim_sources"}

// checkNames refuses claims that two readers may interpret differently: repeated claims, and registered claims in
// another letter case.
func checkNames(payload []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return refuse("the token's claims are not an object")
	}
	seen := map[string]bool{}
	for decoder.More() {
		var skipped json.RawMessage
		name, err := decoder.Token()
		if err == nil {
			err = decoder.Decode(&skipped)
		}
		text, _ := name.(string)
		switch other := func(r string) bool { return r != text && strings.EqualFold(r, text) }; {
		case err != nil:
			return refuse("the token's claims are not JSON")
		case seen[text]:
			return refuse("the token has a claim twice")
		case slices.ContainsFunc(registered, other):
			return refuse("the token has a registered claim in another letter case")
		}
		seen[text] = true
	}
	return nil
}

// textsAt returns the text at a path, or the texts of the list at the path. A claim whose name is the whole path, dots
// included, comes first.
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
