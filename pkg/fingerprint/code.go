package fingerprint

import "strings"

// isCode reports whether a whole number is an HTTP status or an error code, which the title keeps. The word before the
// number, or the text after the number, decides.
func (t *titler) isCode(length int) bool {
	if length == 3 && t.isStatus() {
		return true
	}
	if len(t.word) > 12 {
		return false
	}
	switch strings.ToLower(t.word) {
	case "status", "statuscode", "http", "httpstatus", "responsecode":
		return length == 3
	case "error":
		return length >= 3 && length <= 5 // shorter numbers are counts
	case "code", "err", "ora", "tns", "pls", "sqlstate", "sqlcode", "errno", "errcode", "errorcode", "winerror":
		return length <= 5
	}
	return false
}

// isStatus reports whether three digits are an HTTP status: a number from 100 to 599 that a status name such as "Not
// Found" follows. After a word such as "got", such a number is also a status, unless a word follows that it may count,
// as in "got 404 rows".
func (t *titler) isStatus() bool {
	if t.s[t.i] < '1' || t.s[t.i] > '5' {
		return false
	}
	rest := t.s[t.i+3:]
	for _, name := range [...]string{
		" Client Error", " Server Error", " OK", " Bad Request", " Unauthorized", " Forbidden", " Not Found", " Method Not Allowed", " Request Timeout",
		" Conflict", " Gone", " Unprocessable", " Too Many Requests", " Internal Server Error", " Bad Gateway",
		" Service Unavailable", " Gateway Time",
	} {
		if strings.HasPrefix(rest, name) {
			return true
		}
	}
	switch strings.ToLower(t.word[:min(len(t.word), 12)]) {
	case "got", "response", "responded", "answered":
	default:
		return false
	}
	if !isSpace(at(rest, 0)) || !isLetter(at(rest, 1)) {
		return true
	}
	switch word := rest[1:run(rest[:min(len(rest), 10)], 1, isLetter)]; word {
	case "from", "for", "on", "in", "at", "by", "when", "while", "after", "with", "but", "instead", "and", "or", "calling", "response", "error":
		return true
	}
	return false
}

// isNamedCode reports whether the word before a text of letters and digits says that the text is an error code:
// errorCode=E1001, SQLSTATE 42P01.
func (t *titler) isNamedCode(text string) bool {
	if len(t.word) > 12 || len(text) > 9 {
		return false
	}
	switch strings.ToLower(t.word) {
	case "sqlstate":
		return len(text) == 5 && run(text, 0, isUpper) == 5
	case "code", "status", "error", "err", "errcode", "errorcode", "statuscode":
		letters := run(text, 0, func(b byte) bool { return isUpper(b) && !isDigit(b) })
		numbers := len(text) - letters
		return letters > 0 && letters <= 4 && numbers >= 2 && numbers <= 5 && run(text, letters, isDigit) == len(text)
	}
	return false
}

func isUpper(b byte) bool { return isDigit(b) || b >= 'A' && b <= 'Z' }

// maxKeyValue is the maximum length in bytes of key values that keyValue recognises.
const maxKeyValue = 256

// keyValue consumes the values of a database key, such as (5) in (id)=(5). Databases write a key's values into error
// messages after the names of the key's columns.
func (t *titler) keyValue() bool {
	if t.i < 2 || t.s[t.i-1] != '=' || t.s[t.i-2] != ')' {
		return false
	}
	window := t.s[:min(len(t.s), t.i+maxKeyValue)]
	for end := t.i + 1; end < len(window); end++ {
		if window[end] == ')' && (end+1 == len(t.s) || isSpace(at(t.s, end+1)) || strings.IndexByte(".,;\"'", at(t.s, end+1)) >= 0) {
			t.out = append(t.out, '(')
			t.put("<id>", end)
			return true
		}
	}
	return false
}
