package payload

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Scalar returns the canonical form of a JSON string, number, true, false or null. All ways to write the same value
// have the same canonical form: 42, 42.0 and 4.2e1 have one form, whatever the size and precision of the number. ok is
// false for any other JSON.
func Scalar(value []byte) (text string, ok bool) {
	c, ok := open(value)
	if !ok || c.kind() == '{' || c.kind() == '[' {
		return "", false
	}
	return canonical(c.scalar()), true
}

// ParseScalars returns the canonical forms of the values that a text in a query may mean. A text without quotes means
// the string with this text, and also the number, true, false or null that is written this way. A text in double quotes
// means only the string.
func ParseScalars(text string) []string {
	text = strings.TrimSpace(text)
	scalar, ok := Scalar([]byte(text))
	if ok && text[0] == '"' {
		return []string{scalar}
	}
	all := []string{quote(strings.ToValidUTF8(text, "\uFFFD"))}
	if ok {
		all = append(all, scalar)
	}
	return all
}

func canonical(raw []byte) string {
	switch raw[0] {
	case '"':
		return quote(unquote(raw))
	case 't', 'f', 'n':
		return string(raw)
	}
	return canonicalNumber(string(raw))
}

// canonicalNumber returns the digits of a number without zeros at both ends, and the power of ten: 4200 becomes 42e2,
// and 0.5 becomes 5e-1. It works on the text and not on a number, so size and precision have no limit.
func canonicalNumber(raw string) string {
	mantissa, power, _ := strings.Cut(strings.ToLower(raw), "e")
	exponent := int64(0)
	if power != "" {
		n, err := strconv.ParseInt(power, 10, 48)
		if err != nil {
			return raw // a number with such a large exponent equals only numbers that are written in the same way
		}
		exponent = n
	}
	sign := ""
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= int64(len(fraction))
	digits := strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(short))
	switch {
	case short == "":
		return "0"
	case exponent == 0:
		return sign + short
	}
	return sign + short + "e" + strconv.FormatInt(exponent, 10)
}

// quote returns a JSON string in its canonical form.
func quote(text string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		return strconv.Quote(text) // cannot happen, because every string can be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}
