package console

import "strings"

// maskedAt holds the masked paths of a payload without [*], as a mask applies inside arrays too.
type maskedAt map[string]bool

// noPlace is the path of values below which no path is masked.
const noPlace = ""

func maskedPlaces(names []string) maskedAt {
	var places maskedAt
	for _, name := range names {
		if !strings.HasPrefix(name, "$") {
			continue
		}
		if places == nil {
			places = maskedAt{}
		}
		places[strings.ReplaceAll(name, "[*]", "")] = true
	}
	return places
}

func (m maskedAt) member(at, name string) string {
	if len(m) == 0 || at == noPlace || len(name) > maxMaskedName {
		return noPlace
	}
	at += "." + name
	if !plainName(name) {
		at = at[:len(at)-len(name)-1] + "['" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "[*]", "").Replace(name) + "']"
	}
	for place := range m {
		if strings.HasPrefix(place, at) {
			return at
		}
	}
	return noPlace
}

// maxMaskedName is longer than any name in the masking settings.
const maxMaskedName = 1000

func plainName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}
